import type { Scalar } from "../../../kernel/nftables/data_type.ts";
import type { Service, ServicePort } from "../../cluster/model.ts";
import type { Claim } from "../../dataplane/claim.ts";
import { endpointNumber, IDENTITIES, portNumber, rememberedNumber } from "./affinity_number.ts";
import { keptMap, knownMap, portMap } from "./affinity_part.ts";
import { claim } from "./claims.ts";
import type { FrontendKind, Scope } from "./frontend_space.ts";
import { SCOPES } from "./frontend_space.ts";
import { place } from "./placement.ts";
import type { SocketAddress } from "./socket_address.ts";
import { socketText } from "./socket_address.ts";

/**
 * The elements by which a frontend's clients stay with their endpoints; none without session affinity.
 *
 * @param destinations the endpoints that clients of each scope may stay with (SA-07)
 */
export function affinityElements(
  service: Service,
  port: ServicePort,
  kind: FrontendKind,
  key: readonly Scalar[],
  destinations: Readonly<Record<Scope, readonly SocketAddress[]>>,
): readonly Claim[] {
  const { affinitySeconds } = service;
  if (affinitySeconds === undefined) return [];
  const everyone = new Map(SCOPES.flatMap((scope) => destinations[scope]).map((one) => [socketText(one), one]));
  const number = portNumber(`${service.key} ${port.name} ${port.protocol}`, affinitySeconds);
  const claims: Claim[] = [claim(portMap(kind), key, [number])];
  const members = { all: textsOf(destinations.all), local: textsOf(destinations.local) };
  const known = new Set<string>();
  for (const { endpoint, slot } of place([...everyone.values()], IDENTITIES)) {
    const own = endpointNumber(slot);
    claims.push(claim(keptMap(kind), [...key, own], [endpoint.address, endpoint.port]));
    const remembered = rememberedNumber(endpoint);
    for (const scope of SCOPES) {
      if (!members[scope].has(socketText(endpoint))) continue;
      // Of two with one hash, one in four thousand million, the clients of the second go over to the first.
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
