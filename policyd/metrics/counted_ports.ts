import { familyOf, formatAddress } from "../../kernel/ip/address.ts";
import type { CountedElement } from "../../kernel/nftables/counters.ts";
import type { Scalar } from "../../kernel/nftables/data_type.ts";
import type { Element } from "../../kernel/nftables/object.ts";
import type { ServedFrontend } from "../services/compile/compile_service.ts";
import { identityOf } from "../services/compile/priority_number.ts";
import type { SocketAddress } from "../services/compile/socket_address.ts";
import { socketOf } from "../services/compile/socket_address.ts";
import type { CountedEndpoint, CountedPort } from "./endpoint_connections.ts";

/**
 * What the connections of a Service's ports are counted by, over all frontends of each.
 *
 * Of what a frontend claims, elements with one datum have a number that its packets carry, of the port or of an endpoint
 * that a client stayed with; those with two have an endpoint.
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
    for (const { element } of frontends.flatMap(({ claims }) => claims)) {
      const [datum, port] = dataOf(element);
      const socket = socketOf(datum, port);
      if (socket !== undefined) endpoints.add(endpointText(socket));
      else if (typeof datum === "number") identities.add(identityOf(datum));
    }
    if (first === undefined || endpoints.size === 0) return [];
    return [{ service, port: first.port, identities: Array.from(identities), endpoints: Array.from(endpoints) }];
  });
}

/** What an element says that rules wrote; undefined for one that they would not write. */
export function countedEndpoint({ element: { key }, packets }: CountedElement): CountedEndpoint | undefined {
  const [number, address, port] = key;
  if (typeof number !== "number" || typeof address === "object" || typeof port === "object") return undefined;
  const socket = socketOf(address, port);
  return socket === undefined ? undefined : { number, endpoint: endpointText(socket), packets };
}

function dataOf({ data }: Element): readonly Scalar[] {
  return data === undefined || "kind" in data ? [] : data;
}

/** `10.0.0.1:80`, `[fd00::1]:80`. */
function endpointText({ address, port }: SocketAddress): string {
  return familyOf(address) === 4 ? `${formatAddress(address)}:${port}` : `[${formatAddress(address)}]:${port}`;
}
