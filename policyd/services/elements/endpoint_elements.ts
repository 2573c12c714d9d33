import type { Scalar } from "../../../kernel/nftables/model/data_type.ts";
import type { DesiredElement } from "../../ruleset/desired/desired_element.ts";
import { claim, keyWith } from "./frontend_element.ts";
import { endpointMap, restMap } from "../rules/endpoint_maps.ts";
import { type FrontendKind, type Scope, SCOPES } from "../rules/frontend_kind.ts";
import { isDrawn, modulusFor } from "../rules/endpoint_draw.ts";
import { place } from "./placement.ts";
import { type SocketAddress, socketText } from "./socket_address.ts";
import type { Service } from "../../../objects/model.ts";
import { keptMap, knownMap } from "../rules/affinity_part.ts";
import { endpointNumber, IDENTITIES, rememberedNumber } from "../rules/priority_number.ts";

/** Returns the elements that send a frontend's packets to each of its endpoints with the same probability (SVC-09). */
export function endpointElements(
  kind: FrontendKind,
  scope: Scope,
  key: readonly Scalar[],
  endpoints: readonly SocketAddress[],
): readonly DesiredElement[] {
  if (endpoints.length === 0) return [];
  const modulus = modulusFor(endpoints.length, scope);
  const map = endpointMap(kind, scope, modulus);
  const placed = place(endpoints, modulus);
  const claims = placed.map(({ endpoint, slot }) =>
    claim(map, modulus === 1 ? key : keyWith(key, slot), dataOf(endpoint)),
  );
  const [first] = placed;
  if (isDrawn(modulus) && first !== undefined) claims.push(claim(restMap(kind, scope), key, dataOf(first.endpoint)));
  return claims;
}

function dataOf({ address, port }: SocketAddress): readonly Scalar[] {
  return [address, port];
}

/**
 * Returns the elements by which a frontend's clients stay with their endpoints; none without session affinity.
 *
 * @param identity of the Service's port
 * @param destinations the endpoints that clients of each scope may stay with (SA-07)
 */
export function affinityElements(
  { affinitySeconds }: Pick<Service, "affinitySeconds">,
  identity: number,
  kind: FrontendKind,
  key: readonly Scalar[],
  destinations: Readonly<Record<Scope, readonly SocketAddress[]>>,
): readonly DesiredElement[] {
  if (affinitySeconds === undefined) return [];
  const everyone = new Map(SCOPES.flatMap((scope) => destinations[scope]).map((one) => [socketText(one), one]));
  const claims: DesiredElement[] = [];
  const members = { all: textsOf(destinations.all), local: textsOf(destinations.local) };
  const known = new Set<string>();
  for (const { endpoint, slot } of place([...everyone.values()], IDENTITIES)) {
    const own = endpointNumber(identity, slot);
    claims.push(claim(keptMap(kind), [...key, own], [endpoint.address, endpoint.port]));
    const remembered = rememberedNumber(endpoint);
    for (const scope of SCOPES) {
      if (!members[scope].has(socketText(endpoint))) continue;
      // If two endpoints share a hash (one pair in four thousand million), clients of the second move to the first.
      const id = `${scope} ${remembered}`;
      if (known.has(id)) continue;
      known.add(id);
      claims.push(claim(knownMap(kind, scope), [...key, remembered], [own]));
    }
  }
  return claims;
}

function textsOf(endpoints: readonly SocketAddress[]): ReadonlySet<string> {
  return new Set(endpoints.map(socketText));
}
