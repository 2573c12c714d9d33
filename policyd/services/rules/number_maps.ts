import type { Statement } from "../../../kernel/nftables/model/statement.ts";
import { lookup } from "../../../kernel/nftables/model/expression.ts";
import type { TablePart } from "../../ruleset/table_part.ts";
import {
  byAddress,
  FRONTEND_KINDS,
  frontendKey,
  type FrontendKind,
  frontendParts,
  nameOf,
  type RuleFamily,
} from "./frontend_kind.ts";

/** The map from a Service's own address without affinity to its port's number, all that most packets need. */
export function plainMap(family: RuleFamily): string {
  return nameOf("plain", byAddress(family));
}

/** The map from any other frontend to its Service's port's number, which all frontends of the port share (SA-05). */
export function numberMap(kind: FrontendKind): string {
  return nameOf("number", kind);
}

/** Loads the number that one of these maps has for a packet into its priority; without an entry the rule ends. */
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
