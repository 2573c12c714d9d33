import type { Family } from "../../kernel/ip/address.ts";
import { addressFromValue, formatAddress } from "../../kernel/ip/address.ts";
import type { CountedElement } from "../../kernel/nftables/counters.ts";
import type { Element } from "../../kernel/nftables/object.ts";
import type { ServedFrontend } from "../services/compile/compile_service.ts";
import { identityOf } from "../services/compile/priority_number.ts";
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
  return [...ports.values()].flatMap(([first, ...others]): readonly CountedPort[] => {
    if (first === undefined) return [];
    const identities = new Set<number>();
    const endpoints = new Set<string>();
    for (const { claims } of [first, ...others]) {
      for (const { element } of claims) {
        const [datum, port] = dataOf(element);
        if (port !== undefined) endpoints.add(endpointText(datum, port));
        else if (typeof datum === "number") identities.add(identityOf(datum));
      }
    }
    if (endpoints.size === 0) return [];
    return [{ service, port: first.port, identities: Array.from(identities), endpoints: Array.from(endpoints) }];
  });
}

/** What an element says that rules wrote; undefined for one that they would not write. */
export function countedEndpoint({ element: { key }, packets }: CountedElement): CountedEndpoint | undefined {
  const [number, address, port] = key;
  if (typeof number !== "number" || typeof address === "object") return undefined;
  return typeof port !== "number" ? undefined : { number, endpoint: endpointText(address, port), packets };
}

type Datum = Exclude<Element["data"], undefined | { readonly kind: string }>[number];

function dataOf({ data }: Element): readonly Datum[] {
  return data === undefined || "kind" in data ? [] : data;
}

/** Address and port: `10.0.0.1:80`, `[fd00::1]:80`; empty for what is none. */
function endpointText(value: Datum | undefined, port: Datum): string {
  if (value === undefined || typeof value === "string") return "";
  const family: Family = typeof value === "bigint" ? 6 : 4;
  const address = addressFromValue(family, BigInt(value));
  if (address === undefined) return "";
  return family === 4 ? `${formatAddress(address)}:${port}` : `[${formatAddress(address)}]:${port}`;
}
