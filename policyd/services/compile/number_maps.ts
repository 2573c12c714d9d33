import type { Statement } from "../../../kernel/nftables/statement.ts";
import { lookup } from "../../../kernel/nftables/expression.ts";
import type { TablePart } from "../../node/table_part.ts";
import type { FrontendKind, RuleFamily } from "./frontend_space.ts";
import { byAddress, FRONTEND_KINDS, frontendKey, frontendParts, nameOf } from "./frontend_space.ts";

/**
 * The map from a Service's own address without affinity to the number of its port: most packets are for one of those, of
 * which nothing else is to be asked.
 */
export function plainMap(family: RuleFamily): string {
  return nameOf("plain", byAddress(family));
}

/** The map from any other frontend to the number of its Service's port, which all frontends of the port share (SA-05). */
export function numberMap(kind: FrontendKind): string {
  return nameOf("number", kind);
}

/** Puts what one of these maps has for a packet into its priority; a packet that it has nothing for ends the rule. */
export function loadNumber(map: string, kind: FrontendKind): Statement {
  return { kind: "set priority from", from: lookup(frontendKey(kind), map) };
}

/** The maps from frontends to what stands for their Services' ports. */
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
