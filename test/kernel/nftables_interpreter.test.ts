import assert from "node:assert/strict";
import { type Address, familyOf, parseAddress } from "../../kernel/ip/address.ts";
import { parseCidr } from "../../kernel/ip/cidr.ts";
import { tableChanges } from "../../kernel/nftables/encode/change.ts";
import { concatenation, lookup } from "../../kernel/nftables/model/expression.ts";
import type { Element, Table } from "../../kernel/nftables/model/object.ts";
import { NftablesSocket } from "../../kernel/nftables/socket.ts";
import {
  accept,
  anyFlag,
  clearMarkBits,
  counter,
  drop,
  equals,
  hasBit,
  inPrefix,
  inSet,
  jumpTo,
  not,
  oneOf,
  returnToCaller,
  rule,
  setMarkBit,
  type Statement,
} from "../../kernel/nftables/model/statement.ts";
import { newRoute } from "../../kernel/route/route.ts";
import type { Lab } from "../lab/lab.ts";
import type { LabNamespace } from "../lab/namespace.ts";
import { ProbeSocket, SocketType } from "../lab/probe/socket.ts";
import { routeTo } from "../lab/topology.ts";
import { FlowTable } from "../support/nftables/interpreter/flow_table.ts";
import type { WalkedPacket } from "../support/nftables/interpreter/packet.ts";
import { Ruleset } from "../support/nftables/interpreter/ruleset.ts";
import { type Machine, walkThrough } from "../support/nftables/interpreter/walk.ts";
import { suiteLab } from "../support/suite_lab.ts";
import { trackedPair } from "./tracked_pair.ts";

const BIT = 0x10000000;
const NEAR = parseAddress("10.99.0.1");
const FAR = parseAddress("10.99.0.2");
/** Virtual addresses that are translated to the near end, translated back to the far end, refused, and unused. */
const [VIP_NEAR, VIP_FAR, VIP_NONE, VIP_OTHER] = ["10.96.0.1", "10.96.0.2", "10.96.0.3", "10.96.0.4"].map((text) =>
  parseAddress(text),
) as [Address, Address, Address, Address];

const comment = (text: string, ...statements: readonly Statement[]) => ({ ...rule(...statements), comment: text });
const isUdp = equals("meta l4proto", "udp");
const dnat: Statement = {
  kind: "dnat",
  target: {
    family: "ip",
    hasPort: true,
    lookup: lookup(concatenation("ip daddr", "meta l4proto", "udp dport"), "endpoints"),
  },
};

/** Rules that count matching packets, so that the interpreter's result must show in the same counters. */
const table: Table = {
  family: "inet",
  name: "t",
  sets: [
    { name: "endpoints", key: ["ipv4_addr", "inet_proto", "inet_service"], data: ["ipv4_addr", "inet_service"] },
    { name: "ranges", key: ["ipv4_addr", "inet_service"], isInterval: true },
    { name: "sources", key: ["ipv4_addr"], isInterval: true },
    { name: "profiles", key: ["inet_service"], data: "verdict" },
    {
      name: "clients",
      key: ["ipv4_addr", "inet_service"],
      data: ["classid"],
      isDynamic: true,
      timeout: 600_000,
      size: 3,
    },
    { name: "none", key: ["ipv4_addr"] },
  ],
  chains: [
    {
      name: "jumped",
      rules: [comment("jumped", counter), comment("back", equals("th sport", 5001), counter, returnToCaller)],
    },
    {
      name: "translate",
      rules: [
        comment("outside", not(equals("fib saddr type", "local")), setMarkBit(BIT), counter),
        comment("dnat", dnat),
        comment("missed", isUdp, counter),
      ],
    },
    {
      name: "nat_pre",
      // The chain's priority does not matter, since NAT has its own.
      base: { type: "nat", hook: "prerouting", priority: -180, policy: "accept" },
      rules: [rule(isUdp, jumpTo("translate"))],
    },
    {
      name: "nat_out",
      base: { type: "nat", hook: "output", priority: -100, policy: "accept" },
      rules: [rule(isUdp, jumpTo("translate"))],
    },
    {
      name: "early",
      base: { type: "filter", hook: "prerouting", priority: -150, policy: "accept" },
      rules: [
        comment("early vip", inPrefix("ip daddr", parseCidr("10.96.0.0/16")), isUdp, counter),
        comment("early dnat", anyFlag("ct status", "dnat"), isUdp, counter),
        comment("early reply", equals("ct direction", "reply"), isUdp, counter),
        comment("in range", inSet(concatenation("ip saddr", "th sport"), "ranges"), counter),
        comment("not in range", not(inSet(concatenation("ip saddr", "th sport"), "ranges")), counter),
        comment("not of tcp", not(equals("tcp dport", 1)), counter),
        comment("one of", oneOf("th sport", [5001, 5003]), counter),
      ],
    },
    {
      name: "late",
      base: { type: "filter", hook: "prerouting", priority: -50, policy: "accept" },
      rules: [
        comment("local now", equals("fib daddr type", "local"), isUdp, counter),
        comment("vip still", inPrefix("ip daddr", parseCidr("10.96.0.0/16")), isUdp, counter),
        comment("original", equals("ct original ip daddr", VIP_FAR), anyFlag("ct status", "dnat"), isUdp, counter),
        rule(isUdp, jumpTo("jumped")),
        comment("behind", isUdp, counter),
        comment("profile", { kind: "vmap", key: "th sport", map: "profiles" }),
        comment("no profile", isUdp, counter),
      ],
    },
    {
      name: "in_forward",
      base: { type: "filter", hook: "forward", priority: -10, policy: "accept" },
      rules: [
        comment("refused", inSet("ip daddr", "none"), isUdp, counter, {
          kind: "reject",
          reply: "icmpx port-unreachable",
        }),
        comment("forwarded", anyFlag("ct state", "new"), equals("oifname", "cable"), isUdp, counter),
      ],
    },
    {
      name: "in_input",
      base: { type: "filter", hook: "input", priority: 0, policy: "accept" },
      rules: [
        comment(
          "client known",
          { kind: "set priority from", from: lookup(concatenation("ip saddr", "th sport"), "clients") },
          counter,
        ),
        comment(
          "client noted",
          {
            kind: "dynamic",
            operation: "update",
            set: "clients",
            key: concatenation("ip saddr", "th sport"),
            data: "meta priority",
          },
          counter,
        ),
        comment("from lo", equals("iifname", "lo"), isUdp, counter),
        comment("into cable", equals("iifname", "cable"), inSet("ip saddr", "sources"), isUdp, counter),
      ],
    },
    {
      name: "in_output",
      base: { type: "filter", hook: "output", priority: -10, policy: "accept" },
      rules: [comment("refused out", inSet("ip daddr", "none"), isUdp, counter, drop), comment("out", isUdp, counter)],
    },
    {
      name: "nat_post",
      base: { type: "nat", hook: "postrouting", priority: 100, policy: "accept" },
      rules: [
        comment("leaves masked", hasBit("meta mark", BIT), isUdp, counter, { kind: "masquerade" }),
        comment("leaves", isUdp, counter),
      ],
    },
    {
      name: "clear_mark",
      base: { type: "filter", hook: "postrouting", priority: 110, policy: "accept" },
      rules: [
        rule(clearMarkBits(BIT)),
        comment("cleared", not(hasBit("meta mark", BIT)), anyFlag("ct status", "snat"), isUdp, counter),
      ],
    },
  ],
};

const elements: ReadonlyMap<string, readonly Element[]> = new Map<string, readonly Element[]>([
  [
    "endpoints",
    [
      { key: [VIP_NEAR, "udp", 80], data: [NEAR, 8080] },
      { key: [VIP_FAR, "udp", 80], data: [FAR, 9090] },
    ],
  ],
  ["ranges", [{ key: [FAR, { first: 5001, last: 5002 }] }]],
  ["sources", [{ key: [{ first: parseAddress("10.99.0.2"), last: parseAddress("10.99.0.3") }] }]],
  [
    "profiles",
    [
      { key: [5002], data: { kind: "jump", chain: "jumped" } },
      { key: [5003], data: accept.kind === "verdict" ? accept.verdict : { kind: "drop" } },
      { key: [5006], data: { kind: "drop" } },
    ],
  ],
  ["none", [{ key: [VIP_NONE] }]],
]);

interface Sent {
  readonly from: "near" | "far";
  readonly port: number;
  readonly to: Address;
}

/** Packets that are sent twice from a port each: a connection's first packet, and one that NAT chains do not see. */
const SENT: readonly Sent[] = [
  { from: "far", port: 5001, to: VIP_NEAR },
  { from: "far", port: 5002, to: VIP_FAR },
  { from: "far", port: 5003, to: VIP_NONE },
  { from: "far", port: 5004, to: VIP_OTHER },
  { from: "far", port: 5006, to: VIP_NEAR },
  { from: "far", port: 5007, to: VIP_NEAR },
  { from: "near", port: 5001, to: VIP_FAR },
  { from: "near", port: 5003, to: VIP_NEAR },
  { from: "near", port: 5004, to: VIP_NONE },
  { from: "near", port: 5008, to: VIP_NEAR },
].flatMap((one) => [one, one] as readonly Sent[]);

describe("the interpreter of rules compared with the kernel", () => {
  let lab: Lab | undefined;
  let ends: Readonly<Record<Sent["from"], LabNamespace>>;
  let nft: NftablesSocket;

  before(function () {
    lab = suiteLab(this, "interpreter");
    ends = trackedPair(lab, "");
    const { near, far } = ends;
    near.writeSysctl("net/ipv4/ip_forward", "1");
    far.route.request(newRoute(routeTo(parseCidr("10.96.0.0/16"), NEAR)));
    near.route.request(newRoute(routeTo(parseCidr("10.96.0.0/16"), FAR)));
    nft = near.inside(() => new NftablesSocket(near.calls));
    nft.commit(tableChanges(table, elements));
  });

  after(() => nft?.close());

  it("matches the same rules with the same packets", () => {
    const sockets = new Map<string, ProbeSocket>();
    // No end answers or refuses, so there are only the packets sent here.
    for (const [name, address, port] of [
      ["near", NEAR, 8080],
      ["far", FAR, 9090],
    ] as const) {
      sockets.set(name, open(name, address, port));
    }
    for (const { from, port, to } of SENT) {
      const key = `${from} ${port}`;
      const socket = sockets.get(key) ?? open(from, from === "near" ? NEAR : FAR, port);
      sockets.set(key, socket);
      socket.sendTo(Uint8Array.of(1), { address: to, port: 80 });
    }
    const interpreted = interpret();
    const deadline = performance.now() + 3000;
    let counted = readCounters();
    while (performance.now() < deadline && !isSame(counted, interpreted)) counted = readCounters();
    for (const socket of sockets.values()) socket.close();
    assert.deepEqual(counted, interpreted);
    const met = Object.values(interpreted).filter((packets) => packets > 0).length;
    assert.ok(met >= Object.keys(interpreted).length - 2, `${met} rules matched`);
  });

  function open(name: Sent["from"], address: Address, port: number): ProbeSocket {
    const namespace = ends[name];
    const socket = ProbeSocket.open(namespace, familyOf(address), SocketType.DATAGRAM);
    socket.bind({ address, port });
    return socket;
  }

  /** Returns the packets by the comment of the rule that counted them. */
  function readCounters(): Record<string, number> {
    const text = ends.near.exec("nft", ["list", "table", "inet", "t"]);
    return Object.fromEntries(
      [...text.matchAll(/counter packets (\d+) .*comment "([^"]+)"/g)].map(
        ([, count, name = ""]) => [name, Number(count)] as const,
      ),
    );
  }
});

function isSame(a: Record<string, number>, b: Record<string, number>): boolean {
  return Object.keys(b).every((name) => a[name] === b[name]);
}

function interpret(): Record<string, number> {
  const now = (): number => 0;
  const cable = { index: 2, name: "cable" };
  const isLocal = (address: Address): boolean => address === NEAR;
  const machine: Machine = {
    ruleset: new Ruleset([{ table, elements }], now),
    flows: new FlowTable(),
    surroundings: {
      now,
      choose: () => 0,
      fib: (address) => (isLocal(address) ? "local" : "unicast"),
      outDevice: (address) => (isLocal(address) ? { index: 1, name: "lo" } : cable),
      ownAddress: () => NEAR,
    },
  };
  for (const { from, port, to } of SENT) {
    const source = from === "near" ? NEAR : FAR;
    const tuple = { protocol: "udp", source, sourcePort: port, destination: to, destinationPort: 80 } as const;
    const packet: WalkedPacket = { tuple, mark: 0, in: from === "near" ? undefined : cable };
    walkThrough(machine, packet, from === "near" ? "node" : "outside");
  }
  const counters = machine.ruleset.counters();
  const names = table.chains.flatMap(({ name, rules }) =>
    rules.filter(({ statements }) => statements.includes(counter)).map((one) => [name, one.comment ?? ""] as const),
  );
  return Object.fromEntries(names.map(([chain, text]) => [text, counters.get(`inet t ${chain} ${text}`) ?? 0]));
}
