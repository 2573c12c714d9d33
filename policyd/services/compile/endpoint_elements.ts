import type { Scalar } from "../../../kernel/nftables/data_type.ts";
import type { Claim } from "../../dataplane/claim.ts";
import { claim, keyWith } from "./claims.ts";
import { endpointMap, restMap } from "./endpoint_maps.ts";
import type { FrontendKind, Scope } from "./frontend_space.ts";
import { isDrawn, modulusFor } from "./modulus.ts";
import { place } from "./placement.ts";
import type { SocketAddress } from "./socket_address.ts";

/** The elements that send a frontend's packets to each of its endpoints with the same chance (SVC-09). */
export function endpointElements(
  kind: FrontendKind,
  scope: Scope,
  key: readonly Scalar[],
  endpoints: readonly SocketAddress[],
): readonly Claim[] {
  if (endpoints.length === 0) return [];
  const modulus = modulusFor(endpoints.length, scope);
  const map = endpointMap(kind, scope, modulus);
  const placed = place(endpoints, modulus);
  const [first] = placed;
  const data = ({ address, port }: SocketAddress): readonly Scalar[] => [address, port];
  return [
    ...placed.map(({ endpoint, slot }) => claim(map, modulus === 1 ? key : keyWith(key, slot), data(endpoint))),
    ...(isDrawn(modulus) && first !== undefined ? [claim(restMap(kind, scope), key, data(first.endpoint))] : []),
  ];
}
