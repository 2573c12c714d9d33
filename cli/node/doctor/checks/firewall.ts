import { counted } from "../../../output/text.ts";
import { isOurName } from "../../../../policyd/checks/our_tables.ts";
import { seen, listed, type Remark } from "../../../../policyd/problems/check.ts";
import type { NodeFacts, Check } from "../facts.ts";
import { forwardPolicy } from "../../../../policyd/checks/firewall.ts";

export const foreignDrops: Check = {
  id: "foreign-drops",
  summary: "No other program has chains that can drop or reject packets.",
  needs: ["ruleset", ...forwardPolicy.needs],
  examine: (facts) => [...forwardPolicy.examine(facts), ...chainRemarks(facts), ...legacyRemarks(facts)],
};

/** Reports others' base chains with a policy or rules that drop; which packets those are, only a probe shows. */
function chainRemarks({ ruleset }: NodeFacts): readonly Remark[] {
  const foreign = (seen(ruleset)?.chains ?? []).filter(({ family, table }) => !isOurName(family, table));
  const dropping = foreign.flatMap(({ family, table, name, base, dropping: own }) => {
    if (base === undefined || family === "arp") return [];
    // Rules of the base chain may lead to any chain of its table that is not one.
    const rules = foreign
      .filter((one) => one.family === family && one.table === table && one.base === undefined)
      .reduce((sum, one) => sum + one.dropping, own);
    if (rules === 0 && base.policy === "accept") return [];
    const policy = base.policy === "drop" ? "policy drop" : "policy accept";
    return [
      `${family} ${table} ${name} (hook ${base.hook}, priority ${base.priority}, ${policy}, ${counted(rules, "rule")})`,
    ];
  });
  if (dropping.length === 0) return [];
  return [
    {
      severity: "info",
      what: `chains of other programs can drop packets: ${listed(dropping)}`,
      why: "whether they drop what pods need, the kernel shows by real packets",
      way: "drawbridge node doctor --probe, as root on the node; and nft -a list table FAMILY NAME",
    },
  ];
}

function legacyRemarks({ legacyTables }: NodeFacts): readonly Remark[] {
  if (legacyTables.length === 0) return [];
  return [
    {
      severity: "info",
      what: `iptables-legacy has ${legacyTables.length === 1 ? "the table" : "tables"} ${legacyTables.join(", ")}`,
      why: "only its own program sees its rules; a FORWARD policy DROP stops packets of pods",
      way: "drawbridge node doctor --probe, as root on the node; and iptables-legacy-save",
    },
  ];
}
