import { familyOf, FAMILIES } from "../../../../kernel/ip/address.ts";
import { cidrFamily } from "../../../../kernel/ip/cidr.ts";
import { type Hint, type Remark, seen } from "../../../../policyd/problems/check.ts";
import { fragmentSettings } from "../../../../policyd/node/conntrack_settings.ts";
import { uplinksOf } from "../../../../policyd/routes/surroundings.ts";
import { dotted, type SettingCode, surroundingProblems } from "../../../../policyd/node_state/surroundings.ts";
import type { Check, NodeFacts } from "../facts.ts";
import { podCidrs } from "./pod_networks.ts";

export const ipv6: Check = {
  id: "ipv6",
  summary: "IPv6 is on, or the node is known to do without.",
  needs: [],
  examine: (facts) => {
    const { settings } = facts;
    const key = "net/ipv6/conf/all/disable_ipv6";
    const value = settings.get(key);
    const found = remarksOf("ipv6", facts);
    if (value === "0" || found.length > 0) return found;
    return [
      {
        severity: "info",
        what: value === undefined ? "the kernel has no IPv6" : `${dotted(key)} = ${value}: IPv6 is off`,
        why: "pods of this node have only IPv4; with a pod CIDR of IPv6 no pod could be attached",
        way:
          value === undefined
            ? "boot without ipv6.disable=1, or give the node no IPv6 pod CIDR"
            : `sysctl -w ${dotted(key)}=0, or give the node no IPv6 pod CIDR`,
      },
    ];
  },
};

export const forwarding = surroundings(
  "forwarding",
  "The node and its uplinks forward packets in the families of pods.",
);
export const reversePath = surroundings(
  "reverse-path",
  "The reverse-path filter drops nothing that comes another way than answers go.",
);
export const redirects = surroundings("redirects", "The node sends pods no ICMP redirects.");

/** Returns the check of the administrator's settings that the daemon reports as well (STATE-03). */
function surroundings(id: SettingCode, summary: string): Check {
  return {
    id,
    summary,
    needs: id === "reverse-path" ? ["links", "routes"] : [],
    examine: (facts) => remarksOf(id, facts),
  };
}

function remarksOf(id: SettingCode, facts: NodeFacts): readonly Remark[] {
  const { settings, links, routes, records } = facts;
  const uplinks = uplinksOf(seen(routes) ?? [], seen(links) ?? []);
  const pods = (seen(records)?.records ?? []).flatMap((record) => record.addresses.map(({ address }) => address));
  const families = new Set([...podCidrs(facts).map(cidrFamily), ...pods.map(familyOf)]);
  const isKnown = families.size > 0 || ("value" in records && "value" in facts.network);
  return surroundingProblems({ settings, uplinks, families: isKnown ? [...families] : FAMILIES })
    .filter(({ code }) => code === id)
    .map(({ remark }) => remark);
}

export const localhost: Check = {
  id: "localhost",
  summary: "No other program has opened the node's localhost to its links.",
  needs: [],
  examine: ({ settings, place }) =>
    ["all", place.bridge]
      .map((name) => `net/ipv4/conf/${name}/route_localnet`)
      .filter((key) => settings.get(key) === "1")
      .map((key) => ({
        severity: "info",
        what: `${dotted(key)} = 1`,
        why: "the kernel delivers packets from links to 127.0.0.0/8 (CVE-2020-8558), unless rules drop them; Drawbridge's host ports on localhost do not need it",
        way: `sysctl -w ${dotted(key)}=0, unless kube-proxy's iptables mode or portmap is still used here`,
      })),
};

export const fragments: Check = {
  id: "fragments",
  summary: "The kernel has taken the memory for fragments that pods have shares of.",
  needs: ["daemon"],
  examine: ({ settings, daemon, expected }) => {
    const answer = seen(daemon);
    if (answer === undefined || !("status" in answer)) return [];
    return fragmentSettings(expected.fragmentMemory)
      .filter(({ key, value, isMost }) => isMost !== true && Number(settings.get(key) ?? value) < value)
      .map(({ key, value }) => ({
        severity: "warning",
        what: `${dotted(key)} = ${settings.get(key)}, less than the ${value} of fragmentMemory`,
        why: "pods have shares of what is there, so more of their large datagrams in this family are lost",
        way: `sysctl -w ${dotted(key)}=${value}, then restart the daemon; a kernel before 6.0 refuses that for IPv6`,
      }));
  },
};

export const bridgeNetfilter: Check = {
  id: "bridge-netfilter",
  summary: "br_netfilter treats both families alike, or is not there.",
  needs: [],
  examine: ({ settings }) => {
    const four = settings.get("net/bridge/bridge-nf-call-iptables");
    const six = settings.get("net/bridge/bridge-nf-call-ip6tables");
    const remarks: Hint[] = [];
    if (four !== six) {
      remarks.push({
        severity: "warning",
        what: `net.bridge.bridge-nf-call-iptables = ${four}, net.bridge.bridge-nf-call-ip6tables = ${six}`,
        why: "translated packets between pods of this node are bridged in one family and routed in the other; Drawbridge serves both, rules of others see only one",
        way: `sysctl -w net.bridge.bridge-nf-call-ip6tables=${four ?? 1}`,
      });
    }
    if (settings.get("net/bridge/bridge-nf-filter-vlan-tagged") === "1") {
      remarks.push({
        severity: "info",
        what: "net.bridge.bridge-nf-filter-vlan-tagged = 1",
        why: "frames with a VLAN tag of pods pass the IP hooks, too; the guard drops them before",
        way: "sysctl -w net.bridge.bridge-nf-filter-vlan-tagged=0 unless another program needs it",
      });
    }
    return remarks;
  },
};

export const checksumFilter: Check = {
  id: "checksum-filter",
  summary: "Bridges with pods drop packets in which two bytes may change after the rules have seen them.",
  needs: ["unfilteredBridges"],
  examine: ({ unfilteredBridges }) =>
    (seen(unfilteredBridges) ?? []).map((bridge) => ({
      severity: "info",
      what: `${bridge} has no filter for checksums that are written later`,
      why: "a pod with CAP_NET_RAW can have a port or the end of an IPv6 address written in a packet that leaves the node, after guard and policies",
      way: "it comes with the next pod of this node where the kernel has CONFIG_NET_CLS_BPF and CONFIG_DEBUG_INFO_BTF and is not locked down; elsewhere take CAP_NET_RAW from pods that are not trusted",
    })),
};
