import assert from "node:assert/strict";
import { type Address, parseAddress } from "../../../kernel/ip/address.ts";
import { concatenation, lookup, randomNumber } from "../../../kernel/nftables/model/expression.ts";
import type { BaseChain, Chain, Element, SetDefinition, Table } from "../../../kernel/nftables/model/object.ts";
import {
  anyFlag,
  clearMarkBits,
  counter,
  equals,
  goTo,
  hasBit,
  jumpTo,
  returnToCaller,
  type Rule,
  rule,
  setMarkBit,
  type Statement,
} from "../../../kernel/nftables/model/statement.ts";
import { FlowTable } from "../../support/nftables/interpreter/flow_table.ts";
import type { WalkedPacket } from "../../support/nftables/interpreter/packet.ts";
import { Ruleset } from "../../support/nftables/interpreter/ruleset.ts";
import { type Machine, walkHooks, walkThrough } from "../../support/nftables/interpreter/walk.ts";

const a = parseAddress;
const CLIENT = "10.1.0.1";
const POD = "10.244.1.5";
const VIP = "10.96.0.1";
const BIT = 0x4000;
const LO = { index: 1, name: "lo" };
const ETH0 = { index: 2, name: "eth0" };

let clock = 0;
let choice = 0;

function machine(
  sets: readonly SetDefinition[],
  chains: readonly Chain[],
  elements: Record<string, Element[]>,
): Machine {
  clock = 0;
  choice = 0;
  const table: Table = { family: "inet", name: "t", sets, chains };
  const fib = (address: Address): string => (address === a("10.0.0.1") || address === a(POD) ? "local" : "unicast");
  return {
    ruleset: new Ruleset([{ table, elements: new Map(Object.entries(elements)) }], () => clock),
    flows: new FlowTable(),
    surroundings: {
      fib,
      choose: () => choice,
      now: () => clock,
      ownAddress: () => a("10.0.0.1"),
      outDevice: (address) => (fib(address) === "local" ? LO : ETH0),
    },
  };
}

function packet(source: string, destination: string, port: number, parts: Partial<WalkedPacket> = {}): WalkedPacket {
  const tuple = { source: a(source), sourcePort: 999, destination: a(destination), destinationPort: port };
  return { tuple: { protocol: "tcp", ...tuple }, mark: 0, in: ETH0, ...parts };
}

function base(hook: BaseChain["hook"], priority: number, type: BaseChain["type"] = "filter"): BaseChain {
  return { hook, priority, type, policy: "accept" };
}

const dnat: Statement = {
  kind: "dnat",
  target: {
    kind: "map",
    family: "ip",
    hasPort: true,
    lookup: lookup(concatenation("ip daddr", "meta l4proto", "tcp dport", randomNumber(2)), "endpoints"),
  },
};
const ENDPOINTS: SetDefinition = {
  name: "endpoints",
  key: ["ipv4_addr", "inet_proto", "inet_service", randomNumber(2)],
  data: ["ipv4_addr", "inet_service"],
  hasCounters: true,
};
const twoEndpoints = [
  { key: [a(VIP), "tcp", 80, 0], data: [a("10.244.0.5"), 8080] },
  { key: [a(VIP), "tcp", 80, 1], data: [a("10.244.0.6"), 9090] },
];

describe("the interpreter of rules", () => {
  it("translates a connection's first packet at random, the next in the same way, and its answers back", () => {
    const node = machine(
      [ENDPOINTS],
      [
        { name: "nat", base: base("prerouting", -100, "nat"), rules: [rule(setMarkBit(BIT)), rule(dnat)] },
        {
          name: "masquerade",
          base: base("postrouting", 100, "nat"),
          rules: [rule(hasBit("meta mark", BIT), { kind: "masquerade", isFullyRandom: true })],
        },
      ],
      { endpoints: twoEndpoints },
    );
    choice = 1;
    const first = packet(CLIENT, VIP, 80);
    const outcome = walkThrough(node, first, "outside");
    assert.equal(outcome.verdict, "accept");
    assert.deepEqual(
      outcome.translations.map(({ by }) => by),
      ["dnat", "masquerade"],
    );
    const translated = { protocol: "tcp", source: a("10.0.0.1"), sourcePort: 999 };
    assert.deepEqual(first.tuple, { ...translated, destination: a("10.244.0.6"), destinationPort: 9090 });
    assert.deepEqual([...(first.connection?.status ?? [])], ["dnat", "snat", "confirmed"]);

    choice = 0;
    const again = packet(CLIENT, VIP, 80);
    assert.deepEqual(walkThrough(node, again, "outside").translations, [], "chains are asked once");
    assert.deepEqual(again.tuple, first.tuple);

    const answer = packet("10.244.0.6", "10.0.0.1", 999);
    answer.tuple = { ...answer.tuple, sourcePort: 9090 };
    walkHooks(node, answer, ["prerouting", "postrouting"]);
    assert.equal(answer.state, "established");
    const back = { protocol: "tcp", source: a(VIP), sourcePort: 80, destination: a(CLIENT), destinationPort: 999 };
    assert.deepEqual(answer.tuple, back);
    assert.equal(node.flows.size, 1);
  });

  it("does NAT at its own priority whatever a chain's is, and a translation to the same address leaves no trace", () => {
    const toItself: Statement = { kind: "dnat", target: { kind: "address", address: a(VIP) } };
    const early = rule(anyFlag("ct status", "dnat"), counter);
    const node = machine(
      [],
      [
        { name: "nat", base: base("prerouting", -180, "nat"), rules: [rule(toItself)] },
        { name: "before", base: base("prerouting", -150), rules: [early] },
        { name: "after", base: base("prerouting", -90), rules: [early, rule(equals("ip daddr", a(VIP)), counter)] },
      ],
      {},
    );
    walkHooks(node, packet(CLIENT, VIP, 80), ["prerouting"]);
    assert.deepEqual([...node.ruleset.counters()], [["inet t after 1", 1]]);
  });

  it("returns from a jump but not from a goto, and ends in the policy", () => {
    const mark = (bit: number): Rule => rule(setMarkBit(bit));
    const chains: readonly Chain[] = [
      {
        name: "base",
        base: { ...base("forward", 0), policy: "drop" },
        rules: [rule(jumpTo("jumped")), mark(4), rule(goTo("gone")), mark(8)],
      },
      { name: "jumped", rules: [mark(1), rule(goTo("gone")), mark(8)] },
      {
        name: "gone",
        rules: [mark(2), rule(hasBit("meta mark", 4), clearMarkBits(1)), rule(returnToCaller), mark(16)],
      },
    ];
    const walked = packet(CLIENT, VIP, 80);
    const outcome = walkHooks(machine([], chains, {}), walked, ["forward"]);
    assert.deepEqual([outcome.verdict, outcome.hook, outcome.decision?.rule], ["drop", "forward", undefined]);
    assert.equal(walked.mark, 2 | 4);
  });

  it("goes where elements of verdict maps lead, and ends the rule at a miss", () => {
    const profiles: SetDefinition = { name: "v", key: ["ipv4_addr"], data: "verdict" };
    const chains: readonly Chain[] = [
      {
        name: "base",
        base: base("forward", 0),
        rules: [rule({ kind: "vmap", key: "ip saddr", map: "v" }), rule(setMarkBit(1))],
      },
      {
        name: "refuse",
        rules: [
          rule({ kind: "reject", reply: "tcp reset" }),
          rule({ kind: "reject", reply: "icmpx port-unreachable" }),
        ],
      },
    ];
    const elements = { v: [{ key: [a(CLIENT)], data: { kind: "jump", chain: "refuse" } as const }] };
    const udp = packet(CLIENT, VIP, 53);
    udp.tuple = { ...udp.tuple, protocol: "udp" };
    const walk = (walked: WalkedPacket) => walkHooks(machine([profiles], chains, elements), walked, ["forward"]);
    assert.equal(walk(packet(CLIENT, VIP, 80)).decision?.reply, "tcp reset");
    assert.equal(walk(udp).decision?.reply, "icmpx port-unreachable");
    assert.equal(walk(packet(POD, VIP, 80)).verdict, "accept");
  });

  it("keeps dynamic elements for their timeout, renews it, keeps their data until deletion, and stops at the size", () => {
    const affinity: SetDefinition = {
      name: "aff",
      key: ["ipv4_addr"],
      data: ["mark"],
      isDynamic: true,
      timeout: 100,
      size: 1,
    };
    const known = { kind: "set mark from", from: lookup("ip saddr", "aff") } as const;
    const update: Statement = { kind: "dynamic", operation: "update", set: "aff", key: "ip saddr", data: "meta mark" };
    const rules = [rule(known, counter), rule(update, counter)];
    const node = machine([affinity], [{ name: "c", base: base("prerouting", 0), rules }], {});
    const send = (source: string, mark: number): number => {
      const walked = packet(source, VIP, 80, { mark });
      walkHooks(node, walked, ["prerouting"]);
      return walked.mark;
    };
    assert.equal(send(CLIENT, 7), 7);
    clock = 60;
    assert.equal(send(CLIENT, 8), 7, "found");
    clock = 159;
    assert.equal(send(CLIENT, 8), 7, "renewed at 60");
    assert.equal(send(POD, 9), 9);
    assert.equal(send(POD, 9), 9);
    const counted = { "inet t c 0": 2, "inet t c 1": 3 };
    assert.deepEqual(Object.fromEntries(node.ruleset.counters()), counted, "full: the rule ended before its counter");
    clock = 260;
    assert.equal(send(POD, 9), 9);
    assert.equal(send(POD, 3), 9);
  });

  it("counts the packets that match an element", () => {
    const rules = [rule(equals("tcp dport", 80), dnat)];
    const node = machine([ENDPOINTS], [{ name: "nat", base: base("prerouting", -100, "nat"), rules }], {
      endpoints: twoEndpoints,
    });
    for (const source of ["10.1.0.1", "10.1.0.2", "10.1.0.1"]) walkThrough(node, packet(source, VIP, 80), "outside");
    const counts = node.ruleset.tables[0]
      ?.set("endpoints")
      .entries()
      .map(({ packets }) => packets);
    assert.deepEqual(counts, [2, 0]);
  });
});
