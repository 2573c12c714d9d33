import { parseAddress } from "../../../kernel/ip/address.ts";
import { parseCidr } from "../../../kernel/ip/cidr.ts";
import { concatenation, lookup, randomNumber } from "../../../kernel/nftables/model/expression.ts";
import {
  accept,
  anyFlag,
  clearMarkBits,
  counter,
  drop,
  equals,
  goTo,
  hasBit,
  hasBits,
  inPrefix,
  inSet,
  jumpTo,
  not,
  oneOf,
  returnToCaller,
  type Rule,
  rule,
  setAddress,
  setMarkBit,
  startsWith,
} from "../../../kernel/nftables/model/statement.ts";
import type { Element, Table } from "../../../kernel/nftables/model/object.ts";

const modulus2 = randomNumber(2);
const hash6 = { kind: "jhash", of: ["ip6 saddr"], modulus: 0xffff_ffff, seed: 1 } as const;

/** A table with every kind of object, statement and operand that we can express, IPv4 and IPv6. */
export const everythingTable: Table = {
  family: "inet",
  name: "everything",
  comment: "all of it",
  sets: [
    { name: "addresses4", key: ["ipv4_addr"] },
    { name: "addresses6", key: ["ipv6_addr"] },
    { name: "ranges4", key: ["ipv4_addr"], isInterval: true },
    { name: "ranges6", key: ["ipv6_addr"], isInterval: true },
    { name: "frontends", key: ["ipv4_addr", "inet_proto", "inet_service"], hasCounters: true },
    { name: "portranges", key: ["ipv4_addr", "inet_service"], isInterval: true },
    { name: "leased", key: ["ipv4_addr"], timeout: 90_000, collectionInterval: 3_600_000, isDynamic: true, size: 1000 },
    { name: "pereach", key: ["ipv4_addr"], timeout: "per element" },
    { name: "ports", key: ["inet_service"], isInterval: true },
    { name: "sources", key: ["ifname", "ether_addr", "ipv4_addr"] },
    {
      name: "endpoints4",
      key: ["ipv4_addr", "inet_proto", "inet_service", modulus2],
      data: ["ipv4_addr", "inet_service"],
      hasCounters: true,
    },
    {
      name: "endpoints6",
      key: ["ipv6_addr", "inet_proto", "inet_service", modulus2],
      data: ["ipv6_addr", "inet_service"],
    },
    { name: "single4", key: ["ipv4_addr", "inet_proto", "inet_service"], data: ["ipv4_addr", "inet_service"] },
    { name: "addressmap", key: ["inet_service"], data: ["ipv4_addr"] },
    { name: "classes", key: ["ipv4_addr"], data: ["classid"] },
    {
      name: "sticky",
      key: [randomNumber(0xffff_ffff), "classid"],
      data: ["classid"],
      timeout: "per element",
      isDynamic: true,
      size: 100,
    },
    { name: "cut", key: ["ct_id"] },
    { name: "targets", key: ["ipv6_addr", "sixteen_bytes"] },
    { name: "profiles", key: ["ipv4_addr"], data: "verdict" },
    { name: "classchains", key: ["classid"], data: "verdict" },
    { name: "markchains", key: ["mark"], data: "verdict" },
    { name: "profileports", key: ["ipv4_addr", "inet_service"], data: "verdict", isInterval: true },
    {
      name: "affinity",
      key: ["ipv4_addr", "inet_service"],
      data: ["mark"],
      timeout: 60_000,
      isDynamic: true,
      size: 100,
    },
  ],
  chains: [
    { name: "profile", rules: [rule(counter, drop)] },
    {
      name: "nat_prerouting",
      base: { type: "nat", hook: "prerouting", priority: -100, policy: "accept" },
      rules: [
        rule(inSet(concatenation("ip daddr", "meta l4proto", "th dport"), "frontends"), jumpTo("profile")),
        rule({
          kind: "dnat",
          target: {
            family: "ip",
            hasPort: true,
            lookup: lookup(concatenation("ip daddr", "meta l4proto", "tcp dport", modulus2), "endpoints4"),
          },
        }),
        rule({
          kind: "dnat",
          target: {
            family: "ip6",
            hasPort: true,
            lookup: lookup(concatenation("ip6 daddr", "meta l4proto", "udp dport", modulus2), "endpoints6"),
          },
        }),
        rule({
          kind: "dnat",
          target: {
            family: "ip",
            hasPort: true,
            lookup: lookup(concatenation("ip daddr", "meta l4proto", "sctp dport"), "single4"),
          },
        }),
        rule({
          kind: "dnat",
          target: { family: "ip", hasPort: false, lookup: lookup("tcp dport", "addressmap") },
        }),
      ],
    },
    {
      name: "nat_postrouting",
      base: { type: "nat", hook: "postrouting", priority: 100, policy: "accept" },
      rules: [
        rule(hasBit("meta mark", 0x4000), { kind: "masquerade" }),
        rule(anyFlag("ct status", "snat", "dnat"), returnToCaller),
        rule(oneOf("meta l4proto", ["icmp", "tcp", "udp"]), { kind: "masquerade", ports: { first: 1024, last: 2047 } }),
        rule(equals("meta l4proto", "udp"), { kind: "masquerade", ports: { first: 99, last: 99 } }),
      ],
    },
    {
      name: "forward",
      base: { type: "filter", hook: "forward", priority: -5, policy: "drop" },
      rules: everyMatch(),
    },
  ],
};

function everyMatch(): readonly Rule[] {
  return [
    rule(equals("ct label", 100), accept),
    rule(not(equals("ct label", 3)), accept),
    rule({ kind: "set label", bit: 100 }, accept),
    rule({ kind: "set trace" }),
    rule(anyFlag("ct state", "established", "new"), accept),
    rule(not(anyFlag("ct state", "invalid")), accept),
    rule(equals("ct direction", "reply"), counter, drop),
    rule(equals("ct original ip daddr", parseAddress("1.2.3.4")), accept),
    rule(equals("ct original ip6 saddr", parseAddress("fd00::4")), accept),
    rule(equals("meta l4proto", "udp"), equals("ct original proto-dst", 53), accept),
    rule(inSet("ct id", "cut"), counter, drop),
    rule(equals("ct id", 0x12345678), accept),
    rule(startsWith("iifname", "dbv"), accept),
    rule(not(startsWith("oifname", "dbv")), accept),
    rule(equals("iifname", "cni0"), equals("oifname", "eth0.5"), accept),
    rule(equals("fib daddr type", "local"), accept),
    rule(equals("meta oiftype", "ether"), inSet("rt ip nexthop", "addresses4"), accept),
    rule(not(equals("fib saddr type", "local")), returnToCaller),
    rule(inPrefix("ip6 saddr", parseCidr("fe80::/10")), counter, drop),
    rule(not(inPrefix("ip saddr", parseCidr("10.0.0.0/8"))), drop),
    rule(inPrefix("ip saddr", parseCidr("10.1.2.128/25")), drop),
    rule(inSet("ip saddr", "addresses4"), not(inSet("ip daddr", "ranges4")), accept),
    rule(inSet(concatenation("ip saddr", "tcp dport"), "portranges"), accept),
    rule(oneOf("icmpv6 type", ["nd-neighbor-solicit", "nd-redirect"]), accept),
    rule(
      equals("icmpv6 type", "nd-neighbor-advert"),
      not(inSet(concatenation("ip6 saddr", "@th,64,128"), "targets")),
      drop,
    ),
    rule(equals("icmp type", "destination-unreachable"), equals("icmp code", "frag-needed"), drop),
    rule(equals("meta nfproto", "ipv4"), oneOf("igmp type", ["membership-report-v2", "leave-group"]), accept),
    rule(inSet("ct reply ip saddr", "addresses4"), accept),
    rule(equals("ct reply ip6 saddr", parseAddress("fd00::4")), accept),
    rule(oneOf("icmp type", ["redirect", "destination-unreachable"]), drop),
    rule(equals("icmpv6 type", "nd-redirect"), drop),
    rule(oneOf("tcp dport", [80, 443]), accept),
    rule({ kind: "match", left: "th dport", isNegated: false, right: { kind: "range", first: 80, last: 90 } }, accept),
    rule({ kind: "match", left: "th sport", isNegated: true, right: { kind: "range", first: 80, last: 90 } }, accept),
    rule(
      { kind: "match", left: "tcp flags", isNegated: false, right: { kind: "flags", names: ["syn", "rst"] } },
      accept,
    ),
    rule({ kind: "vmap", key: "ip saddr", map: "profiles" }),
    rule({ kind: "vmap", key: concatenation("ip saddr", "tcp dport"), map: "profileports" }),
    rule({ kind: "vmap", key: "meta priority", mask: 0x7f, map: "classchains" }),
    rule({ kind: "vmap", key: "meta mark", mask: 0xff00_0000, map: "markchains" }),
    rule({ kind: "mask priority", bits: 0xffff_ff80 }),
    rule(setMarkBit(0x20000000)),
    rule(clearMarkBits(0x30000000)),
    rule({ kind: "limit", rate: 100, unit: "second", burst: 200, isOver: true }, counter, drop),
    rule(
      { kind: "limit", rate: 10, unit: "hour", burst: 5, isOver: false },
      {
        kind: "log",
        prefix: "drawbridge e|11",
        group: 7,
        snapLength: 128,
      },
    ),
    rule({ kind: "dynamic", operation: "update", set: "leased", key: "ip saddr", timeout: 10_000 }, accept),
    rule({ kind: "dynamic", operation: "add", set: "leased", key: "ip saddr" }),
    rule({
      kind: "dynamic",
      operation: "update",
      set: "leased",
      key: "ip saddr",
      timeout: 10_000,
      limit: { kind: "limit", rate: 20, unit: "hour", burst: 7, isOver: true },
    }),
    rule({
      kind: "dynamic",
      operation: "update",
      set: "affinity",
      key: concatenation("ip saddr", "tcp dport"),
      data: "meta mark",
    }),
    rule(hasBits("meta priority", 0xff00_0007, 0xdb00_0005), {
      kind: "dynamic",
      operation: "update",
      set: "sticky",
      key: concatenation(hash6, "meta priority"),
      timeout: 90_000,
      data: { kind: "jhash", of: ["ip6 daddr", "th dport"], modulus: 0xffff_ffff, seed: 7 },
    }),
    rule({ kind: "set priority from", from: lookup("ip saddr", "classes") }),
    rule({ kind: "set priority from", from: lookup(concatenation(hash6, "meta priority"), "sticky") }),
    rule({ kind: "clear priority" }),
    rule(setAddress("ip saddr", parseAddress("0.0.0.0"))),
    rule(setAddress("ip6 daddr", parseAddress("fd00::1"))),
    rule(inPrefix("ip daddr", parseCidr("127.0.0.0/8")), setAddress("ip daddr", "ct reply ip daddr")),
    rule(equals("ip6 daddr", parseAddress("::1")), setAddress("ip6 daddr", "ct reply ip6 daddr")),
    rule(inPrefix("ct original ip saddr", parseCidr("127.0.0.0/8")), setAddress("ip daddr", "ct original ip saddr")),
    rule(equals("ct original ip6 saddr", parseAddress("::1")), setAddress("ip6 daddr", "ct original ip6 saddr")),
    rule({ kind: "dynamic", operation: "delete", set: "leased", key: "ip saddr" }),
    rule(equals({ kind: "numgen", modulus: 5 }, 1), accept),
    rule(equals({ kind: "jhash", of: ["ip saddr", "ip daddr"], modulus: 3, seed: 1 }, 2), accept),
    rule({ kind: "reject", reply: "icmpx port-unreachable" }),
    rule({ kind: "reject", reply: "tcp reset" }),
    rule(equals("tcp dport", 80), { kind: "reject", reply: "tcp reset" }),
    rule(equals("meta nfproto", "ipv4"), equals("meta l4proto", "udp"), goTo("profile")),
    rule(equals("meta pkttype", "broadcast"), drop),
    { statements: [accept], comment: "the end: 100" },
  ];
}

const a4 = parseAddress("10.244.1.7");
const b4 = parseAddress("10.244.1.8");
const a6 = parseAddress("fd00:244:1::7");

/** Elements for {@link everythingTable}. */
export const everythingElements: ReadonlyMap<string, readonly Element[]> = new Map<string, readonly Element[]>([
  ["addresses4", [{ key: [a4] }, { key: [b4], comment: "pod/web 1" }]],
  ["addresses6", [{ key: [a6] }, { key: [], comment: "all others" }]],
  [
    "ranges4",
    [
      { key: [{ first: parseAddress("10.0.0.0"), last: parseAddress("10.0.0.255") }] },
      { key: [parseAddress("10.1.0.1")] },
      { key: [{ first: parseAddress("10.2.0.1"), last: parseAddress("10.2.0.9") }] },
      { key: [{ first: parseAddress("240.0.0.0"), last: parseAddress("255.255.255.255") }] },
    ],
  ],
  ["cut", [{ key: [0x12345678] }, { key: [1] }]],
  ["targets", [{ key: [parseAddress("fd00::1"), parseAddress("fd00::1")] }, { key: [parseAddress("fe80::2"), 1n] }]],
  ["ranges6", [{ key: [{ first: parseAddress("fd00::"), last: parseAddress("fd00::ffff") }] }]],
  ["frontends", [{ key: [a4, "tcp", 80] }, { key: [a4, "udp", 53] }, { key: [b4, "sctp", 9] }]],
  [
    "portranges",
    [
      {
        key: [
          { first: parseAddress("1.2.3.0"), last: parseAddress("1.2.3.255") },
          { first: 80, last: 90 },
        ],
      },
      { key: [parseAddress("5.5.5.5"), 9] },
      { key: [] },
    ],
  ],
  ["ports", [{ key: [80] }, { key: [{ first: 82, last: 83 }] }, { key: [{ first: 65_000, last: 65_535 }] }]],
  ["sources", [{ key: ["dbv0a1b2c3d4e5f", "0a:58:0a:f4:01:07", a4] }]],
  [
    "endpoints4",
    [
      { key: [a4, "tcp", 80, 0], data: [b4, 8080] },
      { key: [a4, "tcp", 80, 1], data: [a4, 8080] },
    ],
  ],
  ["endpoints6", [{ key: [a6, "udp", 53, 1], data: [a6, 5353] }]],
  ["single4", [{ key: [a4, "sctp", 80], data: [b4, 8080] }]],
  ["addressmap", [{ key: [80], data: [b4] }]],
  [
    "classes",
    [
      { key: [a4], data: [0x1_0002] },
      { key: [b4], data: [0xdb00_0005] },
      { key: [parseAddress("10.0.0.9")], data: ["none"] },
    ],
  ],
  [
    "profiles",
    [
      { key: [a4], data: { kind: "jump", chain: "profile" } },
      { key: [b4], data: { kind: "drop" } },
    ],
  ],
  ["classchains", [{ key: [5], data: { kind: "jump", chain: "profile" } }]],
  [
    "profileports",
    [
      {
        key: [
          { first: parseAddress("10.0.0.0"), last: parseAddress("10.0.0.255") },
          { first: 80, last: 81 },
        ],
        data: { kind: "goto", chain: "profile" },
      },
    ],
  ],
]);
