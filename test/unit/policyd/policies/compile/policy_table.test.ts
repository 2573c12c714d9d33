import assert from "node:assert/strict";
import { type Address, parseAddress } from "../../../../../kernel/ip/address.ts";
import { formatTable } from "../../../../../kernel/nftables/text/text.ts";
import { DEFAULT_POLICY_OPTIONS } from "../../../../../policyd/policies/compile/options.ts";
import { PolicyDropReason, policyTable } from "../../../../../policyd/policies/compile/policy_table.ts";
import { compiledYaml } from "../../../../support/policy/compiled_text.ts";
import { PolicedNode, type PolicedPacket } from "../../../../support/policy/policed_node.ts";
import { SHOP, webPolicy } from "../../../../support/policy/shop.ts";

/** For each family: the node's pod, a pod that the node does not know, the node itself, and an outside address. */
const PLACES = [
  { web: "10.244.1.5", stranger: "10.244.1.9", node: "10.240.0.1", outside: "192.0.2.7" },
  { web: "fd00:244:1::5", stranger: "fd00:244:1::9", node: "fd00:240::1", outside: "2001:db8::7" },
].map(({ web, stranger, node, outside }) => ({
  web: parseAddress(web),
  stranger: parseAddress(stranger),
  node: parseAddress(node),
  outside: parseAddress(outside),
}));

const ALLOW_ALL = webPolicy("policyTypes: [Ingress, Egress]\ningress: [ {} ]\negress: [ {} ]");

function nodeWith(policies: string): PolicedNode {
  return new PolicedNode(
    compiledYaml(SHOP + policies),
    PLACES.map(({ stranger }) => stranger),
  );
}

const flow = (source: Address, destination: Address): PolicedPacket => ({
  source,
  destination,
  protocol: "tcp",
  port: 80,
});

/** The verdict, and the reason of a drop. */
function fate(node: PolicedNode, packet: PolicedPacket): string {
  const { verdict, decision } = node.send(packet);
  return verdict === "accept" ? verdict : `${verdict}: ${decision?.rule?.split(" ").slice(3).join(" ")}`;
}

describe("policyd/policies/compile: the table", () => {
  it("the policy table has this text, and depends only on the configuration", () => {
    const text = formatTable(policyTable(DEFAULT_POLICY_OPTIONS), new Map());
    assert.equal(text.replaceAll("\t", "  "), TABLE);
    const withResets = formatTable(policyTable({ ...DEFAULT_POLICY_OPTIONS, policyReset: true }), new Map());
    const added = withResets.split("\n").filter((line) => line !== "" && !text.includes(line));
    assert.deepEqual(
      added.map((line) => line.trim()),
      [
        "set cut {",
        "chain prerouting {",
        "type filter hook prerouting priority -150; policy accept;",
        "tcp flags rst ct state related accept",
        "ct id @cut counter meta l4proto tcp reject with tcp reset",
        "tcp flags rst ct state related accept",
        "ct id @cut counter meta l4proto tcp reject with tcp reset",
      ],
    );
  });

  it("POL-90: a known pod without a verdict passes nothing in that direction, whether a policy selects it or not", () => {
    for (const policies of ["", ALLOW_ALL]) {
      for (const { web, node: own, outside } of PLACES) {
        for (const other of [own, outside]) {
          const mute = nodeWith(policies).without("egress", web);
          assert.equal(fate(mute, flow(web, other)), `drop: ${PolicyDropReason.SOURCE}`);
          assert.equal(fate(mute, flow(other, web)), "accept", "the other direction");
          assert.equal(fate(mute, { ...flow(web, other), isUntracked: true }), `drop: ${PolicyDropReason.SOURCE}`);
        }
        const deaf = nodeWith(policies).without("ingress", web);
        assert.equal(fate(deaf, flow(outside, web)), `drop: ${PolicyDropReason.DESTINATION}`);
        assert.equal(fate(deaf, flow(own, web)), "accept", "its node needs no verdict (POL-07)");
        assert.equal(fate(deaf, flow(web, outside)), "accept", "the other direction");
        const announced = { ...flow(web, outside), state: "related" } as const;
        assert.equal(fate(nodeWith(policies), announced), "accept", "a related flow");
        const without = nodeWith(policies).without("egress", web);
        assert.equal(fate(without, announced), `drop: ${PolicyDropReason.SOURCE}`);
      }
    }
  });
});

const TABLE = `table inet drawbridge-policy {
  set known4 {
    type ipv4_addr
  }

  set own4 {
    type ipv4_addr
    flags interval
  }

  set self4 {
    type ipv4_addr . ipv4_addr
  }

  map egress4 {
    type ipv4_addr : verdict
  }

  map ingress4 {
    type ipv4_addr : verdict
  }

  set known6 {
    type ipv6_addr
  }

  set own6 {
    type ipv6_addr
    flags interval
  }

  set self6 {
    type ipv6_addr . ipv6_addr
  }

  map egress6 {
    type ipv6_addr : verdict
  }

  map ingress6 {
    type ipv6_addr : verdict
  }

  set crowded4 {
    type ipv4_addr
  }

  set begun4 {
    type ipv4_addr
    size 4096
    flags dynamic,timeout
  }

  set crowded6 {
    type ipv6_addr
  }

  set begun6 {
    type ipv6_addr
    size 4096
    flags dynamic,timeout
  }

  set askers4 {
    type ipv4_addr
  }

  set dnsservers4 {
    type ipv4_addr . inet_proto . inet_service
  }

  set dnsservices4 {
    type ipv4_addr
  }

  set answered4 {
    type ipv4_addr
    size 4096
    flags dynamic,timeout
  }

  set askers6 {
    type ipv6_addr
  }

  set dnsservers6 {
    type ipv6_addr . inet_proto . inet_service
  }

  set dnsservices6 {
    type ipv6_addr
  }

  set answered6 {
    type ipv6_addr
    size 4096
    flags dynamic,timeout
  }

  set settled {
    typeof ct id
  }

  chain unknown_sender {
    ip6 saddr fe80::/10 counter drop comment "link-local source"
    counter drop comment "source not known yet"
  }

  chain sender {
    ip saddr vmap @egress4
    ip6 saddr vmap @egress6
    iifname "drawbridge0" goto unknown_sender
  }

  chain receiver {
    ip daddr vmap @ingress4
    ip6 daddr vmap @ingress6
    oifname "drawbridge0" counter drop comment "destination not known yet"
  }

  chain judge {
    jump sender
    jump receiver
    ct label set 100 accept
  }

  chain decide {
    iifname "drawbridge0" ip saddr != @known4 counter drop comment "source not known yet"
    iifname "drawbridge0" ip6 saddr != @known6 counter drop comment "source not known yet"
    oifname "drawbridge0" ip daddr != @known4 counter drop comment "destination not known yet"
    oifname "drawbridge0" ip6 daddr != @known6 counter drop comment "destination not known yet"
    icmp type { destination-unreachable, time-exceeded, parameter-problem } ct state related accept
    icmpv6 type { destination-unreachable, packet-too-big, time-exceeded, parameter-problem } ct state related accept
    ct direction reply counter drop comment "answer of no allowed connection"
    goto judge
  }

  chain crowded_forward {
    ip saddr @crowded4 counter drop comment "pod with too many connections"
    ip6 saddr @crowded6 counter drop comment "pod with too many connections"
    iifname != "drawbridge0" oifname "drawbridge0" ip daddr @crowded4 counter drop comment "pod with too many connections"
    iifname != "drawbridge0" oifname "drawbridge0" ip6 daddr @crowded6 counter drop comment "pod with too many connections"
  }

  chain crowded_input {
    icmpv6 type { nd-router-solicit, nd-neighbor-solicit, nd-neighbor-advert } ip6 hoplimit 255 accept
    icmpv6 type { mld-listener-query, mld-listener-report, mld-listener-done, mld2-listener-report } accept
    iifname "drawbridge0" ip saddr @crowded4 counter drop comment "pod with too many connections"
    iifname "drawbridge0" ip6 saddr @crowded6 counter drop comment "pod with too many connections"
  }

  chain braked_forward {
    iifname "drawbridge0" ip saddr @known4 update @begun4 { ip saddr timeout 10s limit rate over 2000/second burst 500 packets } counter drop comment "pod that begins connections too fast for a table that is nearly full"
    iifname "drawbridge0" ip6 saddr @known6 update @begun6 { ip6 saddr timeout 10s limit rate over 2000/second burst 500 packets } counter drop comment "pod that begins connections too fast for a table that is nearly full"
    iifname != "drawbridge0" ip daddr @known4 update @begun4 { ip daddr timeout 10s limit rate over 2000/second burst 500 packets } counter drop comment "pod that begins connections too fast for a table that is nearly full"
    iifname != "drawbridge0" ip6 daddr @known6 update @begun6 { ip6 daddr timeout 10s limit rate over 2000/second burst 500 packets } counter drop comment "pod that begins connections too fast for a table that is nearly full"
  }

  chain braked_input {
    iifname "drawbridge0" ip saddr @known4 update @begun4 { ip saddr timeout 10s limit rate over 2000/second burst 500 packets } counter drop comment "pod that begins connections too fast for a table that is nearly full"
    iifname "drawbridge0" ip6 saddr @known6 update @begun6 { ip6 saddr timeout 10s limit rate over 2000/second burst 500 packets } counter drop comment "pod that begins connections too fast for a table that is nearly full"
  }

  chain forward {
    type filter hook forward priority -5; policy accept;
    ct label 100 accept
    ct state new,untracked iifname "drawbridge0" goto judge
    ct state new,untracked oifname "drawbridge0" goto judge
    ct id @settled accept
    iifname "drawbridge0" goto decide
    oifname "drawbridge0" goto decide
  }

  chain input {
    type filter hook input priority -5; policy accept;
    iifname != "drawbridge0" accept
    ct label 100 accept
    ct state new goto judge
    ct id @settled accept
    icmpv6 type { nd-router-solicit, nd-neighbor-solicit, nd-neighbor-advert } ip6 hoplimit 255 accept
    icmpv6 type { mld-listener-query, mld-listener-report, mld-listener-done, mld2-listener-report } accept
    ip6 saddr fe80::/10 counter drop comment "link-local source"
    ip saddr != @known4 counter drop comment "source not known yet"
    ip6 saddr != @known6 counter drop comment "source not known yet"
    icmp type { destination-unreachable, time-exceeded, parameter-problem } ct state related accept
    icmpv6 type { destination-unreachable, packet-too-big, time-exceeded, parameter-problem } ct state related accept
    ct direction reply counter drop comment "answer of no allowed connection"
    goto judge
  }

  chain output {
    type filter hook output priority -5; policy accept;
    oifname != "drawbridge0" ct status ! dnat accept
    ct label 100 accept
    ct state new ip daddr @known4 ct label set 100 accept
    ct state new ip6 daddr @known6 ct label set 100 accept
    ct id @settled accept
    icmpv6 type { nd-router-solicit, nd-neighbor-solicit, nd-neighbor-advert } ip6 hoplimit 255 accept
    icmpv6 type { mld-listener-query, mld-listener-report, mld-listener-done, mld2-listener-report } accept
    oifname "drawbridge0" fib daddr type unicast ip daddr != @known4 counter drop comment "destination not known yet"
    oifname "drawbridge0" fib daddr type unicast ip6 daddr != @known6 counter drop comment "destination not known yet"
    icmp type { destination-unreachable, time-exceeded, parameter-problem } ct state related accept
    icmpv6 type { destination-unreachable, packet-too-big, time-exceeded, parameter-problem } ct state related accept
    ct direction original ip daddr @known4 ct label set 100 accept
    ct direction original ip6 daddr @known6 ct label set 100 accept
    ct direction original ip daddr @own4 fib daddr type unicast counter drop comment "destination not known yet"
    ct direction original ip6 daddr @own6 fib daddr type unicast counter drop comment "destination not known yet"
    ct direction reply ip daddr @known4 counter drop comment "answer of no allowed connection"
    ct direction reply ip6 daddr @known6 counter drop comment "answer of no allowed connection"
  }
}
`;
