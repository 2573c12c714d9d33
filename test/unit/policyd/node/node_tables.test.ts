import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { hostInterfaceName } from "../../../../cni/names_and_macs.ts";
import { ipTable } from "../../../../cni/node_rules/node_tables.ts";
import { requestsOf, tableChanges } from "../../../../kernel/nftables/encode/change.ts";
import { formatTable } from "../../../../kernel/nftables/text/text.ts";
import { HOST_INTERFACE_PREFIX, type NodeConfiguration } from "../../../../policyd/node/tables/configuration.ts";
import { hostPortHooks } from "../../../../policyd/node/tables/host_ports.ts";
import { podMasqueradeHooks } from "../../../../policyd/node/masquerade/pod_masquerade.ts";
import { INET_TABLE } from "../../../../policyd/ruleset/table_part.ts";
import { nodeTables } from "../../../../policyd/node/tables/tables.ts";
import { DEFAULT_POLICY_OPTIONS } from "../../../../policyd/policies/compile/options.ts";
import { sourceHooks } from "../../../../policyd/services/rules/check_part.ts";
import { SERVICE_RULES } from "../../../support/services/scenario.ts";

const DEFAULTS: NodeConfiguration = {
  bridge: "drawbridge0",
  markBits: { masquerade: 0x1000_0000, bridged: 0x2000_0000 },
  tableOwner: false,
};

/** The rules at input about tunnels of other programs. */
const OTHER_TUNNELS = ["udp dport { 4789, 6081, 8472 }", "meta l4proto { ipencap, ipv6, gre, etherip, l2tp }"].map(
  (match) => `iifname "drawbridge0" ${match} jump other_tunnels`,
);

/** Hooks of earlier builds' inet table that may still be in force when this build starts. */
const EARLIER_HOOKS: ReadonlyMap<string, string> = new Map([
  ["drop_port_packets", "filter prerouting -300"],
  ["drop_redirects", "filter postrouting -300"],
  ["mark_bridged", "filter prerouting -90"],
  ["clear_marks", "filter postrouting 110"],
  ["clear_marks_input", "filter input 110"],
  ["host_ports_prerouting", "nat prerouting -100"],
  ["host_ports_output", "nat output -100"],
  ["host_ports_postrouting", "nat postrouting 100"],
  ["localhost_output", "filter output -105"],
  ["masquerade_pods", "nat postrouting 100"],
  ["masquerade_cluster", "nat postrouting 100"],
  ["tunnel_forward", "filter forward -150"],
  ["tunnel_input", "filter input -150"],
  ["services_prerouting", "nat prerouting -100"],
  ["services_output", "nat output -100"],
  ["services_postrouting", "nat postrouting 100"],
  ["arrival_prerouting", "filter prerouting -110"],
  ["arrival_output", "filter output -110"],
  ["chosen_prerouting", "filter prerouting -95"],
  ["chosen_output", "filter output -95"],
  ["unserved_input", "filter input -10"],
  ["unserved_forward", "filter forward -10"],
  ["unserved_output", "filter output -10"],
]);

/** The lines of the chain of this name, as nft prints them. */
function chainText(name: string, configuration = DEFAULTS): readonly string[] {
  const text = nodeTables(configuration)
    .map((table) => formatTable(table, new Map()))
    .join("");
  return linesOf(text, name);
}

/** The same for a chain that exists only while something needs it. */
function hookText(name: string): readonly string[] {
  const chains = [...hostPortHooks, ...podMasqueradeHooks];
  return linesOf(formatTable({ ...INET_TABLE, sets: [], chains }, new Map()), name);
}

function linesOf(text: string, name: string): readonly string[] {
  const [, body = ""] = new RegExp(`^\\tchain ${name} \\{\\n(.*?)^\\t\\}`, "ms").exec(text) ?? [];
  return body
    .split("\n")
    .map((line) => line.trim())
    .filter((line) => line !== "");
}

describe("the tables of a node", () => {
  it("GUARD-01: a frame from a pod's port is checked before the bridge learns from it", () => {
    assert.deepEqual(chainText("prerouting"), [
      "type filter hook prerouting priority -300; policy accept;",
      'iifname != "dbv*" accept',
      'ether type != { ip, arp, ip6 } counter drop comment "tagged or neither IP nor ARP"',
      "meta pkttype multicast jump multicast",
      "iifname . ether saddr . ip saddr @pod4 accept",
      "iifname . ether saddr . ip6 saddr @pod6 accept",
      "iifname . ether saddr @podmac iifname . arp saddr ether . arp saddr ip @pod4 accept",
      "iifname . ether saddr @podmac ip6 saddr :: icmpv6 type { mld-listener-report, mld2-listener-report } accept",
      'counter drop comment "source not of the pod"',
    ]);
  });

  it("GUARD-02: only a translated packet passes from port to port", () => {
    assert.deepEqual(chainText("forward"), [
      "type filter hook forward priority -200; policy accept;",
      'iifname != "dbv*" accept',
      "meta mark & 0x20000000 == 0x20000000 accept",
      'counter drop comment "from pod to pod on the link"',
    ]);
    assert.deepEqual(chainText("after_nat_prerouting"), [
      "type filter hook prerouting priority -90; policy accept;",
      "meta mark & 0x20000000 != 0x20000000 ct state established,new ct status ! snat,dnat accept",
      'iifname "drawbridge0" meta mark set meta mark & 0xdfffffff',
      'iifname "drawbridge0" ct status snat,dnat meta mark set meta mark | 0x20000000',
      "ct state ! established,new jump related",
    ]);
  });

  it("ENDS-01 ENDS-03 ENDS-06: related packets are checked by both ends, and errors about no own connection are dropped", () => {
    const [own, others] = ["goto own_errors", 'counter drop comment "error about a connection of others"'];
    assert.deepEqual(chainText("related"), [
      `ct state related ip saddr . ct original ip saddr @ends4 ${own}`,
      `ct state related ip saddr . ct reply ip saddr @ends4 ${own}`,
      `ct state related ip saddr . ip saddr @ends4 ${others}`,
      `icmp type { destination-unreachable, source-quench, redirect, time-exceeded, parameter-problem } ip saddr . ip saddr @ends4 ${others}`,
      `ct state related ip6 saddr . ct original ip6 saddr @ends6 ${own}`,
      `ct state related ip6 saddr . ct reply ip6 saddr @ends6 ${own}`,
      `ct state related ip6 saddr . ip6 saddr @ends6 ${others}`,
      `icmpv6 type 0-127 ip6 saddr . ip6 saddr @ends6 ${others}`,
      'icmpv6 type nd-neighbor-advert ip6 saddr . ip6 saddr @ends6 ip6 saddr . @th,64,128 != @advertised6 counter drop comment "advertisement of an address not of the pod"',
      ...([4, 6] as const).flatMap((family) => {
        const isTooBig =
          family === 4 ? "icmp type destination-unreachable icmp code frag-needed" : "icmpv6 type packet-too-big";
        const word = family === 4 ? "ip" : "ip6";
        return ["original", "reply"].map(
          (direction) =>
            `ct state related ${isTooBig} ct direction ${direction} ct ${direction} ${word} saddr @on_link${family} ` +
            'counter drop comment "packet too big about a path without routers"',
        );
      }),
    ]);
    assert.deepEqual(chainText("own_errors"), [
      'ct status snat,dnat icmp type destination-unreachable icmp code frag-needed counter drop comment "packet too big about a translated connection"',
      'ct status snat,dnat icmpv6 type packet-too-big counter drop comment "packet too big about a translated connection"',
    ]);
  });

  it("ENDS-05: of IGMP only a pod's reports pass, and of multicast listener discovery no query", () => {
    assert.deepEqual(chainText("multicast"), [
      "meta protocol ip igmp type { membership-report-v1, membership-report-v2, leave-group, membership-report-v3 } return",
      'meta l4proto igmp counter drop comment "multicast query of a pod"',
      'icmpv6 type mld-listener-query counter drop comment "multicast query of a pod"',
    ]);
  });

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

  it("SVC-16: marks lose our bits and no others, on the way out and on the way in", () => {
    assert.deepEqual(chainText("after_nat_postrouting"), [
      "type filter hook postrouting priority 110; policy accept;",
      "meta mark & 0x30000000 == 0x00000000 ct state established,new accept",
      "meta mark set meta mark & 0xcfffffff",
      'ct state ! established,new oifname "drawbridge0" goto redirects',
    ]);
    assert.deepEqual(chainText("filter_input").slice(0, 2), [
      "type filter hook input priority -10; policy accept;",
      "meta mark set meta mark & 0xcfffffff",
    ]);
  });

  it("POD-07 B11: host ports and masquerade have the plugin's rules, at the places of NAT", () => {
    const golden = readFileSync(new URL("../../cni/node_rules/node_tables.nft", import.meta.url), "utf8");
    const pluginChain = (name: string): readonly string[] => linesOf(golden, name);
    const chains = ["published_on_links", "published", "from_localhost", "hide_localhost", "show_localhost"];
    for (const name of chains) {
      assert.ok(pluginChain(name).length > 1, name);
      assert.deepEqual(chainText(name), pluginChain(name));
    }
    const rulesOf = (name: string): readonly string[] => hookText(name).slice(1);
    for (const name of ["localhost_prerouting", "localhost_input", "localhost_output"]) {
      assert.ok(rulesOf(name).length > 0, name);
      assert.deepEqual(rulesOf(name), pluginChain(name).slice(1));
    }
    assert.deepEqual(rulesOf("published_prerouting"), pluginChain("prerouting").slice(1));
    assert.deepEqual(rulesOf("published_output"), pluginChain("output").slice(1));
    const sources = pluginChain("postrouting").slice(1);
    assert.deepEqual(rulesOf("published_postrouting"), sources.slice(0, 4));
    // Each family has one rule more before its three rules, which gives a pod a port of its own share.
    const withShares = (["ip", "ip6"] as const).flatMap((ip, i) => {
      const ofFamily = sources.slice(4 + 3 * i, 7 + 3 * i);
      const share = `meta priority set ${ip} saddr map @pod_ports${ip === "ip" ? 4 : 6} meta priority vmap @port_shares`;
      const [conditions = ""] = (ofFamily[2] ?? "").split("counter");
      return [`${conditions}${share}`, ...ofFamily];
    });
    assert.deepEqual(rulesOf("ipmasq_postrouting"), withShares);
    const names = nodeTables(DEFAULTS).flatMap(({ sets }) => sets.map(({ name }) => name));
    for (const { name } of ipTable.sets) assert.ok(names.includes(name), name);
  });

  it("the tables follow the configured bridge, prefix and mark bits, including the highest bit", () => {
    const other = {
      ...DEFAULTS,
      bridge: "br-pods.1",
      hostInterfacePrefix: "pod",
      markBits: { masquerade: 1, bridged: 0x8000_0000 },
    };
    assert.equal(chainText("forward", other)[2], "meta mark & 0x80000000 == 0x80000000 accept");
    assert.equal(
      chainText("after_nat_prerouting", other)[2],
      'iifname "br-pods.1" meta mark set meta mark & 0x7fffffff',
    );
    assert.equal(chainText("after_nat_postrouting", other)[2], "meta mark set meta mark & 0x7ffffffe");
    assert.equal(chainText("prerouting", other)[1], 'iifname != "pod*" accept');
    assert.match(chainText("before_reassembly", other)[1] ?? "", /^iifname "pod\*" counter drop/);
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

  it("GUARD-17: the tables keep pods from other programs' tunnels on nodes, with and without a tunnel of our own", () => {
    for (const encapsulation of ["auto", "never"] as const) {
      const options = { ...DEFAULTS, encapsulation };
      assert.deepEqual(chainText("filter_input", options).slice(-2), OTHER_TUNNELS);
      const ofNodes = OTHER_TUNNELS.map((line) => line.replace("other_tunnels", "other_tunnels_of_nodes"));
      assert.deepEqual(chainText("filter_forward", options).slice(-2), ofNodes);
      assert.deepEqual(chainText("other_tunnels_of_nodes", options), [
        "ip daddr @tunnel_nodes4 jump other_tunnels",
        "ip6 daddr @tunnel_nodes6 jump other_tunnels",
      ]);
    }
  });

  it("GUARD-19: with Services a translated packet is checked for a circle before it may be refused", () => {
    const options = { ...DEFAULTS, services: SERVICE_RULES };
    const forward = chainText("filter_forward", options);
    const circle = forward.indexOf("meta nfproto ipv4 ct status dnat jump service_loops4");
    assert.ok(
      circle >= 0 && circle < forward.findIndex((line) => line.includes("goto unserved4_forward")),
      forward.join("\n"),
    );
    const drop = 'counter drop comment "from Service to Service in a circle"';
    assert.deepEqual(chainText("service_loops4", options), [
      "ct original ip daddr @cluster4 return",
      "ip daddr @cluster4 return",
      "meta mark & 0x10000000 == 0x10000000 ip saddr != @tunnel_nodes4 return",
      `ip daddr . meta l4proto . th dport @service4 ip daddr != @tunnel_nodes4 ${drop}`,
      `ip daddr @tunnel_nodes4 meta l4proto . th dport @port4 ${drop}`,
    ]);
    assert.ok(!chainText("filter_forward").some((line) => line.includes("service_loops")));
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

  it("GUARD-12: the rules give a client that Services hide a port from 32768 on", () => {
    const [ofTransports, ofOthers] = chainText("services_masquerade", { ...DEFAULTS, services: SERVICE_RULES });
    assert.match(ofTransports ?? "", / meta l4proto \{ tcp, udp, sctp \} masquerade to :32768-65535 fully-random$/);
    const isHidden = "meta mark & 0x10000000 == 0x10000000";
    assert.equal(ofOthers, `${isHidden} meta l4proto { icmp, ipv6-icmp } masquerade fully-random`);
  });

  it("DP-07: no chain has the name of an earlier build's chain at another hook, so that an upgrade keeps the table", () => {
    const parts = { encapsulation: "auto", services: SERVICE_RULES, masquerade: true } as const;
    const chains = nodeTables({ ...DEFAULTS, ...parts }).flatMap((table) =>
      table.name === INET_TABLE.name && table.family === INET_TABLE.family ? table.chains : [],
    );
    for (const { name, base } of [...chains, ...hostPortHooks, ...podMasqueradeHooks, ...sourceHooks]) {
      const earlier = EARLIER_HOOKS.get(name);
      if (earlier !== undefined) assert.equal(base && `${base.type} ${base.hook} ${base.priority}`, earlier, name);
    }
  });

  it("the tables with Services have no set or chain name twice", () => {
    for (const { sets, chains } of nodeTables({ ...DEFAULTS, encapsulation: "auto", services: SERVICE_RULES })) {
      for (const objects of [sets, chains]) {
        const names = objects.map(({ name }) => name);
        assert.deepEqual(
          names.filter((name, index) => names.indexOf(name) !== index),
          [],
        );
      }
    }
  });

  it("the tables are owned where the configuration says so", () => {
    assert.ok(nodeTables(DEFAULTS).every(({ isOwned }) => isOwned === undefined));
    assert.ok(nodeTables({ ...DEFAULTS, tableOwner: true }).every(({ isOwned }) => isOwned === true));
  });

  it("the default tables have no set or chain name twice", () => {
    for (const { sets, chains } of nodeTables(DEFAULTS)) {
      for (const objects of [sets, chains]) {
        const names = objects.map(({ name }) => name);
        assert.deepEqual(names, [...new Set(names)]);
      }
    }
  });

  it("a bridge whose name nft could not read back is refused", () => {
    const tables = nodeTables({ ...DEFAULTS, bridge: 'br"0' });
    assert.throws(() => requestsOf(tables.flatMap((table) => tableChanges(table, new Map()))), {
      code: "ERR_NFTABLES_VALUE",
    });
  });

  it("the tables know pods' ports by the prefix of the plugin's names", () => {
    assert.ok(hostInterfaceName(() => "0123456789abcdef", "c1", "eth0").startsWith(HOST_INTERFACE_PREFIX));
  });
});
