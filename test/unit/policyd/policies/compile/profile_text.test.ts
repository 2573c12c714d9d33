import assert from "node:assert/strict";
import { parseAddress } from "../../../../../kernel/ip/address.ts";
import { checkName } from "../../../../../kernel/nftables/model/identifier.ts";
import { directionOf, profileOf } from "../../../../../policyd/metrics/policy_rule.ts";
import { DEFAULT_POLICY_OPTIONS, type PolicyOptions } from "../../../../../policyd/policies/compile/options.ts";
import { profileChainName } from "../../../../../policyd/policies/compile/profile_chain.ts";
import { compiledText } from "../../../../support/policy/compiled_text.ts";
import { clusterPolicy, SHOP, webPolicy } from "../../../../support/policy/shop.ts";

/**
 * Texts of profiles with what random clusters rarely have: exceptions, port names in every place, and rules that log.
 * All are of node1, which has the pod "web"; a cluster policy's profile is the same for every pod of the node.
 */
describe("policyd/policies/compile: the text of profiles", () => {
  it("POL-31 POL-35: egress port names are each destination's own, and towards an ipBlock those of the pods in it", () => {
    const policies = webPolicy(`
policyTypes: [Egress]
egress:
  - to: [ { podSelector: {} }, { ipBlock: { cidr: 10.244.0.0/16 } }, { ipBlock: { cidr: "::/0" } } ]
    ports: [ { port: http } ]
  - ports: [ { port: dns, protocol: UDP } ]
`);
    assert.equal(
      compiledText(SHOP + policies),
      `named_A_v4: 10.244.1.5 . tcp . 8080, 10.244.2.6 . tcp . 9090
named_A_v6: fd00:244:1::5 . tcp . 8080, fd00:244:2::6 . tcp . 9090
named_B_v4: 10.244.1.5 . tcp . 8080, 10.244.2.6 . tcp . 9090, 10.244.2.7 . tcp . 80
named_B_v6: fd00:244:1::5 . tcp . 8080, fd00:244:2::6 . tcp . 9090
named_C_v4: 10.244.2.7 . udp . 53
egress_D:
  ip saddr . ip daddr @self4 counter return comment "itself"
  ip6 saddr . ip6 daddr @self6 counter return comment "itself"
  fib daddr type local counter return comment "own node"
  ip daddr . meta l4proto . th dport @named_A_v4 counter return comment "NetworkPolicy rule 0 of shop/policy"
  ip6 daddr . meta l4proto . th dport @named_A_v6 counter return comment "NetworkPolicy rule 0 of shop/policy"
  ip daddr 10.244.0.0/16 ip daddr . meta l4proto . th dport @named_B_v4 counter return comment "NetworkPolicy rule 0 of shop/policy"
  ip6 daddr . meta l4proto . th dport @named_B_v6 counter return comment "NetworkPolicy rule 0 of shop/policy"
  ip daddr . meta l4proto . th dport @named_C_v4 counter return comment "NetworkPolicy rule 1 of shop/policy"
  ip6 daddr . meta l4proto . th dport @named_C_v6 counter return comment "NetworkPolicy rule 1 of shop/policy"
  counter drop comment "isolated by shop/policy"
`,
    );
  });

  it("a policy in shadow counts and logs what it would drop, and continues with the Baseline tier", () => {
    const policies =
      webPolicy(
        "policyTypes: [Egress]\negress: [ { ports: [ { port: 80 } ] } ]",
        "tried",
        '{ drawbridge.dev/shadow: "true" }',
      ) +
      clusterPolicy(`
tier: Baseline
priority: 1
egress: [ { action: Deny, to: [ { namespaces: { matchLabels: { team: b } } } ] } ]
`);
    assert.equal(
      compiledText(SHOP + policies),
      `pods_A_v4: 10.244.2.7
egress_B_baseline:
  ip daddr @pods_A_v4 counter drop comment "ClusterNetworkPolicy rule 0 of cluster"
  ip6 daddr @pods_A_v6 counter drop comment "ClusterNetworkPolicy rule 0 of cluster"
egress_B:
  ip saddr . ip daddr @self4 counter goto egress_B_baseline comment "itself"
  ip6 saddr . ip6 daddr @self6 counter goto egress_B_baseline comment "itself"
  fib daddr type local counter goto egress_B_baseline comment "own node"
  tcp dport 80 counter goto egress_B_baseline comment "NetworkPolicy rule 0 of shop/tried"
  counter comment "would be isolated by shop/tried"
  limit rate 10/second burst 50 packets log prefix "drawbridge egress B shadow" group 107 snaplen 128
  goto egress_B_baseline
`,
    );
  });

  it("CNP-20: an egress Deny of nodes also drops what the node hears at its links' broadcast and anycast addresses, and no Deny of networks does", () => {
    const denying = (peer: string): number =>
      compiledText(
        SHOP + clusterPolicy(`tier: Admin\npriority: 1\negress: [ { action: Deny, to: [ ${peer} ] } ]`),
      ).split('fib daddr type { broadcast, anycast } counter drop comment "ClusterNetworkPolicy rule 0 of ').length - 1;
    const link = '{ networks: [ "224.0.0.0/4", "255.255.255.255/32", "fe80::/10", "ff00::/8" ] }';
    assert.deepEqual([denying("{ nodes: {} }"), denying(link)], [1, 0]);
  });

  it("with dropLog, drops pass a rate-limited log rule, and the node's own DNS server is always reachable", () => {
    const policies = webPolicy("policyTypes: [Egress]");
    assert.equal(
      compiledText(SHOP + policies, {
        dropLog: true,
        dropLogGroup: 9,
        policePodToOwnNode: true,
        nodeLocalDNS: [parseAddress("169.254.20.10")],
      }),
      `ports_A: tcp . 53, udp . 53
egress_B_C_drop:
  limit rate 10/second burst 50 packets log prefix "drawbridge egress B drop" group 9 snaplen 128
  drop
egress_B_C:
  ip saddr . ip daddr @self4 counter return comment "itself"
  ip6 saddr . ip6 daddr @self6 counter return comment "itself"
  ip daddr 169.254.20.10 meta l4proto . th dport @ports_A counter return comment "node-local DNS"
  counter goto egress_B_C_drop comment "isolated by shop/policy"
`,
    );
  });

  it("DP-13: a chain's name changes with each option that changes its rules, and with no other option", () => {
    const nameWith = (options: Partial<PolicyOptions>): string =>
      profileChainName("ingress", "0123456789abcdef01234567", { ...DEFAULT_POLICY_OPTIONS, ...options });
    assert.equal(nameWith({}), "ingress_0123456789abcdef01234567");
    assert.equal(nameWith({ bridge: "br0", policyReset: true }), nameWith({}));
    const names = [
      {},
      { dropLog: true },
      { dropLogGroup: 9 },
      { dropLog: true, dropLogGroup: 9 },
      { policePodToOwnNode: true },
      { nodeLocalDNS: [parseAddress("169.254.20.10")] },
      { nodeLocalDNS: [parseAddress("fd00::10")] },
    ].map(nameWith);
    assert.equal(new Set(names).size, names.length, names.join(" "));
    for (const name of names) {
      assert.equal(checkName("chain", `${name}_behind_admin`), `${name}_behind_admin`);
      assert.equal(directionOf(name), "ingress");
      assert.equal(profileOf(`${name}_drop`), nameWith({}), "the chain is found by the profile's key");
    }
  });

  it("POL-04: many rules are flattened into few lookups", () => {
    const policies = webPolicy(`
policyTypes: [Egress]
egress:
  - to: [ { podSelector: { matchLabels: { app: db } } } ]
  - to: [ { namespaceSelector: { matchLabels: { team: b } } }, { ipBlock: { cidr: 10.0.0.0/8, except: [10.1.0.0/16] } }, { ipBlock: { cidr: 10.1.0.0/16 } } ]
    ports: [ { port: 80 }, { port: http }, { protocol: UDP, port: 1000, endPort: 2000 } ]
  - ports: [ { port: 53, protocol: UDP }, { port: 53 } ]
`);
    assert.equal(
      compiledText(SHOP + policies, { flattenAbove: 0 }),
      `flat_A_v4: 10.244.2.6
flat_A_v6: fd00:244:2::6
flat_B_v4: 10.244.2.7 . tcp . 80
flat_C_v4: 10.244.2.7
named_D_v4: 10.244.1.5 . tcp . 8080, 10.244.2.6 . tcp . 9090, 10.244.2.7 . tcp . 80
named_D_v6: fd00:244:1::5 . tcp . 8080, fd00:244:2::6 . tcp . 9090
ports_E: tcp . 53, udp . 53
blocks_F_v4: 10.0.0.0/8 . tcp . 80
egress_G:
  ip saddr . ip daddr @self4 counter return comment "itself"
  ip6 saddr . ip6 daddr @self6 counter return comment "itself"
  fib daddr type local counter return comment "own node"
  meta l4proto . th dport @ports_E counter return comment "everyone at ports"
  ip daddr @flat_A_v4 counter return comment "peers at every port"
  ip daddr . meta l4proto . th dport @flat_B_v4 counter return comment "peers at ports"
  ip daddr . meta l4proto . th dport @blocks_F_v4 counter return comment "ranges at ports"
  ip daddr @flat_C_v4 udp dport 1000-2000 counter return comment "peers at a range of ports"
  ip daddr 10.0.0.0/8 udp dport 1000-2000 counter return comment "peers at a range of ports"
  ip daddr 10.0.0.0/8 ip daddr . meta l4proto . th dport @named_D_v4 counter return comment "peers at a named port"
  ip6 daddr @flat_A_v6 counter return comment "peers at every port"
  ip6 daddr . meta l4proto . th dport @flat_B_v6 counter return comment "peers at ports"
  ip6 daddr @flat_C_v6 udp dport 1000-2000 counter return comment "peers at a range of ports"
  counter drop comment "isolated by shop/policy"
`,
    );
  });
});
