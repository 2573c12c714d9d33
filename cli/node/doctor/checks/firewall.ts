import { TUNNEL } from "../../../../policyd/routes/tunnel.ts";
import { ruleNumber } from "../../../../kernel/iptables/save_text.ts";
import { seen } from "../diagnose.ts";
import type { NodeFacts } from "../facts.ts";
import { type Check, listed, type Remark } from "../finding.ts";
import { flowsText, isOfCluster, type LostFlows, lostFlows } from "../flows/lost_flows.ts";
import { samplePackets } from "../flows/samples.ts";

export const foreignDrops: Check = {
  id: "foreign-drops",
  summary: "No other program's rules drop or reject packets that pods need; sample packets are tried on them.",
  needs: ["ruleset", "foreignTables"],
  examine: (facts) => {
    const tables = [...(seen(facts.foreignTables) ?? []), ...(seen(facts.legacyRules) ?? [])];
    const lost = tables.length === 0 ? [] : lostFlows(tables, samplePackets(facts));
    return [...lost.map((one) => remarkOf(one, facts)), ...legacyRemarks(facts)];
  },
};

function remarkOf(lost: LostFlows, { place }: NodeFacts): Remark {
  const { table, base, verb, flows, deciding, doubts } = lost;
  const isLegacy = table.isLegacy === true;
  const chain = `${isLegacy ? legacyProgram(table.family) : table.family} ${table.name} ${base.name}`;
  const ruleText = (handle: bigint, name: string): string =>
    isLegacy ? `rule ${ruleNumber(handle)} of chain ${name}` : `handle ${handle} of chain ${name}`;
  const where = `chain ${chain}, hook ${base.base?.hook ?? "none"},`;
  if (verb === "may drop") {
    const about = doubts.map((one) => `${ruleText(one.handle, one.chain)} (${one.about.join(", ")})`);
    return {
      severity: "info",
      what: `${where} may drop what pods need: ${flowsText(flows)}`,
      why: `it depends on rules that are not evaluated here: ${listed(about)}`,
      way: `look whether such packets pass: ${isLegacy ? `${legacyProgram(table.family)} -t ${table.name} -vnL --line-numbers` : `nft -a list table ${table.family} ${table.name}`}`,
    };
  }
  const rules = deciding.map(({ chain: name, handle }) =>
    handle === undefined ? `policy of ${name}` : ruleText(handle, name),
  );
  const isOfFrames = table.family === "bridge";
  return {
    severity: isOfCluster(flows) && !isOfFrames ? "error" : "warning",
    what: `${where} ${verb} what pods need${ownerHint(lost)}: ${flowsText(flows)}`,
    why: `${isOfFrames ? "frames of pods that take the bridge (bypassBridge)" : "packets"} are lost there, whatever Drawbridge's rules say: ${listed(rules)}`,
    way: wayOut(lost, place.bridge),
  };
}

/** Reports legacy tables whose rules could not be read; those that were read are tried with sample packets. */
function legacyRemarks({ legacyTables, legacyRules }: NodeFacts): readonly Remark[] {
  if (legacyTables.length === 0 || "value" in legacyRules) return [];
  return [
    {
      severity: "info",
      what: `iptables-legacy has ${legacyTables.length === 1 ? "the table" : "tables"} ${legacyTables.join(", ")}`,
      why: `its rules are not checked (${legacyRules.unseen}); a FORWARD policy DROP stops packets of pods`,
      way: "iptables-legacy-save; and iptables-legacy -P FORWARD ACCEPT, where it is DROP",
    },
  ];
}

function legacyProgram(family: string): string {
  return family === "ip6" ? "ip6tables-legacy" : "iptables-legacy";
}

type Owner = "firewalld" | "ufw" | "Docker" | "iptables" | "Calico" | undefined;

/** Returns the program that made the rules, recognized by its names for tables and chains. */
function ownerOf({ table, base }: LostFlows): Owner {
  if (table.name === "firewalld") return "firewalld";
  const names = [...table.chains.keys()];
  if (table.family === "inet" || table.family === "bridge" || table.name !== "filter") return undefined;
  if (names.some((name) => name.startsWith("cali-"))) return "Calico";
  if (names.some((name) => name.startsWith("ufw-") || name.startsWith("ufw6-"))) return "ufw";
  if (names.some((name) => name.startsWith("DOCKER")) && base.name === "FORWARD") return "Docker";
  return "iptables";
}

function ownerHint(lost: LostFlows): string {
  const owner = ownerOf(lost);
  if (owner === undefined) return "";
  if (owner === "iptables" && lost.table.isLegacy === true) return " (Docker sets a policy DROP in FORWARD)";
  return owner === "iptables" ? " (iptables-nft; Docker sets a policy DROP in FORWARD)" : ` (${owner})`;
}

function wayOut(lost: LostFlows, bridge: string): string {
  const { table, base } = lost;
  const program =
    table.isLegacy === true ? legacyProgram(table.family) : table.family === "ip6" ? "ip6tables" : "iptables";
  const isTunnel = lost.flows.some(({ need }) => need === "node to node by the tunnel");
  switch (ownerOf(lost)) {
    case "firewalld": {
      const tunnel = isTunnel ? ` --add-port=${TUNNEL.port}/udp --permanent; firewall-cmd` : "";
      return `firewall-cmd${tunnel} --permanent --zone=trusted --add-interface=${bridge} && firewall-cmd --reload`;
    }
    case "ufw":
      return `ufw allow in on ${bridge} && ufw route allow in on ${bridge} && ufw route allow out on ${bridge}${isTunnel ? ` && ufw allow ${TUNNEL.port}/udp` : ""}`;
    case "Docker":
      return `${program} -I DOCKER-USER -i ${bridge} -j ACCEPT; ${program} -I DOCKER-USER -o ${bridge} -j ACCEPT; or "ip-forward-no-drop": true in /etc/docker/daemon.json and ${program} -P FORWARD ACCEPT`;
    case "Calico":
      return `remove what is left of it, if it is gone: ${program}-save | grep -v cali | ${program}-restore; or reboot the node`;
    case "iptables":
      return `${program} -P ${base.name} ACCEPT, or rules there that accept -i ${bridge} and -o ${bridge}; of Docker: "ip-forward-no-drop": true in /etc/docker/daemon.json`;
    default:
      if (table.family === "bridge") {
        const isFromPods = base.base?.hook === "prerouting" || base.base?.hook === "input";
        return `nft insert rule bridge ${table.name} ${base.name} ${isFromPods ? "iifname" : "oifname"} '"dbv*"' accept`;
      }
      return `nft insert rule ${table.family} ${table.name} ${base.name} iifname ${bridge} accept, and the same with oifname`;
  }
}
