import { parseCidr } from "../../../kernel/ip/cidr.ts";
import { concatenation, lookup, randomNumber, type Selector } from "../../../kernel/nftables/model/expression.ts";
import type { BaseChain, FieldType, KeyPart, SetDefinition, Table } from "../../../kernel/nftables/model/object.ts";
import {
  accept,
  anyFlag,
  clearMarkBits,
  counter,
  drop,
  equals,
  goTo,
  hasBit,
  inPrefix,
  inSet,
  not,
  oneOf,
  returnToCaller,
  type Rule,
  rule,
  setMarkBit,
  type Statement,
} from "../../../kernel/nftables/model/statement.ts";

const frontend = (address: FieldType): readonly FieldType[] => [address, "inet_proto", "inet_service"];
const endpoints = (name: string, key: readonly KeyPart[], address: FieldType): SetDefinition => ({
  name,
  key,
  data: [address, "inet_service"],
});
const allowed: Statement = { kind: "set label", bit: 100 };
const masquerade: Statement = { kind: "masquerade", isFullyRandom: true };
const base = (type: "nat" | "filter", hook: BaseChain["hook"], priority: number): BaseChain => ({
  type,
  hook,
  priority,
  policy: "accept",
});

function translations(family: "ip" | "ip6", maps: readonly string[], key: readonly Selector[]): readonly Rule[] {
  return maps.flatMap((map) =>
    (["tcp dport", "udp dport"] as const).map((port) => {
      const parts = [...key, "meta l4proto" as const, port, ...(map.startsWith("ep2") ? [randomNumber(2)] : [])];
      const target = { kind: "map", family, hasPort: true, lookup: lookup(concatenation(...parts), map) } as const;
      return rule({ kind: "dnat", target });
    }),
  );
}

const errors4 = oneOf("icmp type", ["destination-unreachable", "time-exceeded", "parameter-problem"]);
const errors6 = oneOf("icmpv6 type", [
  "destination-unreachable",
  "packet-too-big",
  "time-exceeded",
  "parameter-problem",
]);
const related = anyFlag("ct state", "related");
const dropReplies = rule(equals("ct direction", "reply"), counter, drop);
const unknown = (field: "ip saddr" | "ip daddr" | "ip6 saddr" | "ip6 daddr"): Rule => {
  const version = field.startsWith("ip6") ? "6" : "4";
  return rule(inSet(field, `local${version}`), not(inSet(field, `known${version}`)), counter, drop);
};
const profile = (key: Selector, map: string): Rule => rule({ kind: "vmap", key, map });
const hairpin4 = inSet(concatenation("ip saddr", "ip daddr"), "hairpin4");
const hairpin6 = inSet(concatenation("ip6 saddr", "ip6 daddr"), "hairpin6");

/** The Services and policies of a whole node as one table, with the objects of such a table. */
export const nodeTable: Table = {
  family: "inet",
  name: "drawbridge",
  sets: [
    { name: "fe4", key: frontend("ipv4_addr") },
    { name: "fe6", key: frontend("ipv6_addr") },
    endpoints("ep1_4", frontend("ipv4_addr"), "ipv4_addr"),
    endpoints("ep1_6", frontend("ipv6_addr"), "ipv6_addr"),
    endpoints("ep2_4", [...frontend("ipv4_addr"), randomNumber(2)], "ipv4_addr"),
    endpoints("ep2_6", [...frontend("ipv6_addr"), randomNumber(2)], "ipv6_addr"),
    endpoints("np1_4", ["inet_proto", "inet_service"], "ipv4_addr"),
    endpoints("np1_6", ["inet_proto", "inet_service"], "ipv6_addr"),
    { name: "hairpin4", key: ["ipv4_addr", "ipv4_addr"] },
    { name: "hairpin6", key: ["ipv6_addr", "ipv6_addr"] },
    { name: "local4", key: ["ipv4_addr"], isInterval: true },
    { name: "local6", key: ["ipv6_addr"], isInterval: true },
    { name: "known4", key: ["ipv4_addr"] },
    { name: "known6", key: ["ipv6_addr"] },
    { name: "eg4", key: ["ipv4_addr"], data: "verdict" },
    { name: "eg6", key: ["ipv6_addr"], data: "verdict" },
    { name: "ig4", key: ["ipv4_addr"], data: "verdict" },
    { name: "ig6", key: ["ipv6_addr"], data: "verdict" },
  ],
  chains: [
    {
      name: "svc",
      rules: [
        rule(inSet(concatenation("ip daddr", "meta l4proto", "th dport"), "fe4"), goTo("svc4")),
        rule(inSet(concatenation("ip6 daddr", "meta l4proto", "th dport"), "fe6"), goTo("svc6")),
        rule(equals("fib daddr type", "local"), goTo("nodeport")),
      ],
    },
    {
      name: "svc4",
      rules: [
        rule(not(inPrefix("ip saddr", parseCidr("10.244.0.0/16"))), setMarkBit(0x4000)),
        ...translations("ip", ["ep1_4", "ep2_4"], ["ip daddr"]),
      ],
    },
    {
      name: "svc6",
      rules: [
        rule(not(inPrefix("ip6 saddr", parseCidr("fd00:244::/56"))), setMarkBit(0x4000)),
        ...translations("ip6", ["ep1_6", "ep2_6"], ["ip6 daddr"]),
      ],
    },
    { name: "nodeport", rules: [...translations("ip", ["np1_4"], []), ...translations("ip6", ["np1_6"], [])] },
    { name: "nat_pre", base: base("nat", "prerouting", -100), rules: [rule(goTo("svc"))] },
    { name: "nat_out", base: base("nat", "output", -100), rules: [rule(goTo("svc"))] },
    {
      name: "mark_pre",
      base: base("filter", "prerouting", -90),
      rules: [rule(equals("iifname", "cni0"), anyFlag("ct status", "snat", "dnat"), setMarkBit(0x2000))],
    },
    {
      name: "nat_post",
      base: base("nat", "postrouting", 100),
      rules: [
        rule(anyFlag("ct status", "dnat"), hairpin4, masquerade),
        rule(anyFlag("ct status", "dnat"), hairpin6, masquerade),
        rule(hasBit("meta mark", 0x4000), masquerade),
      ],
    },
    {
      name: "clear_post",
      base: base("filter", "postrouting", 110),
      rules: [
        rule(
          { kind: "match", left: "meta mark", isNegated: true, right: { kind: "masked", mask: 0x6000, value: 0 } },
          clearMarkBits(0x6000),
        ),
      ],
    },
    {
      name: "decide",
      rules: [
        rule(errors4, related, accept),
        rule(errors6, related, accept),
        dropReplies,
        unknown("ip saddr"),
        unknown("ip daddr"),
        unknown("ip6 saddr"),
        unknown("ip6 daddr"),
        rule(hairpin4, allowed, accept),
        rule(hairpin6, allowed, accept),
        profile("ip saddr", "eg4"),
        profile("ip6 saddr", "eg6"),
        profile("ip daddr", "ig4"),
        profile("ip6 daddr", "ig6"),
        rule(allowed),
      ],
    },
    {
      name: "forward",
      base: base("filter", "forward", -5),
      rules: [
        rule(equals("ct label", 100), accept),
        rule(equals("iifname", "cni0"), goTo("decide")),
        rule(equals("oifname", "cni0"), goTo("decide")),
      ],
    },
    {
      name: "input",
      base: base("filter", "input", -5),
      rules: [
        rule(not(equals("iifname", "cni0")), accept),
        rule(oneOf("icmpv6 type", ["nd-neighbor-solicit", "nd-neighbor-advert"]), equals("ip6 hoplimit", 255), accept),
        rule(inPrefix("ip6 saddr", parseCidr("fe80::/10")), counter, drop),
        rule(returnToCaller),
      ],
    },
  ],
};

/** The same table as a person writes it for nft. */
export const nodeText = `
table inet drawbridge {
  set fe4 { type ipv4_addr . inet_proto . inet_service; }
  set fe6 { type ipv6_addr . inet_proto . inet_service; }
  map ep1_4 { type ipv4_addr . inet_proto . inet_service : ipv4_addr . inet_service; }
  map ep1_6 { type ipv6_addr . inet_proto . inet_service : ipv6_addr . inet_service; }
  map ep2_4 { typeof ip daddr . meta l4proto . th dport . numgen random mod 2 : ip daddr . th dport; }
  map ep2_6 { typeof ip6 daddr . meta l4proto . th dport . numgen random mod 2 : ip6 daddr . th dport; }
  map np1_4 { type inet_proto . inet_service : ipv4_addr . inet_service; }
  map np1_6 { type inet_proto . inet_service : ipv6_addr . inet_service; }
  set hairpin4 { type ipv4_addr . ipv4_addr; }
  set hairpin6 { type ipv6_addr . ipv6_addr; }
  set local4 { type ipv4_addr; flags interval; }
  set local6 { type ipv6_addr; flags interval; }
  set known4 { type ipv4_addr; }
  set known6 { type ipv6_addr; }
  map eg4 { type ipv4_addr : verdict; }
  map eg6 { type ipv6_addr : verdict; }
  map ig4 { type ipv4_addr : verdict; }
  map ig6 { type ipv6_addr : verdict; }
  chain svc {
    ip daddr . meta l4proto . th dport @fe4 goto svc4
    ip6 daddr . meta l4proto . th dport @fe6 goto svc6
    fib daddr type local goto nodeport
  }
  chain svc4 {
    ip saddr != 10.244.0.0/16 meta mark set meta mark or 0x4000
    meta l4proto tcp dnat ip to ip daddr . meta l4proto . th dport map @ep1_4
    meta l4proto udp dnat ip to ip daddr . meta l4proto . th dport map @ep1_4
    meta l4proto tcp dnat ip to ip daddr . meta l4proto . th dport . numgen random mod 2 map @ep2_4
    meta l4proto udp dnat ip to ip daddr . meta l4proto . th dport . numgen random mod 2 map @ep2_4
  }
  chain svc6 {
    ip6 saddr != fd00:244::/56 meta mark set meta mark or 0x4000
    meta l4proto tcp dnat ip6 to ip6 daddr . meta l4proto . th dport map @ep1_6
    meta l4proto udp dnat ip6 to ip6 daddr . meta l4proto . th dport map @ep1_6
    meta l4proto tcp dnat ip6 to ip6 daddr . meta l4proto . th dport . numgen random mod 2 map @ep2_6
    meta l4proto udp dnat ip6 to ip6 daddr . meta l4proto . th dport . numgen random mod 2 map @ep2_6
  }
  chain nodeport {
    dnat ip to meta l4proto . tcp dport map @np1_4
    dnat ip to meta l4proto . udp dport map @np1_4
    dnat ip6 to meta l4proto . tcp dport map @np1_6
    dnat ip6 to meta l4proto . udp dport map @np1_6
  }
  chain nat_pre {
    type nat hook prerouting priority -100; policy accept;
    goto svc
  }
  chain nat_out {
    type nat hook output priority -100; policy accept;
    goto svc
  }
  chain mark_pre {
    type filter hook prerouting priority -90; policy accept;
    iifname "cni0" ct status snat,dnat meta mark set meta mark or 0x2000
  }
  chain nat_post {
    type nat hook postrouting priority 100; policy accept;
    ct status dnat ip saddr . ip daddr @hairpin4 masquerade fully-random
    ct status dnat ip6 saddr . ip6 daddr @hairpin6 masquerade fully-random
    meta mark and 0x4000 == 0x4000 masquerade fully-random
  }
  chain clear_post {
    type filter hook postrouting priority 110; policy accept;
    meta mark and 0x6000 != 0 meta mark set meta mark and 0xffff9fff
  }
  chain decide {
    icmp type { destination-unreachable, time-exceeded, parameter-problem } ct state related accept
    icmpv6 type { destination-unreachable, packet-too-big, time-exceeded, parameter-problem } ct state related accept
    ct direction reply counter drop
    ip saddr @local4 ip saddr != @known4 counter drop
    ip daddr @local4 ip daddr != @known4 counter drop
    ip6 saddr @local6 ip6 saddr != @known6 counter drop
    ip6 daddr @local6 ip6 daddr != @known6 counter drop
    ip saddr . ip daddr @hairpin4 ct label set 100 accept
    ip6 saddr . ip6 daddr @hairpin6 ct label set 100 accept
    ip saddr vmap @eg4
    ip6 saddr vmap @eg6
    ip daddr vmap @ig4
    ip6 daddr vmap @ig6
    ct label set 100
  }
  chain forward {
    type filter hook forward priority filter - 5; policy accept;
    ct label 100 accept
    iifname "cni0" goto decide
    oifname "cni0" goto decide
  }
  chain input {
    type filter hook input priority filter - 5; policy accept;
    iifname != "cni0" accept
    icmpv6 type { nd-neighbor-solicit, nd-neighbor-advert } ip6 hoplimit 255 accept
    ip6 saddr fe80::/10 counter drop
    return
  }
}
`;
