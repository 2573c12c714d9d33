import type { Address } from "../../../kernel/ip/address.ts";
import { familyOf } from "../../../kernel/ip/address.ts";
import type { Cidr } from "../../../kernel/ip/cidr.ts";
import { cidrFamily, formatCidr, hostCidr, networkAddress } from "../../../kernel/ip/cidr.ts";
import { isFinished } from "./address_owner.ts";
import type { IndexedRule } from "./indexed_policy.ts";
import type { PodEntry, PolicyIndex } from "./policy_index.ts";

/** Pods that policies cannot tell apart. */
export interface PodClass {
  /** Keys, at least one, in the order of the objects. */
  readonly pods: readonly [string, ...string[]];
  /** Pods of the host's network are a class for each node: policies take them for it. */
  readonly isHostNetwork: boolean;
}

/**
 * The pods that have not finished, by classes: between two different pods a flow is judged by their classes alone, so a
 * matrix asks once for each pair of classes. Two things are not of a class: a pod and itself (POL-06), and a pod and the
 * node it runs on (POL-07), so ask for both, pods on the node and pods elsewhere, where one class is a node's.
 */
export function podClasses(index: PolicyIndex): readonly PodClass[] {
  const features = featuresOf(index);
  const classes = new Map<string, [string, ...string[]]>();
  for (const [key, entry] of index.pods) {
    if (isFinished(entry.pod)) continue;
    const signature = signatureOf(entry, features);
    const known = classes.get(signature);
    if (known === undefined) classes.set(signature, [key]);
    else known.push(key);
  }
  return [...classes].map(([signature, pods]) => ({ pods, isHostNetwork: signature.startsWith("node ") }));
}

/** What policies ask about a pod beside its labels. */
interface Features {
  readonly portNames: ReadonlySet<string>;
  /** The prefixes they name, and the addresses of the nodes' own DNS, by family and length, the longest first. */
  readonly prefixes: ReadonlyMap<string, ReadonlySet<Address>>;
}

function featuresOf({ networkPolicies, clusterPolicies, options }: PolicyIndex): Features {
  const rules = [...networkPolicies, ...clusterPolicies].flatMap((indexed): readonly IndexedRule[] => [
    ...indexed.rules.egress,
    ...indexed.rules.ingress,
  ]);
  const ports = rules.flatMap((rule) => rule.ports ?? []).map(({ port }) => port);
  const peers = rules.flatMap((rule) => rule.peers ?? []);
  const ranges = peers.flatMap((peer) => (peer.type === "addresses" ? [...peer.ranges, ...peer.except] : []));
  const named = ranges.map(({ cidr, first }): Cidr => ({ address: first, prefixLength: cidr.prefixLength }));
  const prefixes = Map.groupBy(
    [...named, ...options.nodeLocalDNS.map(hostCidr)].sort((a, b) => b.prefixLength - a.prefixLength),
    lengthKey,
  );
  return {
    portNames: new Set(ports.filter((port) => typeof port === "string")),
    prefixes: new Map([...prefixes].map(([key, group]) => [key, new Set(group.map(({ address }) => address))])),
  };
}

function signatureOf({ pod, subject }: PodEntry, { portNames, prefixes }: Features): string {
  if (subject === undefined) return `node ${pod.nodeName ?? pod.key}`;
  const places = pod.addresses.map((address) => `${familyOf(address)} ${innermost(prefixes, address)}`);
  const ports = pod.ports.filter(({ name }) => portNames.has(name));
  const names = ports.map(({ name, protocol, port }) => `${name} ${protocol} ${port}`).sort();
  return [subject.identity.number, ...places, ...names].join(", ");
}

/**
 * The smallest of the named prefixes that has an address. It tells all of them that have it, since prefixes lie within
 * each other or apart.
 */
function innermost(prefixes: Features["prefixes"], address: Address): string {
  for (const [key, networks] of prefixes) {
    const [family, length] = key.split(" ").map(Number);
    if (family !== familyOf(address) || length === undefined) continue;
    const network = networkAddress({ address, prefixLength: length });
    if (networks.has(network)) return formatCidr({ address: network, prefixLength: length });
  }
  return "";
}

function lengthKey(cidr: Cidr): string {
  return `${cidrFamily(cidr)} ${cidr.prefixLength}`;
}
