import {
  type Address,
  addressPlus,
  compareAddresses,
  type Family,
  familyOf,
  parseAddress,
} from "../../kernel/ip/address.ts";
import { type Cidr, cidrContains, cidrFamily, formatCidr, lastAddress, networkAddress } from "../../kernel/ip/cidr.ts";
import { bothFamilies, EVERY_ADDRESS } from "../../kernel/ip/special.ts";
import { isPublic } from "../../kernel/ip/public_address.ts";
import type { FlowEnd } from "../../objects/semantics/policies/flow.ts";
import { namedPrefixes } from "../../objects/semantics/policies/pod_class.ts";
import type { PolicyIndex } from "../../objects/semantics/policies/policy_index.ts";

/** Addresses outside of the cluster that no policy distinguishes: a prefix without the smaller ones named in it. */
export interface OutsideRegion {
  readonly family: Family;
  readonly prefix: Cidr;
  readonly except: readonly Cidr[];
  /** One of the addresses, which no pod, node or Service has. */
  readonly representative: Address;
  /** The domain name, or `*.example.com` for any below, by which pods know the addresses. */
  readonly asked?: string;
}

/** Documentation addresses, which readers recognize as outside (RFC 5737, RFC 3849). */
const EXAMPLES: readonly Address[] = ["203.0.113.1", "198.51.100.1", "192.0.2.1", "2001:db8::1"].map((text) =>
  parseAddress(text),
);

/**
 * Returns the address space, divided at the prefixes that a policy of any of the clusters names. Prefixes are nested or
 * disjoint, so all addresses of a region are in the same prefixes. A region is omitted if all of its addresses are those
 * of pods, nodes and cluster IPs.
 *
 * @param asked a domain name: only the regions in which DNS may say that it is
 * @param ranges further prefixes at which it is divided
 */
export function outsideRegions(
  indexes: readonly PolicyIndex[],
  asked?: string,
  ranges: readonly Cidr[] = [],
): readonly OutsideRegion[] {
  const isOwned = (address: Address): boolean =>
    indexes.some(({ owners, clusterIps }) => owners.has(address) || clusterIps.has(address));
  const prefixes = [
    ...new Map(
      [...bothFamilies(EVERY_ADDRESS), ...indexes.flatMap(namedPrefixes), ...ranges.map(withoutHostBits)].map(
        (cidr) => [formatCidr(cidr), cidr],
      ),
    ).values(),
  ];
  prefixes.sort((a, b) => compareAddresses(a.address, b.address) || a.prefixLength - b.prefixLength);
  const inner = new Map<Cidr, Cidr[]>();
  const around: Cidr[] = [];
  for (const prefix of prefixes) {
    while (around.length > 0 && !cidrContains(around.at(-1) ?? prefix, prefix.address)) around.pop();
    const parent = around.at(-1);
    if (parent !== undefined) inner.get(parent)?.push(prefix);
    inner.set(prefix, []);
    around.push(prefix);
  }
  return prefixes.flatMap((prefix) => {
    const except = inner.get(prefix) ?? [];
    const representative = addressIn(prefix, except, isOwned);
    if (representative === undefined) return [];
    const region = { family: cidrFamily(prefix), prefix, except, representative };
    if (asked === undefined) return [region];
    return isPublic(representative) ? [{ ...region, asked }] : [];
  });
}

function withoutHostBits(cidr: Cidr): Cidr {
  return { address: networkAddress(cidr), prefixLength: cidr.prefixLength };
}

/** Returns one address of a region as the end of a flow. */
export function regionEnd({ representative: address, asked }: OutsideRegion): FlowEnd {
  return { type: "address", address, ...(asked === undefined ? {} : { asked }) };
}

/** Returns a region as text: `10.0.0.0/16 except 10.0.1.0/24`. */
export function regionText({ prefix, except }: OutsideRegion): string {
  const exceptions = except.length === 0 ? "" : ` except ${except.map(formatCidr).join(", ")}`;
  return `${formatCidr(prefix)}${exceptions}`;
}

/** @param except disjoint prefixes within the prefix, in order */
function addressIn(prefix: Cidr, except: readonly Cidr[], isOwned: (address: Address) => boolean): Address | undefined {
  const isFree = (address: Address): boolean => !isOwned(address) && !except.some((one) => cidrContains(one, address));
  const example = EXAMPLES.find((address) => cidrContains(prefix, address) && isFree(address));
  if (example !== undefined) return example;
  const first = networkAddress(prefix);
  // No host has the network's own address.
  const second = addressPlus(first, 1n);
  if (second !== undefined && familyOf(second) === familyOf(first) && cidrContains(prefix, second) && isFree(second)) {
    return second;
  }
  let candidate: Address | undefined = first;
  for (const hole of [...except, undefined]) {
    const end = hole === undefined ? undefined : networkAddress(hole);
    while (candidate !== undefined && cidrContains(prefix, candidate)) {
      if (end !== undefined && compareAddresses(candidate, end) >= 0) break;
      if (!isOwned(candidate)) return candidate;
      candidate = addressPlus(candidate, 1n);
    }
    if (hole !== undefined) candidate = addressPlus(lastAddress(hole), 1n);
  }
  return undefined;
}
