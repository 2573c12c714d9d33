import { masqueradeRules, masqueradeSets } from "../../cni/masquerade.ts";
import type { Chain } from "../../kernel/nftables/object.ts";
import type { TablePart } from "./table_part.ts";

/** The part of the inet table by which pods with `ipMasq` leave the cluster with the node's address (B11). */
export function podMasquerade(): TablePart {
  return { sets: masqueradeSets, chains: [] };
}

/** Its hook, which is there while a pod of the node has `ipMasq`. */
export const podMasqueradeHooks: readonly Chain[] = [
  {
    name: "ipmasq_postrouting",
    base: { type: "nat", hook: "postrouting", priority: 99, policy: "accept" },
    rules: masqueradeRules,
  },
];
