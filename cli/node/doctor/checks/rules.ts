import { isOurName, isOurTable } from "../../../../policyd/checks/our_tables.ts";
import { seen, type Hint, type Remark, listed } from "../../../../policyd/problems/check.ts";
import type { NodeFacts, Check } from "../facts.ts";
import { counted } from "../../../output/text.ts";
import { forwardPolicy } from "../../../../policyd/checks/firewall.ts";

export const tables: Check = {
  id: "tables",
  summary: "The daemon's tables are loaded, are ours and hook in where they should.",
  needs: ["ruleset"],
  examine: ({ ruleset, expected }) => {
    const { tables: present, chains } = seen(ruleset) ?? { tables: [], chains: [] };
    return expected.tables.flatMap(({ family, name, hooks }): readonly Remark[] => {
      const table = present.find((one) => one.family === family && one.name === name);
      if (table === undefined) {
        return [
          {
            severity: "error",
            what: `table ${family} ${name} is not loaded`,
            why: "what it does is not done: pods are not guarded, Services not served or policies not enforced",
            way: "start policyd; where it runs: kubectl -n kube-system logs -l app.kubernetes.io/name=drawbridge, and the check daemon",
          },
        ];
      }
      if (!isOurTable(table)) {
        return [
          {
            severity: "error",
            what: `table ${family} ${name} is not ours: its comment is ${JSON.stringify((table.comment ?? "").slice(0, 80))}`,
            why: "another program uses our name, and policyd replaces what it finds there",
            way: `nft list table ${family} ${name}, and stop who makes it`,
          },
        ];
      }
      return hooks.flatMap(({ chain, hook, priority }) => {
        const found = chains.find((one) => one.family === family && one.table === name && one.name === chain);
        if (found?.base?.hook === hook && found.base.priority === priority) return [];
        return [
          {
            severity: "error",
            what: `chain ${family} ${name} ${chain} does not hook into ${hook} at ${priority}`,
            why: "its rules see no packets, or not when they should",
            way: `start policyd; where it runs it puts it right: nft list chain ${family} ${name} ${chain}`,
          } as const,
        ];
      });
    });
  },
};

export const priorities: Check = {
  id: "priorities",
  summary: "No other program translates addresses before Drawbridge does.",
  needs: ["ruleset"],
  examine: ({ ruleset, expected }) => {
    const ours = expected.tables.flatMap(({ family, hooks }) => (family === "inet" ? hooks : []));
    const first = new Map<string, number>();
    for (const { hook, priority } of ours.filter(({ chain }) => chain !== "")) {
      if (priority === -100 && (hook === "prerouting" || hook === "output")) first.set(hook, priority);
    }
    const foreign = (seen(ruleset)?.chains ?? []).filter(({ family, table }) => !isOurName(family, table));
    return foreign.flatMap(({ family, table, name, base }): readonly Hint[] => {
      const limit = first.get(base?.hook ?? "");
      if (base?.type !== "nat" || limit === undefined || base.priority >= limit) return [];
      return [
        {
          severity: "warning",
          what: `chain ${family} ${table} ${name} translates in ${base.hook} at ${base.priority}, before Services at ${limit}`,
          why: "a connection is translated once: what it takes never gets to its Service",
          way: `nft list chain ${family} ${table} ${name}; give it a priority of ${limit} or more`,
        },
      ];
    });
  },
};

export const marks: Check = {
  id: "marks",
  summary: "No other program's rule writes the bits of packets' marks that are ours.",
  needs: ["ruleset"],
  examine: ({ ruleset, expected }) => {
    const seenRules = new Set<string>();
    return (seen(ruleset)?.markWrites ?? []).flatMap(({ family, table, chain, bits }): readonly Hint[] => {
      const shared = (bits & expected.markBits) >>> 0;
      const place = `${family} ${table} ${chain}`;
      if (shared === 0 || isOurName(family, table) || seenRules.has(place)) return [];
      seenRules.add(place);
      return [
        {
          severity: "warning",
          what: `a rule of chain ${place} writes bits 0x${shared.toString(16)} of packets' marks`,
          why: "Drawbridge keeps there who is to be masqueraded and what may be bridged: packets get lost or leave with a wrong address",
          way: `let that program write only its own bits (meta mark set meta mark and MASK or BITS), or give Drawbridge others: markBits`,
        },
      ];
    });
  },
};

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
