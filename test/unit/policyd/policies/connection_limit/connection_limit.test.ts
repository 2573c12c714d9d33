import assert from "node:assert/strict";
import { setImmediate as turn } from "node:timers/promises";
import type { FlowTuples } from "../../../../../kernel/conntrack/flow_tuples.ts";
import { DrawbridgeError } from "../../../../../kernel/error.ts";
import { familyOf, parseAddress } from "../../../../../kernel/ip/address.ts";
import { cidrContains, parseCidr } from "../../../../../kernel/ip/cidr.ts";
import type { Chain } from "../../../../../kernel/nftables/model/object.ts";
import { FakeClock } from "../../../../support/fake_clock.ts";
import type { DesiredElement } from "../../../../../policyd/ruleset/desired/desired_element.ts";
import { recordingNotices } from "../../../../support/recording_notices.ts";
import { recordingLogger } from "../../../../support/recording_logger.ts";
import { PolicedNode } from "../../../../support/policy/policed_node.ts";
import { DEFAULT_POLICY_OPTIONS } from "../../../../../policyd/policies/compile/options.ts";
import { crowdingHooks, policyTable } from "../../../../../policyd/policies/compile/policy_table.ts";
import {
  ConnectionLimit,
  type ConnectionTable,
} from "../../../../../policyd/policies/connection_limit/connection_limit.ts";
import type { CountedPod } from "../../../../../policyd/policies/connection_limit/fair_share.ts";

const HOSTILE = "10.244.1.2";
const OTHER = "10.244.1.3";
const HOSTILE6 = "fd00:244:1::2";
const POD_NETWORK = parseCidr("10.244.0.0/16");
const NODE = "192.0.2.1";
const GATEWAY = "10.244.1.1";
const OUTSIDE = "192.0.2.7";
const OUTSIDE6 = "2001:db8::7";
const BOTH_OF_HOSTILE = [
  ["crowded4", parseAddress(HOSTILE)],
  ["crowded6", parseAddress(HOSTILE6)],
];

class FakeTable implements ConnectionTable {
  flows: FlowTuples[] = [];
  most = 1000;
  sweeps = 0;
  looks = 0;
  error: DrawbridgeError | undefined;

  /** @param from the source as the connection began @param to the destination after NAT */
  open(count: number, from: string, to: string): void {
    const [source, destination] = [parseAddress(from), parseAddress(to)];
    for (let left = count; left > 0; left--) {
      const ports = { sourcePort: 1024 + (this.flows.length % 60_000), destinationPort: 80 };
      const original = { source, destination, ...ports };
      const reply = { source: destination, destination: source, sourcePort: 80, destinationPort: ports.sourcePort };
      this.flows.push({ family: familyOf(source), original, reply });
    }
  }

  size(): number {
    this.looks++;
    if (this.error !== undefined) throw this.error;
    return this.flows.length;
  }

  capacity(): number {
    return this.most;
  }

  async sweep(isMeant: (flow: FlowTuples) => boolean): Promise<number> {
    this.sweeps++;
    const before = this.flows.length;
    this.flows = this.flows.filter((flow) => !isMeant(flow));
    return before - this.flows.length;
  }

  countOf(address: string): number {
    return this.flows.filter(({ original, reply }) => [original.source, reply.source].includes(parseAddress(address)))
      .length;
  }
}

function countedPod(name: string, addresses: readonly string[]): CountedPod {
  return {
    key: `container of ${name}`,
    name: { namespace: "shop", name, uid: `uid of ${name}` },
    addresses: addresses.map((text) => parseAddress(text)),
  };
}

type PodRow = readonly [name: string, ...addresses: string[]];

const TWO_PODS: readonly PodRow[] = [
  ["hostile", HOSTILE, HOSTILE6],
  ["other", OTHER],
];

function limited(limit: number | undefined, pods: readonly PodRow[] = TWO_PODS) {
  const table = new FakeTable();
  const clock = new FakeClock();
  const logger = recordingLogger();
  const claimed = new Map<string, readonly DesiredElement[]>();
  const events = recordingNotices();
  const provided = new Map<string, readonly Chain[]>();
  const own = new ConnectionLimit({
    table,
    ruleset: {
      claim: (owner, claims) => void claimed.set(owner, claims),
      provide: (owner, { chains }) => void provided.set(owner, chains),
    },
    pods: () => pods.map(([name, ...addresses]) => countedPod(name, addresses)),
    isPodAddress: (address) => cidrContains(POD_NETWORK, address),
    nodeAddresses: () => new Set([NODE, GATEWAY].map((text) => parseAddress(text))),
    clock,
    logger,
    events,
    limit,
  });
  const crowded = () => [...claimed.values()].flat().map(({ set, element: { key } }) => [set, ...key]);
  const hooks = () => [...provided.values()].flat().map(({ name }) => name);
  return { table, clock, logger, events, own, crowded, hooks };
}

function addressOf(index: number): string {
  return `10.244.${2 + Math.floor(index / 250)}.${1 + (index % 250)}`;
}

describe("policyd/policies/connection_limit", () => {
  it("GUARD-08 MODE-04: a pod beyond the limit begins no further connections, and keeps about as many as allowed", async () => {
    const { table, own, crowded, hooks, logger, events } = limited(100);
    table.open(400, HOSTILE, OUTSIDE);
    table.open(90, OTHER, OUTSIDE);
    table.most = 100_000;
    assert.deepEqual(hooks(), [], "no pod has too many yet");
    await own.check();
    assert.deepEqual(hooks(), ["limit_forward", "limit_input"]);
    assert.deepEqual(crowded(), BOTH_OF_HOSTILE);
    assert.ok(Math.abs(table.countOf(HOSTILE) - 100) < 40, `${table.countOf(HOSTILE)}`);
    assert.equal(table.countOf(OTHER), 90);
    assert.deepEqual(
      logger.lines.map(({ level, fields }) => [level, fields["connections"]]),
      [["warn", 400]],
    );
    assert.equal(own.problems().length, 1);
    await own.check();
    assert.equal(logger.lines.length, 1, "told once");
    assert.deepEqual(
      events.notices.map(({ reason, regarding }) => [reason, regarding]),
      [["TooManyConnections", { kind: "Pod", key: "shop/hostile", uid: "uid of hostile" }]],
    );
  });

  it("GUARD-08: connections from before the rules are deleted repeatedly until the pod keeps to the limit", async () => {
    const { table, own } = limited(100);
    for (let round = 0; round < 12; round++) {
      if (round < 4) table.open(250, HOSTILE, OUTSIDE);
      await own.check();
    }
    assert.ok(table.countOf(HOSTILE) <= 100, `${table.countOf(HOSTILE)}`);
  });

  it("GUARD-08: connections that an accomplice outside begins count for the pod over all its addresses, and for no other pod", async () => {
    const { table, own, crowded } = limited(100);
    table.most = 100_000;
    table.open(60, OUTSIDE6, HOSTILE6);
    table.open(60, OUTSIDE, HOSTILE);
    // These connections count for the pod that began them.
    table.open(99, OTHER, OUTSIDE);
    table.open(500, OUTSIDE, "192.0.2.8");
    await own.check();
    assert.deepEqual(crowded(), BOTH_OF_HOSTILE);
    assert.equal(table.countOf(OTHER), 99);
  });

  for (const limit of [undefined, 250]) {
    it(`GUARD-08: connections from pods of other nodes count for those pods, not for the server on this node, with limit ${limit}`, async () => {
      const { table, own, crowded, events } = limited(limit, [...TWO_PODS, ["dns", "10.244.1.53"]]);
      const hostile = ["10.244.2.1", "10.244.3.1", "10.244.4.1"];
      table.open(20, "10.244.2.9", "10.244.1.53");
      for (const address of hostile) table.open(280, address, "10.244.1.53");
      await own.check();
      assert.deepEqual(
        crowded(),
        hostile.map((address) => ["crowded4", parseAddress(address)]),
      );
      assert.deepEqual([table.countOf("10.244.2.9"), events.notices], [20, []]);
      assert.ok(table.flows.length < 840, `${table.flows.length}`);
      table.flows = [];
      await own.check();
      assert.deepEqual([crowded(), own.problems()], [[], []]);
    });
  }

  it("GUARD-08: a pod with too many connections begins no new ones, and new ones from outside to it are dropped only on its own node", () => {
    const remote = "10.244.2.1";
    const table = policyTable(DEFAULT_POLICY_OPTIONS);
    const crowded = [HOSTILE, remote].map((text) => ({ key: [parseAddress(text)] }));
    const node = new PolicedNode({
      // Without the hooks of policies, which know none of these pods.
      table: { ...table, chains: [...table.chains.filter(({ base }) => base === undefined), ...crowdingHooks] },
      elements: new Map([["crowded4", crowded]]),
      verdictOf: () => "allowed",
      local: new Set([HOSTILE, OTHER].map((text) => parseAddress(text))),
      ownAddresses: new Set([NODE, GATEWAY].map((text) => parseAddress(text))),
    });
    const rows = [
      [HOSTILE, OUTSIDE, "drop"],
      [HOSTILE, NODE, "drop"],
      [HOSTILE, OTHER, "drop"],
      [OTHER, HOSTILE, "accept"],
      [OUTSIDE, HOSTILE, "drop"],
      [remote, OTHER, "drop"],
      [OTHER, remote, "accept"],
      [OUTSIDE, remote, "accept"],
      [OUTSIDE, OTHER, "accept"],
    ] as const;
    for (const [source, destination, verdict] of rows) {
      const ends = { source: parseAddress(source), destination: parseAddress(destination) };
      assert.equal(node.send({ ...ends, protocol: "tcp", port: 80 }).verdict, verdict, `${source} to ${destination}`);
    }
  });

  it("GUARD-08: connections that the node itself begins count for no pod and are not deleted", async () => {
    const { table, own, crowded } = limited(100);
    table.open(400, NODE, HOSTILE);
    table.open(400, NODE, OTHER);
    table.open(400, GATEWAY, OTHER);
    table.open(150, OUTSIDE, OTHER);
    table.most = 100_000;
    await own.check();
    assert.deepEqual(crowded(), [["crowded4", parseAddress(OTHER)]]);
    assert.deepEqual([table.countOf(NODE), table.countOf(GATEWAY)], [800, 400]);
  });

  it("GUARD-08: a pod may begin connections again at three quarters of the limit, or when no pod can have too many", async () => {
    for (const others of [0, 200]) {
      const { table, own, crowded } = limited(100);
      table.open(others, OUTSIDE, "192.0.2.8");
      table.open(101, HOSTILE, OUTSIDE);
      await own.check();
      assert.equal(crowded().length, 2);
      table.flows = table.flows.slice(0, others + 76);
      await own.check();
      assert.equal(crowded().length, 2, "not yet");
      table.flows = table.flows.slice(0, others + 75);
      await own.check();
      assert.deepEqual([crowded(), own.problems()], [[], []]);
    }
  });

  it("GUARD-08: by default only the largest users are limited, from 13 sixteenths of the table until there is room again", async () => {
    const { table, own, crowded } = limited(undefined);
    table.open(800, HOSTILE, OUTSIDE);
    await own.check();
    assert.deepEqual([crowded(), table.sweeps], [[], 0], "the table has room, and is not searched");
    table.open(60, OTHER, OUTSIDE);
    await own.check();
    assert.deepEqual(crowded(), BOTH_OF_HOSTILE);
    assert.ok(Math.abs(table.countOf(HOSTILE) - 690) < 60, `${table.countOf(HOSTILE)}`);
    assert.equal(table.countOf(OTHER), 60);
    await own.check();
    assert.equal(crowded().length, 2, "the pod stays limited when there is room again");
    table.flows = table.flows.slice(-500);
    await own.check();
    assert.deepEqual(crowded(), []);
  });

  for (const count of [2, 250]) {
    it(`GUARD-08: ${count} pods that fill the table with an accomplice lose connections, and another pod keeps all of its own`, async () => {
      const hostile = Array.from({ length: count }, (_, i): PodRow => [
        `h${i}`,
        addressOf(2 * i),
        addressOf(2 * i + 1),
      ]);
      const { table, own, crowded, events } = limited(undefined, [...hostile, ["other", OTHER]]);
      table.most = 20_000;
      table.open(40, OTHER, OUTSIDE);
      const each = Math.floor(19_900 / (2 * count));
      for (const [, ...addresses] of hostile) for (const address of addresses) table.open(each, address, OUTSIDE);
      await own.check();
      assert.equal(crowded().length, 2 * count, "the addresses have equal shares below a quarter of the table");
      assert.equal(events.notices.length, count);
      assert.ok(table.flows.length < 16_000, `${table.flows.length} connections stay`);
      assert.equal(table.countOf(OTHER), 40);
    });
  }

  it("GUARD-08 MODE-04: while the table is nearly full, pods begin connections at a bounded rate", async () => {
    const { table, own, hooks } = limited(undefined);
    table.open(740, OUTSIDE, "192.0.2.8");
    await own.check();
    assert.deepEqual(hooks(), []);
    table.open(20, OUTSIDE, "192.0.2.8");
    await own.check();
    assert.deepEqual(hooks(), ["brake_forward", "brake_input"]);
    table.flows = table.flows.slice(0, 630);
    await own.check();
    assert.deepEqual(hooks(), ["brake_forward", "brake_input"], "not yet");
    table.flows = table.flows.slice(0, 620);
    await own.check();
    assert.deepEqual(hooks(), []);
  });

  for (const { limit, filling, looks } of [
    { limit: undefined, filling: 0, looks: 3 },
    { limit: undefined, filling: 0.25, looks: 5 },
    { limit: undefined, filling: 0.5, looks: 10 },
    { limit: undefined, filling: 0.6, looks: 40 },
    { limit: 1000, filling: 0, looks: 10 },
  ]) {
    it(`GUARD-08: a table that is filled to ${filling} is read ${looks} times a second with limit ${limit}, so that the brake is in time`, async () => {
      const { table, clock, own } = limited(limit);
      table.open(table.most * filling, OTHER, OUTSIDE);
      await own.prepare();
      clock.pass(100);
      await turn();
      table.looks = 0;
      for (let passed = 0; passed < 1000; passed += 5) {
        clock.pass(5);
        await turn();
      }
      own.stop();
      assert.equal(table.looks, looks);
    });
  }

  it("GUARD-08: with an unbounded table (nf_conntrack_max is 0) no pod is limited, and limits end", async () => {
    const { table, own, crowded } = limited(undefined);
    table.open(860, HOSTILE, OUTSIDE);
    await own.check();
    assert.equal(crowded().length, 2);
    table.most = 0;
    table.open(700, OTHER, OUTSIDE);
    await own.check();
    assert.deepEqual([crowded(), own.problems(), table.countOf(OTHER)], [[], [], 700]);
  });
});
