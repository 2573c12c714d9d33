import { hiding, masqueradeConditions, masqueradeSets } from "../../cni/masquerade.ts";
import type { Chain } from "../../kernel/nftables/object.ts";
import { rule } from "../../kernel/nftables/statement.ts";
import { masqueradeInShare } from "./masquerade_ports/share_rules.ts";
import type { TablePart } from "./table_part.ts";

const FAMILIES = [4, 6] as const;

/** The part of the inet table by which pods with `ipMasq` leave the cluster with the node's address (B11). */
export function podMasquerade(): TablePart {
  return { sets: masqueradeSets, chains: [] };
}

/** Its hook, which is there while a pod of the node has `ipMasq`; with the port of a pod's own share (POD-25). */
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
