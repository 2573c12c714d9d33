import { familyOf, formatAddress } from "../../../../kernel/ip/address.ts";
import { POLICY_TABLE } from "../../../../attachment/our_tables.ts";
import { TUNNEL } from "../../../../policyd/routes/tunnel.ts";
import { isOurName } from "../../../../policyd/checks/our_tables.ts";
import { seen, listed, type Remark } from "../../../../policyd/problems/check.ts";
import type { NodeFacts, Check } from "../facts.ts";
import { NEEDS, type ProbeFlow } from "../probe/flow.ts";
import { COUNTERS, isTooBig } from "../probe/counters.ts";
import type { Loss } from "../probe/loss.ts";
import type { TraceEvent } from "../../../../kernel/nftables/decode/trace.ts";

type Vanished = Extract<Loss, { readonly kind: "vanished" }>;
type Lost = { readonly flow: ProbeFlow; readonly loss: Loss };

export const probe: Check = {
  id: "probe",
  summary: "With --probe: real packets of a probe pod arrive; the kernel's trace shows where one is lost.",
  needs: ["probed"],
  examine: (facts) => {
    const probed = seen(facts.probed);
    if (probed === undefined) return [];
    if (probed.failure !== undefined) return [attachRemark(probed.failure)];
    const groups = Map.groupBy(probed.lost, placeOf);
    return [...groups.values()].flatMap((lost) => {
      const [one] = lost;
      return one === undefined ? [] : [remarkOf(one, flowsText(lost), facts)];
    });
  },
};

function attachRemark(failure: string): Remark {
  return {
    severity: "error",
    what: `a probe pod cannot be attached: ${failure}`,
    why: "other pods cannot be attached either",
    way: "look at what the error names, and at the findings of cni-plugin, cni-configuration and daemon",
  };
}

/** Returns a text that is equal for packets lost in one place. */
function placeOf({ flow, loss }: Lost): string {
  const { packet } = loss;
  if (loss.kind === "dropped") {
    const { family, table, chain, rule } = loss.by;
    return `${packet === "tunnel"} ${family} ${table} ${chain} ${rule}`;
  }
  const { last, output } = loss;
  if (last?.before !== undefined) return `${familyOf(flow.source)} ${last.family} ${last.hook} ${last.after}`;
  return `${packet === "answer"} ${last?.family} ${last?.hook} ${output} ${loss.counted.join()}`;
}

function remarkOf({ flow, loss }: Lost, flows: string, facts: NodeFacts): Remark {
  if (loss.kind === "dropped") return droppedRemark(loss, flow, flows, facts);
  const { last } = loss;
  const [legacy] = legacyTablesAt(last, flow, facts.legacyTables);
  if (last !== undefined && legacy !== undefined) return legacyRemark(last.hook, legacy, flows);
  if (last?.before === undefined && last?.hook === "postrouting") return leftRemark(loss, flow, flows, facts);
  const [counter] = loss.counted;
  return {
    severity: isTooBig(loss.counted) ? "warning" : "error",
    what: `packets are lost ${afterText(last)}: ${flows}`,
    why: `no rule of nftables drops them there${countedText(loss.counted)}`,
    way:
      COUNTERS.get(counter ?? "")?.way ??
      `ip route get ${formatAddress(flow.destination)}; nft list ruleset netdev, tc filter show and bpftool net for what comes before`,
  };
}

function legacyRemark(hook: string, table: string, flows: string): Remark {
  const [family = "", name = ""] = table.split(" ");
  return {
    severity: "error",
    what: `iptables-legacy loses packets in hook ${hook}, table ${table}: ${flows}`,
    why: "the trace shows that they enter this table and do not leave it; nobody sees inside, so the rule is not known",
    way: `look which rule counts while the probe runs: ${family}tables-legacy -t ${name} -vnL --line-numbers`,
  };
}

function leftRemark({ output, packet, counted }: Vanished, flow: ProbeFlow, flows: string, facts: NodeFacts): Remark {
  const link = (seen(facts.links) ?? []).find(({ index }) => index === output)?.name ?? "a link";
  const isHere = flow.need === "pod to pod" || flow.need === "node to pod" || packet === "answer";
  return {
    severity: isHere ? "error" : "warning",
    what: `packets leave by ${link} and ${isHere ? "do not get to the pod" : "are not answered"}: ${flows}`,
    why: `no rule of this node drops them${countedText(counted)}`,
    way: isHere
      ? `look for queues, filters and programs there: tc filter show dev ${link} ingress, and bpftool net`
      : `run node doctor --probe on the other node, too, and look at the network between: ${formatAddress(flow.destination)}`,
  };
}

function droppedRemark(
  { by, hook }: Extract<Loss, { readonly kind: "dropped" }>,
  flow: ProbeFlow,
  flows: string,
  { place: { bridge }, ruleset }: NodeFacts,
): Remark {
  const { family, table, chain, rule } = by;
  const isOfPolicy = family === POLICY_TABLE.family && table === POLICY_TABLE.name;
  const isOfOthersPod = isOfPolicy && (flow.need === "pod to a Service" || flow.need === "pod to another node");
  const ofTable = (seen(ruleset)?.chains ?? []).filter((one) => one.family === family && one.table === table);
  const owner = ownerOf(
    by,
    ofTable.map((one) => one.name),
  );
  const name = owner === undefined ? "" : ` (${owner})`;
  return {
    severity: isOfOthersPod ? "info" : "error",
    what: `chain ${family} ${table} ${chain}${hook === undefined ? "" : `, hook ${hook},`} drops what pods need${name}: ${flows}`,
    why: `the kernel's trace of a lost packet ends there: ${rule === undefined ? `policy of ${chain}` : `handle ${rule} of chain ${chain}`}`,
    way: isOurName(family, table)
      ? `nft -a list chain ${family} ${table} ${chain}: Drawbridge made this rule, and policy explain says for which policy`
      : wayOut(by, owner, bridge, flow.isTunnelled && by.header?.destinationPort === TUNNEL.port),
  };
}

/** The priorities of the tables of iptables in the hooks that they have. */
const LEGACY_PRIORITIES: Readonly<Record<string, readonly number[]>> = {
  raw: [-300],
  mangle: [-150],
  nat: [-100, 100],
  filter: [0],
  security: [50],
};

function legacyTablesAt(last: Vanished["last"], { source }: ProbeFlow, tables: readonly string[]): readonly string[] {
  if (last?.family !== "inet" || last.before === undefined) return [];
  const { after, before } = last;
  return tables.filter((table) => {
    const [family, name = ""] = table.split(" ");
    const isOfFamily = family === (familyOf(source) === 4 ? "ip" : "ip6");
    return isOfFamily && LEGACY_PRIORITIES[name]?.some((priority) => after < priority && priority < before) === true;
  });
}

function afterText(last: Vanished["last"]): string {
  if (last === undefined) return "before the first hook of the node";
  const { family, hook, after, before } = last;
  if (before !== undefined) return `in hook ${hook} of ${family} between priorities ${after} and ${before}`;
  return hook === "input" ? "after hook input, at the node's own socket" : `after hook ${hook} of ${family}`;
}

function countedText(counted: readonly string[]): string {
  if (counted.length === 0) return "; the kernel counts nothing";
  return `; the kernel counts ${listed(counted.map((name) => `${COUNTERS.get(name)?.meaning} (${name})`))}`;
}

/** Returns the needs of flows with their protocols, such as "pod to pod (IPv4 TCP, answers of IPv4 UDP)". */
function flowsText(lost: readonly Lost[]): string {
  return NEEDS.flatMap((need) => {
    const words = lost
      .filter(({ flow }) => flow.need === need)
      .map(({ flow: { protocol, source, destination, port }, loss }) => {
        const target = need === "pod to node" || need === "pod to a Service" ? ` ${port}` : "";
        const to = need === "pod to another node" ? ` to ${formatAddress(destination)}` : "";
        const kind = `IPv${familyOf(source)} ${protocol.toUpperCase()}${target}${to}`;
        return loss.packet === "first" ? kind : `${loss.packet === "answer" ? "answers of" : "the tunnel of"} ${kind}`;
      });
    return words.length === 0 ? [] : [`${need} (${words.join(", ")})`];
  }).join("; ");
}

type Owner = "firewalld" | "ufw" | "Docker" | "Calico" | "iptables-nft" | "ebtables-nft";

/**
 * Returns the program that made a chain, recognized by its names for tables and chains.
 *
 * @param chains all chains of the table
 */
function ownerOf({ family, table, chain }: TraceEvent, chains: readonly string[]): Owner | undefined {
  if (table === "firewalld") return "firewalld";
  if (table !== "filter" || family === "inet") return undefined;
  if (family === "bridge") return "ebtables-nft";
  const has = (pattern: RegExp): boolean => chains.some((name) => pattern.test(name));
  if (has(/^cali-/)) return "Calico";
  if (has(/^ufw6?-/)) return "ufw";
  return has(/^DOCKER/) && /^(FORWARD$|DOCKER)/.test(chain) ? "Docker" : "iptables-nft";
}

/** Returns the command by which packets of pods, or of the tunnel, pass a chain. */
function wayOut(
  { family, table, chain }: TraceEvent,
  owner: Owner | undefined,
  bridge: string,
  isTunnel: boolean,
): string {
  const program = family === "ip6" ? "ip6tables" : "iptables";
  switch (owner) {
    case "firewalld":
      return isTunnel
        ? `firewall-cmd --add-port=${TUNNEL.port}/udp --permanent && firewall-cmd --reload`
        : `firewall-cmd --permanent --zone=trusted --add-interface=${bridge} && firewall-cmd --reload`;
    case "ufw":
      return isTunnel
        ? `ufw allow ${TUNNEL.port}/udp`
        : `ufw allow in on ${bridge} && ufw route allow in on ${bridge} && ufw route allow out on ${bridge}`;
    case "Docker":
      return `${program} -I DOCKER-USER -i ${bridge} -j ACCEPT; ${program} -I DOCKER-USER -o ${bridge} -j ACCEPT; or "ip-forward-no-drop": true in /etc/docker/daemon.json and ${program} -P FORWARD ACCEPT`;
    case "Calico":
      return `remove what is left of it, if it is gone: ${program}-save | grep -v cali | ${program}-restore; or reboot the node`;
    case "iptables-nft":
      if (isTunnel) return `${program} -I ${chain} -p udp --dport ${TUNNEL.port} -j ACCEPT`;
      return `${program} -I ${chain} -i ${bridge} -j ACCEPT, and the same with -o in FORWARD and OUTPUT; of Docker: "ip-forward-no-drop": true in /etc/docker/daemon.json`;
    case "ebtables-nft":
      return `ebtables -I ${chain} -i dbv+ -j ACCEPT, or the same with -o`;
    case undefined: {
      const match = isTunnel ? `udp dport ${TUNNEL.port}` : `iifname ${family === "bridge" ? `'"dbv*"'` : bridge}`;
      return `nft insert rule ${family} ${table} ${chain} ${match} accept${isTunnel ? "" : ", or the same with oifname"}`;
    }
  }
}
