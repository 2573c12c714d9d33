import type { MapLookup } from "../../../kernel/nftables/model/expression.ts";
import type { Statement } from "../../../kernel/nftables/model/statement.ts";
import { type RuleFamily, words } from "./frontend_kind.ts";

/** Sends a packet to the address and port that a map has for it; a packet without an entry continues. */
export function translation(family: RuleFamily, from: MapLookup): Statement {
  return { kind: "dnat", target: { kind: "map", lookup: from, family: words[family].nat, hasPort: true } };
}
