import { FAMILIES } from "../../../kernel/ip/address.ts";
import { hiding, masqueradeConditions, masqueradeSets } from "../../../cni/node_rules/masquerade.ts";
import type { Chain } from "../../../kernel/nftables/model/object.ts";
import { rule } from "../../../kernel/nftables/model/statement.ts";
import { masqueradeInShare } from "./share_rules.ts";
import type { TablePart } from "../../ruleset/table_part.ts";

/** Returns the part of the inet table that gives packets of pods with `ipMasq` the node's address (B11). */
export function podMasquerade(): TablePart {
  return { sets: masqueradeSets, chains: [] };
}

/** The hook of `ipMasq`, which exists while a pod of the node has it; ports come from the pod's own share (POD-25). */
export const podMasqueradeHooks: readonly Chain[] = [
  {
    name: "ipmasq_postrouting",
    base: { type: "nat", hook: "postrouting", priority: 99, policy: "accept" },
    rules: FAMILIES.flatMap((family) => {
      const conditions = masqueradeConditions(family);
      return [rule(...conditions, ...masqueradeInShare(family)), ...hiding(...conditions)];
    }),
  },
];
