import type { Family } from "../../../kernel/ip/address.ts";
import type { Statement } from "../../../kernel/nftables/model/statement.ts";
import { lookup } from "../../../kernel/nftables/model/expression.ts";
import type { TablePart } from "../../ruleset/table_part.ts";
import { byAddress, FRONTEND_KINDS, frontendKey, type FrontendKind, frontendParts, nameOf } from "./frontend_kind.ts";

/**
 * Returns the name of the map from a Service's own address without affinity to its port's number. Most packets need no
 * other map.
 */
export function plainMap(family: Family): string {
  return nameOf("plain", byAddress(family));
}

/**
 * Returns the name of the map from any other frontend to the number of its Service's port. All frontends of a port
 * share its number (SA-05).
 */
export function numberMap(kind: FrontendKind): string {
  return nameOf("number", kind);
}

/** Returns the statement that loads a packet's number from such a map into its priority; without one the rule ends. */
export function loadNumber(map: string, kind: FrontendKind): Statement {
  return { kind: "set priority from", from: lookup(frontendKey(kind), map) };
}

/** Returns the maps from frontends to the numbers that represent their Services' ports. */
export function numberMaps(): TablePart {
  return {
    sets: FRONTEND_KINDS.flatMap((kind) =>
      [...(kind.space === "service" ? [plainMap(kind.family)] : []), numberMap(kind)].map((name) => ({
        name,
        key: frontendParts(kind),
        data: ["classid"] as const,
      })),
    ),
    chains: [],
  };
}
