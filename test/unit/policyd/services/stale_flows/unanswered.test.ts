import assert from "node:assert/strict";
import { setImmediate as turn } from "node:timers/promises";
import { type ConntrackEntry, ConntrackStatus } from "../../../../../kernel/conntrack/entry.ts";
import { matchesFilter } from "../../../../../kernel/conntrack/filter.ts";
import { DrawbridgeError } from "../../../../../kernel/error.ts";
import { parseAddress } from "../../../../../kernel/ip/address.ts";
import type { Element } from "../../../../../kernel/nftables/model/object.ts";
import { FakeClock } from "../../../../support/fake_clock.ts";
import type { SetDifference } from "../../../../../policyd/ruleset/difference.ts";
import { recordingLogger } from "../../../../support/recording_logger.ts";
import { INET_TABLE } from "../../../../../policyd/ruleset/table_part.ts";
import { frontendId } from "../../../../../policyd/services/elements/arbitration.ts";
import { endpointMaps } from "../../../../../policyd/services/rules/endpoint_maps.ts";
import {
  StaleFlows,
  type StaleFlowsParts,
  UNANSWERED_CONNECTIONS,
} from "../../../../../policyd/services/stale_flows/stale_flows.ts";
import { udpEntry } from "../../../../support/services/udp_entry.ts";

const VIP = "10.96.0.10";
const NODE = "192.0.2.1";
const OTHER_NODE = "192.0.2.2";
const VIP_ID = frontendId({ type: "cluster", address: parseAddress(VIP), port: 80 }, "TCP", 4);
const PORT_ID = frontendId({ type: "node port", port: 30_080 }, "TCP", 4);
const GONE = "10.244.3.2";
const OTHER = "10.244.1.3";

function connection(
  asked: readonly [string, number],
  answering: readonly [string, number],
  status: number = ConntrackStatus.DESTINATION_NAT,
): ConntrackEntry {
  const flow = udpEntry(asked, answering);
  const [original, reply] = [flow.original, flow.reply].map((tuple) => ({ ...tuple, protocol: "tcp" as const }));
  assert.ok(original !== undefined && reply !== undefined);
  return { ...flow, original, reply, status };
}

/** An endpoint of a frontend as in the maps of the kernel's table: by address, or by number for a node port. */
function element(key: readonly (string | number)[], target: string): Element {
  return { key, data: [Number(parseAddress(target)), 8080] };
}

const byAddress = (target: string, slot: number): Element =>
  element([Number(parseAddress(VIP)), "tcp", 80, slot], target);

function difference(name: string, deleted: readonly Element[], added: readonly Element[] = []): SetDifference {
  const set = endpointMaps().sets.find((one) => one.name === name) ?? assert.fail(name);
  const table = { ...INET_TABLE, sets: [], chains: [] };
  return { table, set, deleted, added, addedKeys: [], addedKept: [] };
}

function setUp(entries: readonly ConntrackEntry[]) {
  const state = { entries, walks: 0, refuses: false };
  const clock = new FakeClock();
  const parts: StaleFlowsParts = {
    flows: {
      delete: async (asked, isMeant) => {
        if (asked.length > 0) state.walks++;
        if (state.refuses) throw new DrawbridgeError("ERR_NETLINK", "no answer");
        await turn();
        const before = state.entries.length;
        state.entries = state.entries.filter(
          (entry) => !(asked.some((filter) => matchesFilter(filter, entry)) && isMeant(entry)),
        );
        return before - state.entries.length;
      },
      nodeAddresses: () => new Set([NODE, OTHER_NODE].map((one) => parseAddress(one))),
    },
    clock,
    logger: recordingLogger(),
    targetsOf: () => (id) => ([VIP_ID, PORT_ID].includes(id) ? new Set([`${OTHER} 8080`]) : undefined),
    servesNodePorts: (address) => address !== parseAddress(OTHER_NODE),
  };
  const unanswered = new StaleFlows(parts, UNANSWERED_CONNECTIONS);
  const pass = async (seconds: number): Promise<void> => {
    for (let left = seconds * 2; left > 0; left--) {
      clock.pass(500);
      for (let turns = 3; turns > 0; turns--) await turn();
    }
  };
  const commit = (...differences: readonly SetDifference[]): void =>
    unanswered.rulesInForce({ isWhole: false, differences });
  return { unanswered, state, pass, commit };
}

describe("services/stale_flows: connections that were never answered", () => {
  it("SVC-30: unanswered connections to an endpoint that a frontend has lost are deleted, by address and by node port", async () => {
    const toGone = connection([VIP, 80], [GONE, 8080]);
    const byPort = connection([NODE, 30_080], [GONE, 8080]);
    const left = [
      connection([VIP, 80], [GONE, 8080], ConntrackStatus.SEEN_REPLY | ConntrackStatus.DESTINATION_NAT),
      connection([VIP, 80], [OTHER, 8080]),
      connection(["10.96.0.11", 80], [GONE, 8080]),
      udpEntry([VIP, 80], [GONE, 8080]),
    ];
    const never = connection([VIP, 80], [GONE, 8081]);
    const ofGone = connection(["10.96.0.12", 80], [GONE, 8080]);
    const { unanswered, state, pass, commit } = setUp([toGone, byPort, never, ofGone, ...left]);
    commit(
      difference("service4_2", [byAddress(GONE, 0), byAddress(OTHER, 1)]),
      difference("service4_1", [], [element([Number(parseAddress(VIP)), "tcp", 80], OTHER)]),
      difference("port4_1", [element(["tcp", 30_080], GONE)]),
      difference("service4_1", [element([Number(parseAddress("10.96.0.12")), "tcp", 80], GONE)]),
    );
    await pass(7);
    assert.deepEqual(state.entries, left);
    assert.equal(unanswered.deleted, 4);
  });

  it("SVC-30: a server has three seconds to answer before its connections are deleted", async () => {
    const { state, pass, commit } = setUp([connection([VIP, 80], [GONE, 8080])]);
    await pass(2.5);
    commit(difference("service4_2", [byAddress(GONE, 0)]));
    await pass(2.5);
    assert.deepEqual([state.entries.length, state.walks], [1, 0]);
    await pass(1);
    assert.deepEqual([state.entries.length, state.walks], [0, 1]);
  });

  const direct = (address: string, port: number, status?: number): ConntrackEntry =>
    connection([address, port], [address, port], status);

  it("SVC-30: after a start, only connections that began before the rules are deleted, at once", async () => {
    const left = [
      direct("10.96.0.11", 80),
      direct(VIP, 81),
      direct(OTHER_NODE, 30_080),
      direct("203.0.113.1", 30_080),
      direct(VIP, 80, ConntrackStatus.SEEN_REPLY),
      connection([VIP, 80], [OTHER, 8080]),
      udpEntry([VIP, 80], [VIP, 80]),
    ];
    const { unanswered, state, pass } = setUp([direct(VIP, 80), direct(NODE, 30_080), ...left]);
    unanswered.rulesInForce({ isWhole: true, differences: [] });
    await pass(0.5);
    assert.deepEqual([state.entries, unanswered.deleted], [left, 2]);
    await pass(10);
    assert.deepEqual(state.entries, left);
  });

  it("SVC-30: after a start, connections to endpoints gone before are deleted, and those to later losses after three seconds", async () => {
    const lost = connection([VIP, 80], ["10.244.1.9", 8080]);
    const left = [connection([VIP, 80], [OTHER, 8080]), connection(["10.96.0.11", 80], [GONE, 8080])];
    const { unanswered, state, pass, commit } = setUp([connection([VIP, 80], [GONE, 8080]), lost, ...left]);
    unanswered.rulesInForce({ isWhole: true, differences: [] });
    await pass(2);
    assert.equal(state.entries.length, 4);
    commit(difference("service4_2", [byAddress("10.244.1.9", 0)]));
    await pass(3);
    assert.deepEqual(state.entries, [lost, ...left]);
    await pass(3.5);
    assert.deepEqual(state.entries, left);
  });

  it("SVC-30: a frontend's direct connections are deleted at once with its first endpoint, and not again with further ones", async () => {
    const { state, pass, commit } = setUp([direct(VIP, 80), direct("10.96.0.11", 80)]);
    commit(difference("service4_1", [], [element([Number(parseAddress(VIP)), "tcp", 80], OTHER)]));
    await pass(0.5);
    assert.deepEqual([state.entries.length, state.walks], [1, 1]);
    commit(
      difference("service4_1", [element([Number(parseAddress(VIP)), "tcp", 80], OTHER)]),
      difference("service4_2", [], [byAddress(OTHER, 0), byAddress(GONE, 1)]),
    );
    await pass(10);
    assert.equal(state.walks, 1);
  });

  it("SVC-30: a deletion that the kernel refuses is reported and repeated until it succeeds", async () => {
    const ofGone = connection(["10.96.0.12", 80], [GONE, 8080]);
    const { unanswered, state, pass, commit } = setUp([connection([VIP, 80], [GONE, 8080]), ofGone]);
    state.refuses = true;
    commit(
      difference("service4_2", [byAddress(GONE, 0)]),
      difference("service4_1", [element([Number(parseAddress("10.96.0.12")), "tcp", 80], GONE)]),
    );
    await pass(7);
    assert.deepEqual(unanswered.problems(), ["unanswered connections: no answer; it is tried again"]);
    state.refuses = false;
    await pass(7);
    assert.deepEqual([state.entries.length, unanswered.problems()], [0, []]);
    state.entries = [direct(VIP, 80)];
    state.refuses = true;
    commit(difference("service4_1", [], [element([Number(parseAddress(VIP)), "tcp", 80], OTHER)]));
    await pass(4);
    state.refuses = false;
    await pass(4);
    assert.equal(state.entries.length, 0);
    unanswered.stop();
    commit(difference("service4_2", [byAddress(GONE, 0)]));
    const { walks } = state;
    await pass(10);
    assert.equal(state.walks, walks);
  });
});
