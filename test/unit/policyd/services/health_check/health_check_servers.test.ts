import assert from "node:assert/strict";
import { setImmediate as turn } from "node:timers/promises";
import { DrawbridgeError } from "../../../../../kernel/error.ts";
import { type Address, parseAddress } from "../../../../../kernel/ip/address.ts";
import { Budget } from "../../../../../policyd/lib/budget.ts";
import { FakeClock } from "../../../../support/fake_clock.ts";
import { recordingLogger } from "../../../../support/recording_logger.ts";
import type { HealthCheck } from "../../../../../policyd/services/health_check/health_check.ts";
import { HealthCheckServers } from "../../../../../policyd/services/health_check/health_check_servers.ts";
import { type Answer, placeId } from "../../../../../policyd/http/http_listener.ts";

/** Servers on a machine in memory, where each place belongs to one server at a time. */
function setUp() {
  const open = new Map<string, Answer>();
  const taken = new Set<string>();
  const clock = new FakeClock();
  const logger = recordingLogger();
  const state = {
    addresses: ["0.0.0.0"] as readonly string[],
    refuses: false,
    isHealthy: true,
    isWithoutIpv6: false,
    attempts: 0,
  };
  const servers = new HealthCheckServers({
    listener: {
      listen: async (place, answer) => {
        const id = placeId(place);
        state.attempts++;
        if (state.isWithoutIpv6 && place.family === 6) throw new DrawbridgeError("ERR_UNAVAILABLE", "EAFNOSUPPORT");
        if (taken.has(id) || open.has(id)) throw new DrawbridgeError("ERR_UNAVAILABLE", `EADDRINUSE ${id}`);
        open.set(id, answer);
        await turn();
        return { close: () => void open.delete(id) };
      },
    },
    clock,
    logger,
    addresses: (): readonly Address[] => {
      if (state.refuses) throw new DrawbridgeError("ERR_NETLINK", "dump addresses: ENOBUFS");
      return state.addresses.map((text) => parseAddress(text));
    },
    addressPeriod: 10_000,
    isProxyHealthy: () => state.isHealthy,
    budget: new Budget({ share: 1, pool: 2 }),
  });
  const settle = async (): Promise<void> => {
    for (let i = 0; i < 5; i++) {
      await turn();
      clock.pass(0);
    }
  };
  const reported = (id: string): readonly [number, string] => {
    const { status, body } = open.get(id)?.("/", true) ?? assert.fail(`nothing listens on ${id}`);
    return [status, (JSON.parse(typeof body === "string" ? body : "") as { service: { name: string } }).service.name];
  };
  return { servers, open, taken, clock, logger, state, settle, reported };
}

function check(name: string, count: number, port = 30_000, namespace = "n"): HealthCheck {
  return { key: `${namespace}/${name}`, namespace, name, port, localEndpoints: new Map([[4, count]]) };
}

describe("services/health_check servers", () => {
  it("LB-14 DP-04: of two Services with one number the first by name has it, and the other is reported and gets it later", async () => {
    const { servers, settle, reported, open } = setUp();
    servers.replace("n/b", check("b", 1));
    servers.rulesInForce();
    await settle();
    servers.replace("n/a", check("a", 1));
    servers.rulesInForce();
    await settle();
    assert.deepEqual(reported("0.0.0.0 30000"), [200, "a"]);
    assert.deepEqual(servers.problems(), [
      "Service n/b: healthCheckNodePort 30000 is Service n/a's; expected a number of its own",
    ]);
    servers.replace("n/a", undefined);
    assert.deepEqual(reported("0.0.0.0 30000"), [503, "b"], "the other gets 200 only when its rules are in force");
    servers.rulesInForce();
    assert.deepEqual(reported("0.0.0.0 30000"), [200, "b"]);
    assert.deepEqual(servers.problems(), []);
    servers.replace("n/b", check("b", 1, 30_001));
    servers.rulesInForce();
    await settle();
    assert.deepEqual([...open.keys()], ["0.0.0.0 30001"]);
    servers.replace("n/b", undefined);
    assert.equal(open.size, 0);
  });

  it("D11 LB-14: a dual-stack Service's check on a kernel without IPv6 is answered over IPv4 and reports no problem", async () => {
    const { servers, state, settle, open, logger } = setUp();
    state.isWithoutIpv6 = true;
    state.addresses = ["0.0.0.0", "::"];
    servers.replace("n/a", { ...check("a", 1), localEndpoints: new Map([[4, 1] as const, [6, 1] as const]) });
    servers.rulesInForce();
    await settle();
    assert.deepEqual([[...open.keys()], servers.problems(), logger.lines], [["0.0.0.0 30000"], [], []]);
  });

  it("a server that is removed while it is being opened does not stay open, and is not retried", async () => {
    const { servers, taken, clock, state, settle, open } = setUp();
    servers.rulesInForce();
    servers.replace("n/a", check("a", 1));
    servers.replace("n/a", undefined);
    await settle();
    assert.equal(open.size, 0);
    taken.add("0.0.0.0 30000");
    servers.replace("n/a", check("a", 1));
    await settle();
    servers.stop();
    const { attempts } = state;
    clock.pass(60_000);
    await settle();
    assert.equal(state.attempts, attempts);
  });

  it("NODE-04 LB-14: the last addresses are kept while the kernel refuses to list them, which is logged once and retried", async () => {
    const { servers, clock, logger, state, settle, open } = setUp();
    state.addresses = ["192.0.2.1"];
    servers.replace("n/a", check("a", 1));
    servers.rulesInForce();
    await settle();
    state.addresses = ["192.0.2.2"];
    state.refuses = true;
    servers.replace("n/b", check("b", 1, 30_001));
    servers.addressesChanged();
    clock.pass(30_000);
    await settle();
    assert.deepEqual([...open.keys()], ["192.0.2.1 30000", "192.0.2.1 30001"]);
    assert.equal(logger.lines.length, 1);
    assert.match(
      servers.problems().join(),
      /^health checks: .* as before; it is tried again: dump addresses: ENOBUFS$/,
    );
    state.refuses = false;
    clock.pass(10_000);
    await settle();
    assert.deepEqual([...open.keys()], ["192.0.2.2 30000", "192.0.2.2 30001"]);
    assert.deepEqual([servers.problems(), logger.lines.length], [[], 1]);
  });

  it("SHARE-07: a namespace with more checks than there is room for keeps its first servers, another has its share, and a refused check is served when room is free", async () => {
    const { servers, clock, settle, open } = setUp();
    for (let port = 1; port <= 9; port++) servers.replace(`n/${port}`, check(String(port), 1, port));
    servers.rulesInForce();
    servers.replace("m/a", check("a", 1, 10, "m"));
    await settle();
    const first = ["0.0.0.0 1", "0.0.0.0 2", "0.0.0.0 3", "0.0.0.0 10"];
    assert.deepEqual([...open.keys()], first);
    assert.equal(servers.problems().filter((problem) => problem.includes("no other is free")).length, 6);
    servers.replace("n/4", undefined);
    servers.replace("m/a", undefined);
    servers.replace("n/2", undefined);
    clock.pass(30_000);
    await settle();
    assert.deepEqual([...open.keys()], ["0.0.0.0 1", "0.0.0.0 3", "0.0.0.0 5"]);
    for (let port = 1; port <= 9; port++) servers.replace(`n/${port}`, undefined);
    for (let port = 1; port <= 3; port++) servers.replace(`n/${port}`, check(String(port), 1, port));
    await settle();
    assert.equal(open.size, 3, "each closed server has given its room back");
  });

  it("SHARE-07: a change of one check tries no other again, and each refused server is retried at a pace of its own", async () => {
    const { servers, taken, clock, logger, state, settle } = setUp();
    servers.rulesInForce();
    taken.add("0.0.0.0 30000");
    servers.replace("n/a", check("a", 1));
    await settle();
    for (const wait of [200, 400, 800]) {
      clock.pass(wait);
      await settle();
    }
    assert.equal(state.attempts, 4);
    for (let port = 1; port <= 9; port++) {
      servers.replace(`m/${port}`, check(String(port), 1, 30_000 + port, "m"));
      servers.replace("n/b", check("b", port, 30_020));
      await settle();
    }
    clock.pass(1500);
    await settle();
    const refused = logger.lines.filter(({ fields }) => fields?.["service"] === "n/a");
    assert.deepEqual(
      refused.map(({ fields }) => fields?.["retryMilliseconds"]),
      [200, 400, 800, 1600],
    );
    clock.pass(100);
    await settle();
    assert.equal(logger.lines.filter(({ fields }) => fields?.["service"] === "n/a").length, 5);
  });
});
