import assert from "node:assert/strict";
import { setImmediate as turn } from "node:timers/promises";
import { DrawbridgeError } from "../../../../kernel/error.ts";
import { FakeClock } from "../../../support/fake_clock.ts";
import type { Answer, HttpListener } from "../../../../policyd/services/health_check/http_listener.ts";
import { placeId } from "../../../../policyd/services/health_check/listening_addresses.ts";
import { PROXY_MODE_PLACES, proxyMode } from "../../../../policyd/services/proxy_mode.ts";

/** Places that are free unless they are taken, with the answers of the open ones. */
class FakeListener implements HttpListener {
  readonly taken = new Set<string>();
  readonly open = new Map<string, Answer>();
  tries = 0;

  async listen(...[place, answer]: Parameters<HttpListener["listen"]>): ReturnType<HttpListener["listen"]> {
    const id = placeId(place);
    this.tries++;
    if (this.taken.has(id)) throw new DrawbridgeError("ERR_UNAVAILABLE", `${id}: EADDRINUSE`);
    this.open.set(id, answer);
    return { close: () => void this.open.delete(id) };
  }
}

const IDS = PROXY_MODE_PLACES.map(placeId);

describe("policyd/services/proxy_mode", () => {
  let listener: FakeListener;
  let clock: FakeClock;

  beforeEach(() => {
    listener = new FakeListener();
    clock = new FakeClock();
  });

  it("HEALTH-08: both loopback addresses answer once Services are in force, until the daemon stops", async () => {
    const follower = proxyMode({ listener, clock });
    await turn();
    assert.equal(listener.open.size, 0);
    follower.rulesInForce(undefined);
    follower.rulesInForce(undefined);
    await turn();
    assert.deepEqual([...listener.open.keys()], IDS);
    for (const answer of listener.open.values()) {
      const { status, headers, body } = answer("/proxyMode?verbose", true);
      assert.deepEqual([status, headers["Content-Type"], body], [200, "text/plain; charset=utf-8", "nftables"]);
      assert.equal(answer("/metrics", true).status, 404);
    }
    follower.stop();
    assert.equal(listener.open.size, 0);
  });

  it("HEALTH-08: a port that another program has stays with it, and is served when it is free", async () => {
    const [first = ""] = IDS;
    listener.taken.add(first);
    const follower = proxyMode({ listener, clock });
    follower.rulesInForce(undefined);
    await turn();
    assert.deepEqual([...listener.open.keys()], IDS.slice(1));
    assert.deepEqual(follower.problems(), []);
    listener.taken.clear();
    clock.pass(30_000);
    await turn();
    assert.equal(listener.open.has(first), true);
    follower.stop();
    clock.pass(60_000);
    await turn();
    assert.equal(listener.open.size, 0);
  });

  it("HEALTH-08: a daemon that stops while its port is taken does not retry", async () => {
    for (const id of IDS) listener.taken.add(id);
    const follower = proxyMode({ listener, clock });
    follower.rulesInForce(undefined);
    await turn();
    follower.stop();
    listener.taken.clear();
    clock.pass(60_000);
    await turn();
    assert.equal(listener.tries, IDS.length);
  });
});
