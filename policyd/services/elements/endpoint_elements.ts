import type { Scalar } from "../../../kernel/nftables/model/data_type.ts";
import type { DesiredElement } from "../../ruleset/desired/desired_element.ts";
import { claim, keyWith } from "./frontend_element.ts";
import { endpointMap, restMap } from "../rules/endpoint_maps.ts";
import type { FrontendKind, Scope } from "../rules/frontend_kind.ts";
import { isDrawn, modulusFor } from "../rules/endpoint_draw.ts";
import { place } from "./placement.ts";
import type { SocketAddress } from "./socket_address.ts";

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
