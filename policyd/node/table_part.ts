import type { Chain, SetDefinition, TableReference } from "../../kernel/nftables/object.ts";

/** The table that sees the frames of the node's bridge. */
export const BRIDGE_TABLE: TableReference = Object.freeze({ family: "bridge", name: "drawbridge" });

/** The table that sees the node's IPv4 and IPv6 packets. */
export const INET_TABLE: TableReference = Object.freeze({ family: "inet", name: "drawbridge" });

/** What one subject contributes to a table. */
export interface TablePart {
  readonly sets: readonly SetDefinition[];
  readonly chains: readonly Chain[];
}
