import { familyOf, formatAddress } from "../../kernel/ip/address.ts";
import type { CountedElement } from "../../kernel/nftables/decode/counters.ts";
import type { ServedFrontend } from "../services/elements/compile_service.ts";
import { identityOf } from "../services/rules/priority_number.ts";
import { type SocketAddress, socketOf } from "../services/elements/socket_address.ts";
import type { CountedEndpoint, CountedPort } from "./endpoint_connections.ts";

/**
 * Returns the counted ports of a Service, each over all of its frontends.
 *
 * Among a frontend's data, one datum is a number that its packets carry, of the port or of an endpoint with affinity;
 * two are an endpoint.
 */
export function countedPorts(
  service: CountedPort["service"],
  served: readonly ServedFrontend[],
): readonly CountedPort[] {
  const ports = Map.groupBy(served, ({ port: { name, protocol } }) => `${protocol} ${name}`);
  return [...ports.values()].flatMap((frontends): readonly CountedPort[] => {
    const [first] = frontends;
    const identities = new Set<number>();
    const endpoints = new Set<string>();
    for (const [datum, port] of frontends.flatMap(({ data }) => data)) {
      const socket = socketOf(datum, port);
      if (socket !== undefined) endpoints.add(endpointText(socket));
      else if (typeof datum === "number") identities.add(identityOf(datum));
    }
    if (first === undefined || endpoints.size === 0) return [];
    return [{ service, port: first.port, identities: Array.from(identities), endpoints: Array.from(endpoints) }];
  });
}

/** Returns the count in an element that rules wrote; undefined for an element that they would not write. */
export function countedEndpoint({ element: { key }, packets }: CountedElement): CountedEndpoint | undefined {
  const [number, address, port] = key;
  if (typeof number !== "number" || typeof address === "object" || typeof port === "object") return undefined;
  const socket = socketOf(address, port);
  return socket === undefined ? undefined : { number, endpoint: endpointText(socket), packets };
}

/** Formats an endpoint as `10.0.0.1:80` or `[fd00::1]:80`. */
function endpointText({ address, port }: SocketAddress): string {
  return familyOf(address) === 4 ? `${formatAddress(address)}:${port}` : `[${formatAddress(address)}]:${port}`;
}
