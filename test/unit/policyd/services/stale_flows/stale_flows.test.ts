import assert from "node:assert/strict";
import { setImmediate as turn } from "node:timers/promises";
import type { ConntrackEntry } from "../../../../../kernel/conntrack/entry.ts";
import { type ConntrackFilter, matchesFilter } from "../../../../../kernel/conntrack/filter.ts";
import { DrawbridgeError } from "../../../../../kernel/error.ts";
import { parseAddress } from "../../../../../kernel/ip/address.ts";
import { FakeClock } from "../../../../support/fake_clock.ts";
import type { SetDifference } from "../../../../../policyd/ruleset/difference.ts";
import { recordingLogger } from "../../../../support/recording_logger.ts";
import { INET_TABLE } from "../../../../../policyd/ruleset/table_part.ts";
import { endpointMaps } from "../../../../../policyd/services/rules/endpoint_maps.ts";
import { StaleFlows } from "../../../../../policyd/services/stale_flows/stale_flows.ts";
import type { ServedFrontend } from "../../../../../policyd/services/stale_flows/served_frontends.ts";
import { udpEntry } from "../../../../support/services/udp_entry.ts";

const ID = "4 174063626 udp 53";
const VIP = "10.96.0.10";

/** A frontend with a cluster IP and endpoints at port 5353. */
function frontend(...targets: readonly string[]): ReadonlyMap<string, ServedFrontend> {
  return new Map([
    [
      ID,
      {
        family: 4,
        frontend: { type: "cluster", address: parseAddress(VIP), port: 53 },
        targets: targets.map((target) => `${target} 5353`),
      },
    ],
  ]);
}

/** The deletion of stale flows on a machine in memory. */
function setUp(entries: readonly ConntrackEntry[] = []) {
  const state = { entries, rounds: [] as (readonly ConntrackFilter[])[], refuses: false, during: () => {} };
  const clock = new FakeClock();
  const stale = new StaleFlows({
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
      nodeAddresses: () => new Set([parseAddress("192.0.2.1")]),
    },
    clock,
    logger: recordingLogger(),
    servesNodePorts: () => true,
  });
  /** Lets time pass, and carries out what becomes due. */
  const pass = async (milliseconds: number): Promise<void> => {
    for (let left = milliseconds; left >= 0; left -= 500) {
      clock.pass(Math.min(left, 500));
      for (let turns = 3; turns > 0; turns--) await turn();
    }
  };
  return { stale, state, clock, pass };
}

describe("services/stale_flows: the time of a round", () => {
  const flow = udpEntry([VIP, 53], ["10.244.1.2", 5353]);

  it("SVC-27: flows are checked only when the rules are in force, in a separate turn", async () => {
    const { stale, state, pass } = setUp([flow]);
    stale.replace("n/a", frontend("10.244.1.2"));
    stale.rulesInForce({ isWhole: true, differences: [] });
    await pass(2000);
    assert.equal(state.entries.length, 1);
    state.rounds.length = 0;
    stale.replace("n/a", frontend("10.244.1.3"));
    await pass(60_000);
    assert.equal(state.rounds.length, 0);
    stale.rulesInForce({ isWhole: false, differences: [] });
    assert.equal(state.rounds.length, 0);
    await pass(0);
    assert.deepEqual([state.rounds.length, state.entries.length, stale.status().deleted], [1, 0, 1]);
    await pass(60_000);
    assert.equal(state.rounds.length, 1);
  });

  it("SVC-27: a change while a round waits or runs is checked when its own rules are in force", async () => {
    const { stale, state, pass } = setUp([flow]);
    const other = new Map([["4 udp 1", { family: 4, frontend: { type: "node port", port: 1 }, targets: [] }]] as const);
    stale.replace("n/a", frontend("10.244.1.2"));
    stale.rulesInForce({ isWhole: true, differences: [] });
    await pass(2000);
    state.rounds.length = 0;
    stale.replace("n/b", new Map([...other].map(([id, one]) => [id, { ...one, targets: ["10.244.1.9 1"] }])));
    stale.replace("n/b", other);
    stale.rulesInForce({ isWhole: false, differences: [] });
    stale.replace("n/a", frontend("10.244.1.3"));
    await pass(60_000);
    assert.deepEqual([state.rounds.length, state.entries.length], [1, 1]);
    stale.rulesInForce(undefined);
    await pass(2000);
    assert.deepEqual([state.rounds.length, state.entries.length], [2, 0]);
  });

  it("SVC-27: an endpoint that becomes ready during a round keeps its new flows", async () => {
    const [toGone, toKept, toNew] = ["10.244.1.2", "10.244.1.3", "10.244.1.4"].map((target) =>
      udpEntry([VIP, 53], [target, 5353]),
    );
    assert.ok(toGone && toKept && toNew);
    const { stale, state, pass } = setUp();
    stale.replace("n/a", frontend("10.244.1.2", "10.244.1.3"));
    stale.rulesInForce({ isWhole: true, differences: [] });
    await pass(2000);
    state.entries = [toGone, toKept];
    stale.replace("n/a", frontend("10.244.1.3"));
    stale.rulesInForce({ isWhole: false, differences: [] });
    state.during = () => {
      stale.replace("n/a", frontend("10.244.1.3", "10.244.1.4"));
      stale.rulesInForce({ isWhole: false, differences: [] });
      state.entries = [...state.entries, toNew];
      state.during = () => {};
    };
    await pass(5000);
    assert.deepEqual(state.entries, [toKept, toNew]);
  });

  it("SVC-27: a Service that is deleted and created again during a round keeps its flows", async () => {
    for (const isGoneBefore of [true, false]) {
      const { stale, state, pass } = setUp();
      const [toFormer, toLatter] = [flow, udpEntry([VIP, 53], ["10.244.1.9", 5353])];
      stale.replace("n/a", frontend("10.244.1.2", "10.244.1.3"));
      stale.rulesInForce({ isWhole: true, differences: [] });
      await pass(2000);
      state.entries = [toFormer];
      stale.replace("n/a", isGoneBefore ? new Map() : frontend("10.244.1.2"));
      stale.rulesInForce({ isWhole: false, differences: [] });
      state.during = () => {
        stale.replace("n/a", new Map());
        stale.replace("n/a", frontend("10.244.1.2", "10.244.1.9"));
        stale.rulesInForce({ isWhole: false, differences: [] });
        state.entries = [...state.entries, toLatter];
        state.during = () => {};
      };
      await pass(5000);
      assert.deepEqual(state.entries, [toFormer, toLatter], `gone before: ${isGoneBefore}`);
    }
  });

  it("SVC-27: an endpoint that goes during a round loses its flows when its own rules are in force", async () => {
    const { stale, state, pass } = setUp();
    stale.replace("n/a", frontend("10.244.1.2", "10.244.1.3"));
    stale.rulesInForce({ isWhole: true, differences: [] });
    await pass(2000);
    state.entries = [flow];
    stale.replace("n/a", frontend("10.244.1.2"));
    stale.rulesInForce({ isWhole: false, differences: [] });
    state.during = () => stale.replace("n/a", frontend("10.244.1.4"));
    await pass(5000);
    assert.deepEqual(state.entries, [flow]);
    stale.rulesInForce({ isWhole: false, differences: [] });
    await pass(5000);
    assert.deepEqual(state.entries, []);
  });

  it("a burst causes one round a second, and changes without UDP cause none", async () => {
    const { stale, state, pass } = setUp();
    for (let i = 0; i < 200; i++) {
      stale.replace("n/a", frontend(`10.244.1.${i}`));
      stale.rulesInForce({ isWhole: false, differences: [] });
      await pass(20);
    }
    await pass(2000);
    assert.ok(state.rounds.length >= 4 && state.rounds.length <= 6, String(state.rounds.length));
    state.rounds.length = 0;
    stale.rulesInForce({ isWhole: false, differences: [] });
    await pass(2000);
    assert.equal(state.rounds.length, 0);
  });

  it("SVC-27 DAEMON-09: a clock that is set back delays no round", async () => {
    const { stale, state, clock, pass } = setUp([flow]);
    stale.replace("n/a", frontend("10.244.1.2"));
    stale.rulesInForce({ isWhole: true, differences: [] });
    await pass(500);
    clock.set(-7_200_000);
    stale.replace("n/a", frontend("10.244.1.3"));
    stale.rulesInForce({ isWhole: false, differences: [] });
    await pass(1000);
    assert.deepEqual([state.rounds.length, state.entries.length], [2, 0]);
  });

  it("a round that the kernel refuses is reported and retried until it succeeds", async () => {
    const { stale, state, pass } = setUp([flow]);
    stale.replace("n/a", frontend("10.244.1.2"));
    stale.replace("n/a", frontend());
    state.refuses = true;
    stale.rulesInForce({ isWhole: false, differences: [] });
    await pass(3000);
    assert.ok(state.rounds.length >= 3);
    assert.deepEqual(stale.problems(), ["stale UDP flows: no answer; it is tried again"]);
    state.refuses = false;
    await pass(1000);
    assert.deepEqual([state.entries.length, stale.problems()], [0, []]);
  });

  it("SVC-27: after the start all flows are checked, also of frontends that went while no daemon was running", async () => {
    const gone = udpEntry(["10.96.0.77", 99], ["10.244.9.9", 1000]);
    const byPort = udpEntry(["192.0.2.1", 30_099], ["10.244.9.9", 1000]);
    const foreign = udpEntry(["10.96.0.77", 99], ["10.244.9.8", 1000]);
    const tcpKey = udpEntry(["10.96.0.78", 99], ["10.244.9.9", 1000]);
    const kept = udpEntry([VIP, 53], ["10.244.1.3", 5353]);
    const { stale, state, pass } = setUp([flow, gone, byPort, foreign, tcpKey, kept]);
    stale.replace("n/a", frontend("10.244.1.3"));
    const number = (text: string): number => Number(parseAddress(text));
    const difference = (name: string, key: readonly (string | number)[]): SetDifference => {
      const set = endpointMaps().sets.find((one) => one.name === name) ?? assert.fail(name);
      const table = { ...INET_TABLE, sets: [], chains: [] };
      return {
        table,
        set,
        deleted: [{ key, data: [number("10.244.9.9"), 1000] }],
        added: [],
        addedKeys: [],
        addedKept: [],
      };
    };
    stale.rulesInForce({
      isWhole: true,
      differences: [
        difference("service4_2", [number("10.96.0.77"), "udp", 99, 1]),
        difference("service4_1", [number("10.96.0.78"), "tcp", 99]),
        difference("local_port4_1", ["udp", 30_099]),
      ],
    });
    await pass(0);
    assert.deepEqual(state.entries, [foreign, tcpKey, kept]);
  });

  it("after stop no round runs", async () => {
    const { stale, state, pass } = setUp();
    stale.replace("n/a", frontend("10.244.1.2"));
    stale.rulesInForce({ isWhole: false, differences: [] });
    stale.stop();
    await pass(5000);
    assert.equal(state.rounds.length, 0);
  });
});
