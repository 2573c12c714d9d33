import assert from "node:assert/strict";
import { formatTable } from "../../../../kernel/nftables/text/text.ts";
import type { NodeConfiguration } from "../../../../policyd/node/tables/configuration.ts";
import { nodeTables } from "../../../../policyd/node/tables/tables.ts";
import { DEFAULT_POLICY_OPTIONS } from "../../../../policyd/policies/compile/options.ts";
import { SERVICE_RULES } from "../../../support/services/scenario.ts";

const DEFAULTS: NodeConfiguration = {
  bridge: "drawbridge0",
  markBits: { masquerade: 0x1000_0000, bridged: 0x2000_0000 },
  tableOwner: false,
};

/** The rules at input about tunnels of other programs. */
const OTHER_TUNNELS = [
  "udp dport { 4789, 6081, 8472 }",
  "udp dport @tunnel_ports",
  "meta l4proto { ipencap, ipv6, gre, etherip, l2tp }",
].map((match) => `${match} jump other_tunnels`);

/** The lines of the chain of this name, as nft prints them. */
function chainText(name: string, configuration = DEFAULTS): readonly string[] {
  const text = nodeTables(configuration)
    .map((table) => formatTable(table, new Map()))
    .join("");
  return linesOf(text, name);
}

function linesOf(text: string, name: string): readonly string[] {
  const [, body = ""] = new RegExp(`^\\tchain ${name} \\{\\n(.*?)^\\t\\}`, "ms").exec(text) ?? [];
  return body
    .split("\n")
    .map((line) => line.trim())
    .filter((line) => line !== "");
}

describe("the tables of a node", () => {
  it("MODE-04: by default a forwarded packet passes five filter chains of the node, and a new flow two of NAT", () => {
    const tables = nodeTables({
      ...DEFAULTS,
      masquerade: true,
      encapsulation: "auto",
      services: SERVICE_RULES,
      policyOptions: DEFAULT_POLICY_OPTIONS,
    });
    const hooked = tables.flatMap(({ family, chains }) =>
      family === "inet" ? chains.flatMap(({ base }) => base ?? []) : [],
    );
    const forwarded = hooked.filter(({ hook }) => ["prerouting", "forward", "postrouting"].includes(hook));
    assert.equal(forwarded.filter(({ type }) => type === "filter").length, 5);
    assert.equal(forwarded.filter(({ type }) => type === "nat").length, 2);
  });

  it("the tables follow the configured bridge and mark bits, including the highest bit", () => {
    const other = {
      ...DEFAULTS,
      bridge: "br-pods.1",
      markBits: { masquerade: 1, bridged: 0x8000_0000 },
    };
    assert.equal(chainText("forward", other)[2], "meta mark & 0x80000000 == 0x80000000 accept");
    assert.equal(
      chainText("after_nat_prerouting", other)[2],
      'iifname "br-pods.1" meta mark set meta mark & 0x7fffffff',
    );
    assert.equal(chainText("after_nat_postrouting", other)[2], "meta mark set meta mark & 0x7ffffffe");
    assert.match(chainText("after_nat_postrouting", other)[3] ?? "", /oifname "br-pods.1" goto redirects$/);
  });

  it("SHARE-03: the rules bound how often a source other than the node connects to the daemon's own ports", () => {
    const asked = { ...DEFAULTS, askedPorts: [9873, 10_256] };
    assert.deepEqual(chainText("filter_input", asked).slice(2, 4), [
      "ct state established accept",
      'iifname != "lo" tcp dport { 9873, 10256 } jump asked',
    ]);
    const limit = "limit rate over 10/second burst 50 packets";
    const reason = 'counter drop comment "connections to the daemon beyond the share of a source"';
    assert.deepEqual(chainText("asked", asked), [
      `update @askers4 { ip saddr ${limit} } ${reason}`,
      `update @askers6 { ip6 saddr ${limit} } ${reason}`,
    ]);
  });

  it("GUARD-09: the tables keep the tunnel's port to nodes, where there may be a tunnel", () => {
    const tunnelled = { ...DEFAULTS, encapsulation: "auto" } as const;
    assert.deepEqual(chainText("tunnel_to_node", { ...DEFAULTS, encapsulation: "never" }), []);
    assert.deepEqual(chainText("filter_input", tunnelled), [
      "type filter hook input priority -10; policy accept;",
      "meta mark set meta mark & 0xcfffffff",
      "ct state established accept",
      "udp dport 4789 jump tunnel_to_node",
      ...OTHER_TUNNELS,
    ]);
    const reason = 'counter drop comment "tunnel packet not from node to node"';
    assert.deepEqual(chainText("tunnel_to_node", tunnelled), [
      `iifname "drawbridge0" ${reason}`,
      `ip saddr != @tunnel_peers4 ${reason}`,
      `ip daddr != @tunnel_peers4 ${reason}`,
      `ip6 saddr != @tunnel_peers6 ${reason}`,
      `ip6 daddr != @tunnel_peers6 ${reason}`,
    ]);
    assert.deepEqual(chainText("tunnel_from_pods", tunnelled), [
      `iifname "drawbridge0" ip daddr @tunnel_nodes4 ${reason}`,
      `ct status dnat ip daddr @tunnel_nodes4 ${reason}`,
      `iifname "drawbridge0" ip6 daddr @tunnel_nodes6 ${reason}`,
      `ct status dnat ip6 daddr @tunnel_nodes6 ${reason}`,
    ]);
  });

  it("POD-19: masquerade looks a network up again once all networks are filled in, before it hides a pod", () => {
    assert.deepEqual(chainText("masquerade_cluster4", { ...DEFAULTS, masquerade: true }), [
      "ip daddr @leaving_pods4 accept",
      "ip daddr @kept_networks4 accept",
      "ip saddr != @kept_networks_ready4 drop",
      "ip daddr @kept_networks4 accept",
      "meta priority set ip saddr map @pod_ports4 meta priority vmap @port_shares",
      "meta l4proto { tcp, udp, sctp } masquerade to :32768-65535 fully-random",
      "meta l4proto { icmp, ipv6-icmp } masquerade fully-random",
      'counter drop comment "masqueraded packet of a protocol without ports"',
    ]);
  });

  it("POD-19: the tables have chains and sets of the cluster's masquerade only where the configuration asks for it", () => {
    const namesWith = (masquerade: boolean): readonly string[] =>
      nodeTables({ ...DEFAULTS, masquerade })
        .flatMap(({ chains, sets }) => [...chains, ...sets].map(({ name }) => name))
        .filter((name) => /^(masquerade_cluster|leaving_pods|kept_networks)/.test(name));
    assert.deepEqual([namesWith(false), namesWith(true).length], [[], 8]);
  });
});
