import assert from "node:assert/strict";
import { setImmediate as turn } from "node:timers/promises";
import type { ConntrackEntry } from "../../../../../kernel/conntrack/entry.ts";
import { type ConntrackFilter, matchesFilter } from "../../../../../kernel/conntrack/filter.ts";
import { DrawbridgeError } from "../../../../../kernel/error.ts";
import { parseAddress } from "../../../../../kernel/ip/address.ts";
import type { SetDifference } from "../../../../../policyd/ruleset/difference.ts";
import { INET_TABLE } from "../../../../../policyd/ruleset/table_part.ts";
import { FrontendHolders } from "../../../../../policyd/services/elements/arbitration.ts";
import { endpointMaps } from "../../../../../policyd/services/rules/endpoint_maps.ts";
import { ServedServices } from "../../../../../policyd/services/stale_flows/served_frontends.ts";
import { StaleFlows } from "../../../../../policyd/services/stale_flows/stale_flows.ts";
import { FakeClock } from "../../../../support/fake_clock.ts";
import { recordingLogger } from "../../../../support/recording_logger.ts";
import { indexed, readScenario } from "../../../../support/services/scenario.ts";
import { udpEntry } from "../../../../support/services/udp_entry.ts";

const VIP = "10.96.0.10";
const NODE = "192.0.2.1";
const OTHER_NODE = "192.0.2.2";

interface EndpointSpec {
  readonly address: string;
  readonly conditions?: Readonly<Record<string, boolean>>;
}

/** A Service with the port 53 of UDP and TCP and a node port, and its slice. */
function manifest(name: string, clusterIp: string, endpoints: readonly EndpointSpec[], spec: object = {}): string {
  const service = {
    apiVersion: "v1",
    kind: "Service",
    metadata: { name },
    spec: {
      clusterIPs: [clusterIp],
      type: "NodePort",
      ports: [
        { name: "dns", port: 53, protocol: "UDP", nodePort: 30_053 },
        { name: "tcp", port: 53, protocol: "TCP" },
      ],
      ...spec,
    },
  };
  const slice = {
    apiVersion: "discovery.k8s.io/v1",
    kind: "EndpointSlice",
    metadata: { name: `${name}-1`, labels: { "kubernetes.io/service-name": name } },
    addressType: clusterIp.includes(":") ? "IPv6" : "IPv4",
    ports: [
      { name: "dns", port: 5353, protocol: "UDP" },
      { name: "tcp", port: 5353, protocol: "TCP" },
    ],
    endpoints: endpoints.map(({ address, ...rest }) => ({ addresses: [address], nodeName: "node2", ...rest })),
  };
  return `---\n${JSON.stringify(service)}\n---\n${JSON.stringify(slice)}\n`;
}

/** The Service `a` at {@link VIP} with these endpoints. */
function withEndpoints(...addresses: readonly string[]): string {
  const endpoints = addresses.map((address) => ({ address }));
  return manifest("a", VIP, endpoints);
}

/** The deletion of stale flows on a machine in memory. */
function setUp(entries: readonly ConntrackEntry[] = []) {
  const state = { entries, rounds: [] as (readonly ConntrackFilter[])[], refuses: false, during: () => {} };
  const clock = new FakeClock();
  const holders = new FrontendHolders();
  const stale = new StaleFlows({
    services: new ServedServices(),
    flows: {
      delete: async (asked, isMeant) => {
        state.rounds.push(asked);
        if (state.refuses) throw new DrawbridgeError("ERR_NETLINK", "no answer");
        await turn();
        state.during();
        const left = state.entries.filter(
          (entry) => !(asked.some((filter) => matchesFilter(filter, entry)) && isMeant(entry)),
        );
        const deleted = state.entries.length - left.length;
        state.entries = left;
        return deleted;
      },
      nodeAddresses: () => new Set([NODE, OTHER_NODE].map((one) => parseAddress(one))),
    },
    clock,
    logger: recordingLogger(),
    servesNodePorts: (address) => address === parseAddress(NODE),
  });
  /** Reports these Services as compiled. */
  const tell = (text: string): void => {
    const objects = readScenario(text);
    const { index, context } = indexed(objects, "node1");
    for (const object of objects) if (object.kind === "Service") holders.replace(object.key, object, context);
    for (const object of objects) {
      if (object.kind !== "Service") continue;
      stale.replace(object.key, { service: object, slices: index.slicesOf(object.key), context, holders });
    }
  };
  const remove = (name: string): void => {
    holders.replace(`default/${name}`, undefined, indexed([], "node1").context);
    stale.replace(`default/${name}`, undefined);
  };
  const inForce = (isWhole = false, differences: readonly SetDifference[] = []): void =>
    stale.rulesInForce({ isWhole, differences });
  /** Lets time pass, and carries out what becomes due. */
  const pass = async (milliseconds: number): Promise<void> => {
    for (let left = milliseconds; left >= 0; left -= 500) {
      clock.pass(Math.min(left, 500));
      for (let turns = 3; turns > 0; turns--) await turn();
    }
  };
  /** Has everything in force, and forgets the rounds so far. */
  const settle = async (): Promise<void> => {
    inForce();
    await pass(2000);
    state.rounds.length = 0;
  };
  /** Has a round check flows, and returns whether each is deleted. */
  const areDeleted = async (...flows: readonly ConntrackEntry[]): Promise<readonly boolean[]> => {
    state.entries = flows;
    inForce();
    await pass(2000);
    return flows.map((flow) => !state.entries.includes(flow));
  };
  return { stale, state, clock, tell, remove, inForce, pass, settle, areDeleted };
}

describe("services/stale_flows: the time of a round", () => {
  const flow = udpEntry([VIP, 53], ["10.244.1.2", 5353]);

  it("SVC-27: flows are checked only when the rules are in force, in a separate turn", async () => {
    const { stale, state, tell, inForce, pass, settle } = setUp([flow]);
    tell(withEndpoints("10.244.1.2"));
    await settle();
    assert.equal(state.entries.length, 1);
    tell(withEndpoints("10.244.1.3"));
    await pass(60_000);
    assert.equal(state.rounds.length, 0);
    inForce();
    assert.equal(state.rounds.length, 0);
    await pass(0);
    assert.deepEqual([state.rounds.length, state.entries.length, stale.status().deleted], [1, 0, 1]);
    await pass(60_000);
    assert.equal(state.rounds.length, 1);
  });

  it("SVC-27: an endpoint that becomes ready during a round keeps its new flows", async () => {
    const [toGone, toKept, toNew] = ["10.244.1.2", "10.244.1.3", "10.244.1.4"].map((target) =>
      udpEntry([VIP, 53], [target, 5353]),
    );
    assert.ok(toGone && toKept && toNew);
    const { state, tell, inForce, pass, settle } = setUp();
    tell(withEndpoints("10.244.1.2", "10.244.1.3"));
    await settle();
    state.entries = [toGone, toKept];
    tell(withEndpoints("10.244.1.3"));
    inForce();
    state.during = () => {
      tell(withEndpoints("10.244.1.3", "10.244.1.4"));
      inForce();
      state.entries = [...state.entries, toNew];
      state.during = () => {};
    };
    await pass(5000);
    assert.deepEqual(state.entries, [toKept, toNew]);
  });

  it("SVC-27: a Service that is deleted and created again during a round keeps its flows", async () => {
    for (const isGoneBefore of [true, false]) {
      const { state, tell, remove, inForce, pass, settle } = setUp();
      const [toFormer, toLatter] = [flow, udpEntry([VIP, 53], ["10.244.1.9", 5353])];
      tell(withEndpoints("10.244.1.2", "10.244.1.3"));
      await settle();
      state.entries = [toFormer];
      if (isGoneBefore) remove("a");
      else tell(withEndpoints("10.244.1.2"));
      inForce();
      state.during = () => {
        remove("a");
        tell(withEndpoints("10.244.1.2", "10.244.1.9"));
        inForce();
        state.entries = [...state.entries, toLatter];
        state.during = () => {};
      };
      await pass(5000);
      assert.deepEqual(state.entries, [toFormer, toLatter], `gone before: ${isGoneBefore}`);
    }
  });

  it("SVC-27: a Service that goes during a round loses its flows when its own rules are in force", async () => {
    const { state, tell, remove, inForce, pass, settle } = setUp();
    tell(withEndpoints("10.244.1.2", "10.244.1.3"));
    await settle();
    state.entries = [flow];
    tell(withEndpoints("10.244.1.2"));
    inForce();
    state.during = () => remove("a");
    await pass(5000);
    assert.deepEqual([state.rounds.length, state.entries.length], [1, 1]);
    state.during = () => {};
    inForce();
    await pass(5000);
    assert.deepEqual(state.entries, []);
  });

  it("a burst causes one round a second, and changes without UDP cause none", async () => {
    const { state, tell, inForce, pass } = setUp();
    for (let i = 0; i < 200; i++) {
      tell(withEndpoints(`10.244.1.${i}`));
      inForce();
      await pass(20);
    }
    await pass(2000);
    assert.ok(state.rounds.length >= 4 && state.rounds.length <= 6, String(state.rounds.length));
    state.rounds.length = 0;
    tell(manifest("b", "10.96.0.11", [], { ports: [{ port: 80 }] }));
    inForce();
    await pass(2000);
    assert.equal(state.rounds.length, 0);
  });

  it("SVC-27 DAEMON-09: a clock that is set back delays no round", async () => {
    const { state, clock, tell, inForce, pass } = setUp([flow]);
    tell(withEndpoints("10.244.1.2"));
    inForce();
    await pass(500);
    clock.set(-7_200_000);
    tell(withEndpoints("10.244.1.3"));
    inForce();
    await pass(1000);
    assert.deepEqual([state.rounds.length, state.entries.length], [2, 0]);
  });

  it("SVC-27: a round that the kernel refuses is reported and retried until it succeeds", async () => {
    const { stale, state, tell, remove, inForce, pass } = setUp([flow]);
    tell(withEndpoints("10.244.1.2"));
    remove("a");
    state.refuses = true;
    inForce();
    await pass(3000);
    assert.ok(state.rounds.length >= 3);
    assert.deepEqual(stale.problems(), ["stale UDP flows: no answer; it is tried again"]);
    state.refuses = false;
    await pass(1000);
    assert.deepEqual([state.entries.length, stale.problems()], [0, []]);
  });

  it("SVC-27: after the start all flows are checked, also of frontends that went while no daemon was running", async () => {
    const gone = udpEntry(["10.96.0.77", 99], ["10.244.9.9", 1000]);
    const byPort = udpEntry([NODE, 30_099], ["10.244.9.9", 1000]);
    const foreign = udpEntry(["10.96.0.77", 99], ["10.244.9.8", 1000]);
    const tcpKey = udpEntry(["10.96.0.78", 99], ["10.244.9.9", 1000]);
    const kept = udpEntry([VIP, 53], ["10.244.1.3", 5353]);
    const { state, tell, inForce, pass } = setUp([flow, gone, byPort, foreign, tcpKey, kept]);
    tell(withEndpoints("10.244.1.3"));
    const number = (text: string): number => Number(parseAddress(text));
    const difference = (name: string, key: readonly (string | number)[]): SetDifference => {
      const set = endpointMaps().sets.find((one) => one.name === name) ?? assert.fail(name);
      const table = { ...INET_TABLE, sets: [], chains: [] };
      const deleted = [{ key, data: [number("10.244.9.9"), 1000] }];
      return { table, set, deleted, added: [], addedKeys: [], addedKept: [] };
    };
    inForce(true, [
      difference("service4_2", [number("10.96.0.77"), "udp", 99, 1]),
      difference("service4_1", [number("10.96.0.78"), "tcp", 99]),
      difference("local_port4_1", ["udp", 30_099]),
    ]);
    await pass(0);
    assert.deepEqual(state.entries, [foreign, tcpKey, kept]);
  });

  it("after stop no round runs", async () => {
    const { stale, state, tell, inForce, pass } = setUp();
    tell(withEndpoints("10.244.1.2"));
    inForce();
    stale.stop();
    await pass(5000);
    assert.equal(state.rounds.length, 0);
  });
});

for (const [family, { vip, first, second, other }] of [
  [4, { vip: VIP, first: "10.244.1.2", second: "10.244.2.3", other: "10.244.3.4" }],
  [6, { vip: "fd00:96::10", first: "fd00:244:1::2", second: "fd00:244:2::3", other: "fd00:244:3::4" }],
] as const) {
  describe(`services/stale_flows: staleness of flows, IPv${family}`, () => {
    const untranslated = udpEntry([vip, 53], [vip, 53]);
    const toFirst = udpEntry([vip, 53], [first, 5353]);
    const toSecond = udpEntry([vip, 53], [second, 5353]);

    it("SVC-27: a flow to a former endpoint is stale, and one to a present endpoint is not", async () => {
      const { tell, areDeleted } = setUp();
      tell(manifest("a", vip, [{ address: first }, { address: second }]));
      tell(manifest("a", vip, [{ address: second }]));
      assert.deepEqual(await areDeleted(toFirst, toSecond), [true, false]);
      tell(manifest("a", vip, [{ address: second }]));
      const otherPort = udpEntry([vip, 53], [second, 5354]);
      const sameDigits = udpEntry([vip, 53], [second, 535]);
      assert.deepEqual(await areDeleted(otherPort, sameDigits), [true, true]);
      tell(manifest("a", vip, [{ address: second }]));
      const noFrontends = [udpEntry([vip, 54], [first, 5353]), udpEntry([other, 53], [first, 5353])];
      assert.deepEqual(await areDeleted(...noFrontends), [false, false]);
    });

    it("SVC-27: without endpoints all flows to former ones are stale, and an untranslated one, which is refused, is not", async () => {
      const { tell, areDeleted } = setUp();
      tell(manifest("a", vip, [{ address: first }]));
      tell(manifest("a", vip, []));
      assert.deepEqual(await areDeleted(toFirst, untranslated), [true, false]);
    });

    it("SVC-27: a flow that was not translated is stale as soon as there is an endpoint", async () => {
      const { tell, areDeleted } = setUp();
      tell(manifest("a", vip, []));
      assert.deepEqual(await areDeleted(untranslated), [false]);
      tell(manifest("a", vip, [{ address: first }]));
      assert.deepEqual(await areDeleted(untranslated, toFirst), [true, false]);
    });

    it("SVC-27: flows to the endpoints of a Service that is gone are stale, and flows of other translations are not", async () => {
      const { tell, remove, areDeleted } = setUp();
      tell(manifest("a", vip, [{ address: first }]));
      remove("a");
      const foreign = udpEntry([vip, 53], [other, 5353]);
      assert.deepEqual(await areDeleted(toFirst, foreign, untranslated), [true, false, false]);
    });

    it("SVC-27: flows to the endpoints of a port that a Service has no more are stale", async () => {
      const { tell, settle, areDeleted } = setUp();
      tell(manifest("a", vip, [{ address: first }]));
      await settle();
      tell(manifest("a", vip, [{ address: first }], { ports: [{ name: "tcp", port: 53, protocol: "TCP" }] }));
      assert.deepEqual(await areDeleted(toFirst, untranslated), [true, false]);
    });

    it("TERM-04: an endpoint that terminates and serves keeps its flows, and one that no longer serves loses them", async () => {
      const { tell, areDeleted } = setUp();
      const ending = (serving: boolean): EndpointSpec => ({
        address: first,
        conditions: { ready: false, serving, terminating: true },
      });
      tell(manifest("a", vip, [{ address: first }]));
      tell(manifest("a", vip, [ending(true), { address: second }]));
      assert.deepEqual(await areDeleted(toFirst), [false]);
      tell(manifest("a", vip, [ending(false), { address: second }]));
      assert.deepEqual(await areDeleted(toFirst), [true]);
    });

    it("SVC-27 ETP-02: policies and hints send new clients elsewhere and make no flow stale", async () => {
      const { tell, areDeleted } = setUp();
      tell(manifest("a", vip, [{ address: first }, { address: other }]));
      const local = { externalTrafficPolicy: "Local", internalTrafficPolicy: "Local" };
      tell(manifest("a", vip, [{ address: first }], local));
      assert.deepEqual(await areDeleted(udpEntry([vip, 53], [other, 5353]), toFirst), [true, false]);
    });

    it("SVC-27: a flow to an endpoint that is its own frontend is not stale, and one to a former endpoint there is", async () => {
      const { tell, areDeleted } = setUp();
      const own = { externalIPs: [first], ports: [{ name: "dns", port: 5353, protocol: "UDP" }] };
      const flow = udpEntry([first, 5353], [first, 5353]);
      tell(manifest("a", vip, [{ address: first }], own));
      assert.deepEqual(await areDeleted(flow), [false]);
      tell(manifest("a", vip, [{ address: second }], own));
      assert.deepEqual(await areDeleted(flow), [true]);
    });

    it("SVC-27: a frontend that moves from one Service to another at once is checked by the new one", async () => {
      for (const order of ["ab", "ba"]) {
        const { tell, remove, settle, areDeleted } = setUp();
        tell(manifest("a", vip, [{ address: first }]));
        await settle();
        for (const step of order) {
          if (step === "a") remove("a");
          else tell(manifest("b", vip, [{ address: second }]));
        }
        // The daemon compiles a Service again when it gets a frontend.
        tell(manifest("b", vip, [{ address: second }]));
        assert.deepEqual(await areDeleted(toFirst, toSecond), [true, false], order);
      }
    });
  });
}

describe("services/stale_flows: node ports", () => {
  it("SVC-27 SVC-18: a node port counts only on the node's own addresses, and after frontends by address", async () => {
    const { tell, areDeleted } = setUp();
    const flow = udpEntry([NODE, 30_053], ["10.244.1.2", 5353]);
    tell(withEndpoints("10.244.1.2", "10.244.2.3"));
    tell(withEndpoints("10.244.2.3"));
    const notServing = udpEntry([OTHER_NODE, 30_053], ["10.244.1.2", 5353]);
    const notOwn = udpEntry(["192.0.2.3", 30_053], ["10.244.1.2", 5353]);
    const present = udpEntry([NODE, 30_053], ["10.244.2.3", 5353]);
    assert.deepEqual(await areDeleted(flow, notServing, notOwn, present), [true, false, false, false]);
    const taken = { type: "ClusterIP", externalIPs: [NODE], ports: [{ name: "dns", port: 30_053, protocol: "UDP" }] };
    tell(manifest("b", "10.96.0.11", [{ address: "10.244.1.2" }], taken));
    tell(withEndpoints());
    assert.deepEqual(await areDeleted(flow), [false], "another Service has the port at this address");
  });
});
