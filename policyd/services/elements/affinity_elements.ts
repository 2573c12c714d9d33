import type { Scalar } from "../../../kernel/nftables/model/data_type.ts";
import type { Service } from "../../../objects/model.ts";
import type { DesiredElement } from "../../ruleset/desired/desired_element.ts";
import { keptMap, knownMap } from "../rules/affinity_part.ts";
import { claim } from "./frontend_element.ts";
import { type FrontendKind, type Scope, SCOPES } from "../rules/frontend_kind.ts";
import { place } from "./placement.ts";
import { endpointNumber, IDENTITIES, rememberedNumber } from "../rules/priority_number.ts";
import { type SocketAddress, socketText } from "./socket_address.ts";

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
