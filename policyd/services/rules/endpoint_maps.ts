import { type Transport, TRANSPORTS } from "../../../kernel/ip/protocol.ts";
import { lookup, randomNumber } from "../../../kernel/nftables/model/expression.ts";
import type { Chain, SetDefinition } from "../../../kernel/nftables/model/object.ts";
import { equals, goTo, jumpTo, type Rule, rule } from "../../../kernel/nftables/model/statement.ts";
import type { TablePart } from "../../ruleset/table_part.ts";
import { affinityRule } from "./affinity_part.ts";
import {
  FRONTEND_KINDS,
  frontendKey,
  type FrontendKind,
  frontendParts,
  nameOf,
  type Scope,
  SCOPES,
  translation,
  words,
} from "./frontend_kind.ts";
import { drawnModuli, DRAWS, EXACT_MODULI } from "./endpoint_draw.ts";
import { loadNumber, numberMap } from "./number_maps.ts";

/** Returns the name of the map from a frontend and a number below the modulus to an endpoint. */
export function endpointMap(kind: FrontendKind, scope: Scope, modulus: number): string {
  return `${nameOf(scope === "all" ? "" : "local", kind)}_${modulus}`;
}

/** Returns the name of the map from a frontend to the endpoint for packets whose draws all hit an unused number. */
export function restMap(kind: FrontendKind, scope: Scope): string {
  return nameOf(scope === "all" ? "rest" : "local_rest", kind);
}

/** Returns the name of the chain that sends a packet of a frontend to an endpoint. */
export function endpointChain(kind: FrontendKind, scope: Scope): string {
  return nameOf(scope === "all" ? "to" : "to_local", kind);
}

/**
 * Returns the maps of endpoints and the chains that look them up.
 *
 * Each frontend is in one map per scope, chosen by its number of endpoints. The smallest map is looked up first, so
 * most packets pass few maps of other sizes. Each protocol has rules of its own, since a NAT statement with a port
 * needs a field of its protocol: without one nft 1.0.6 assumes TCP.
 */
export function endpointMaps(): TablePart {
  const groups = FRONTEND_KINDS.flatMap((kind) => SCOPES.map((scope) => ({ kind, scope })));
  return {
    sets: groups.flatMap(({ kind, scope }) => groupMaps(kind, scope)),
    chains: groups.flatMap(({ kind, scope }) => [
      {
        name: endpointChain(kind, scope),
        rules: [rule(loadNumber(numberMap(kind), kind)), affinityRule(kind, scope), ...drawRules(kind, scope)],
      },
      ...TRANSPORTS.flatMap((transport) => transportChains(kind, scope, transport)),
    ]),
  };
}

/** Returns the end of a chain: it sends a packet whose client does not stay anywhere to an endpoint of its frontend. */
export function drawRules(kind: FrontendKind, scope: Scope): readonly Rule[] {
  return TRANSPORTS.map((transport) => rule(equals("meta l4proto", transport), goTo(chainFor(kind, scope, transport))));
}

function groupMaps(kind: FrontendKind, scope: Scope): readonly SetDefinition[] {
  const data = [words[kind.family].type, "inet_service"] as const;
  const numbered = [...EXACT_MODULI, ...drawnModuli(scope)].map((modulus): SetDefinition => ({
    name: endpointMap(kind, scope, modulus),
    key: frontendParts(kind, ...(modulus === 1 ? [] : [randomNumber(modulus)])),
    data,
  }));
  return [...numbered, { name: restMap(kind, scope), key: frontendParts(kind), data }];
}

function transportChains(kind: FrontendKind, scope: Scope, transport: Transport): readonly Chain[] {
  const name = chainFor(kind, scope, transport);
  const draw = `draw_${name}`;
  const look = (modulus: number): Rule =>
    rule(
      translation(
        kind.family,
        lookup(
          frontendKey(kind, transport, ...(modulus === 1 ? [] : [randomNumber(modulus)])),
          endpointMap(kind, scope, modulus),
        ),
      ),
    );
  return [
    {
      name,
      rules: [
        ...EXACT_MODULI.map(look),
        ...Array.from({ length: DRAWS }, () => rule(jumpTo(draw))),
        rule(translation(kind.family, lookup(frontendKey(kind, transport), restMap(kind, scope)))),
      ],
    },
    { name: draw, rules: drawnModuli(scope).map(look) },
  ];
}

function chainFor(kind: FrontendKind, scope: Scope, transport: Transport): string {
  return `${endpointChain(kind, scope)}_${transport}`;
}
