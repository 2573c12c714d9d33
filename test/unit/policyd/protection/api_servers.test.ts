import assert from "node:assert/strict";
import { setImmediate as turn } from "node:timers/promises";
import { type Address, formatAddress, parseAddress } from "../../../../kernel/ip/address.ts";
import { FakeClock } from "../../../support/fake_clock.ts";
import { ApiServers } from "../../../../policyd/protection/api_servers.ts";

function setUp() {
  const clock = new FakeClock();
  const names = new Map<string, readonly Address[]>();
  const others: URL[] = [];
  const protectedSets: string[] = [];
  let waits: Promise<void> = Promise.resolve();
  const unanswered = new Set<string>();
  const servers = new ApiServers({
    others: () => others,
    resolve: async (name) =>
      unanswered.has(name) ? new Promise(() => {}) : (names.get(name) ?? assert.fail(`no address of ${name}`)),
    clock,
    protect: async (sockets) => {
      protectedSets.push(sockets.map(({ address, port }) => `${formatAddress(address)} ${port}`).join(", "));
      await waits;
    },
  });
  const settle = async (): Promise<void> => {
    for (let left = 10; left > 0; left--) await turn();
  };
  return {
    clock,
    names,
    others,
    unanswered,
    protectedSets,
    servers,
    settle,
    hold: (until: Promise<void>) => void (waits = until),
  };
}

describe("policyd/protection: the API servers that a node uses", () => {
  it("CLAIM-04 a request waits until its server's address is protected, and a further one to that server does not wait", async () => {
    const { servers, protectedSets, settle, hold } = setUp();
    const { promise, resolve } = Promise.withResolvers<void>();
    hold(promise);
    let isSent = false;
    const request = servers.before(new URL("https://[2001:db8::1]:6443/")).then(() => (isSent = true));
    await settle();
    assert.deepEqual([protectedSets, isSent], [["2001:db8::1 6443"], false]);
    resolve();
    await request;
    await servers.before(new URL("https://[2001:db8::1]:6443/"));
    assert.deepEqual(protectedSets, ["2001:db8::1 6443"]);
    await servers.before(new URL("https://192.0.2.7/"));
    assert.deepEqual(protectedSets, ["2001:db8::1 6443", "192.0.2.7 443"]);
    servers.stop();
  });

  for (const [what, url] of [
    ["a kernel that does not answer delays a request", "https://192.0.2.7/"],
    ["an unanswered name in the kubelet's file delays a request to an address", "https://192.0.2.7/"],
    ["an unanswered name in the kubelet's file delays a request to a name", "https://api.example:6443/"],
  ] as const) {
    it(`CLAIM-04 ${what} for at most three seconds`, async () => {
      const { servers, clock, names, others, unanswered, hold, settle } = setUp();
      names.set("api.example", [parseAddress("192.0.2.1")]);
      if (what.includes("kernel")) hold(new Promise(() => {}));
      else {
        unanswered.add("kubelet.example");
        others.push(new URL("https://kubelet.example:6443/"));
        servers.start();
      }
      let isSent = false;
      const request = servers.before(new URL(url)).then(() => (isSent = true));
      await settle();
      clock.pass(2999);
      await settle();
      assert.equal(isSent, false);
      clock.pass(1);
      await request;
      servers.stop();
    });
  }

  it("CLAIM-04 all addresses of a name are protected, also later ones, and the last ones while the name does not resolve", async () => {
    const { servers, clock, names, protectedSets, settle } = setUp();
    names.set("api.example", [parseAddress("192.0.2.2"), parseAddress("192.0.2.1")]);
    await servers.before(new URL("https://api.example:6443/"));
    assert.deepEqual(protectedSets, ["192.0.2.1 6443, 192.0.2.2 6443"]);
    names.set("api.example", [parseAddress("192.0.2.3")]);
    clock.pass(30_000);
    await settle();
    assert.equal(protectedSets.at(-1), "192.0.2.3 6443");
    names.delete("api.example");
    clock.pass(30_000);
    await settle();
    await servers.before(new URL("https://api.example:6443/"));
    assert.equal(protectedSets.at(-1), "192.0.2.3 6443");
    servers.stop();
  });

  it("CLAIM-04 the kubelet's server is protected beside the daemon's own, and followed while no request is made", async () => {
    const { servers, clock, others, protectedSets, settle } = setUp();
    others.push(new URL("https://127.0.0.1:6444/"));
    servers.start();
    await settle();
    assert.deepEqual(protectedSets, ["127.0.0.1 6444"]);
    await servers.before(new URL("https://192.0.2.7/"));
    assert.equal(protectedSets.at(-1), "192.0.2.7 443, 127.0.0.1 6444");
    others.splice(0, 1, new URL("https://192.0.2.9:6443/"));
    clock.pass(30_000);
    await settle();
    assert.equal(protectedSets.at(-1), "192.0.2.7 443, 192.0.2.9 6443");
    servers.stop();
    others.length = 0;
    clock.pass(60_000);
    await settle();
    assert.equal(protectedSets.at(-1), "192.0.2.7 443, 192.0.2.9 6443", "nothing is protected after stop");
  });
});
