import { type Address, type Family, familyOf } from "../../../kernel/ip/address.ts";
import { type Cidr, cidrFamily, formatCidr, hostCidr, networkAddress } from "../../../kernel/ip/cidr.ts";
import type { Pod } from "../../model.ts";
import { isFinished } from "./address_owner.ts";
import type { IndexedRule } from "./indexed_policy.ts";
import { hasSharedAddress, type PodEntry, type PolicyIndex } from "./policy_index.ts";

/** Pods that policies do not distinguish. */
export interface PodClass {
  /** Keys in the order of the objects, at least one. */
  readonly pods: readonly [string, ...string[]];
  /** Host-network pods are one class for each node: policies treat them as the node. */
  readonly isHostNetwork: boolean;
}

/**
 * Returns the pods that have not finished, by classes. Only the classes decide on a flow between two different pods, so
 * a matrix evaluates each pair of classes once. Two cases depend on more than classes: a pod and itself (POL-06), and a
 * pod and the node it runs on (POL-07). If one class is a node's, evaluate both pods on the node and pods elsewhere.
 */
export function podClasses(index: PolicyIndex): readonly PodClass[] {
  const features = featuresOf(index);
  const classes = new Map<string, [string, ...string[]]>();
  for (const [key, entry] of index.pods) {
    if (isFinished(entry.pod)) continue;
    const own = signatureOf(entry, features);
    const signature = hasSharedAddress(index, entry.pod) ? `${own} ${ownersText(index, entry.pod)}` : own;
    const known = classes.get(signature);
    if (known === undefined) classes.set(signature, [key]);
    else known.push(key);
  }
  return [...classes].map(([signature, pods]) => ({ pods, isHostNetwork: signature.startsWith("node ") }));
}

/** Returns the owners of each address of a pod as text. */
function ownersText({ owners }: PolicyIndex, { addresses }: Pod): string {
  return addresses.map((address) => JSON.stringify(owners.get(address) ?? [])).join(" ");
}

/** The properties of pods that policies use beside labels. */
interface Features {
  readonly portNames: ReadonlySet<string>;
  /** The prefixes in policies, and the addresses of the nodes' own DNS, the longest first. */
  readonly prefixes: readonly PrefixesOfLength[];
}

/** The networks of all prefixes of one family and length. */
interface PrefixesOfLength {
  readonly family: Family;
  readonly length: number;
  readonly networks: ReadonlySet<Address>;
}

function rulesOf({ networkPolicies, clusterPolicies }: PolicyIndex): readonly IndexedRule[] {
  return [...networkPolicies, ...clusterPolicies].flatMap(({ rules }): readonly IndexedRule[] => [
    ...rules.egress,
    ...rules.ingress,
  ]);
}

/** Returns the prefixes in all rules, without host bits, and the addresses of the nodes' own DNS servers. */
export function namedPrefixes(index: PolicyIndex): readonly Cidr[] {
  const peers = rulesOf(index).flatMap((rule) => rule.peers ?? []);
  const ranges = peers.flatMap((peer) => (peer.type === "addresses" ? [...peer.ranges, ...peer.except] : []));
  const named = ranges.map(({ cidr, first }): Cidr => ({ address: first, prefixLength: cidr.prefixLength }));
  return [...named, ...index.options.nodeLocalDNS.map(hostCidr)];
}

function featuresOf(index: PolicyIndex): Features {
  const ports = rulesOf(index).flatMap((rule) => rule.ports ?? []);
  const all = namedPrefixes(index).toSorted((a, b) => b.prefixLength - a.prefixLength);
  const prefixes = Map.groupBy(all, (cidr) => `${cidrFamily(cidr)} ${cidr.prefixLength}`);
  return {
    portNames: new Set(ports.map(({ port }) => port).filter((port) => typeof port === "string")),
    prefixes: [...prefixes.values()].flatMap(([first, ...others]): readonly PrefixesOfLength[] => {
      if (first === undefined) return [];
      const networks = new Set([first, ...others].map(({ address }) => address));
      return [{ family: cidrFamily(first), length: first.prefixLength, networks }];
    }),
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
 * Returns the smallest of the prefixes in policies that contains an address. It determines all prefixes that contain
 * it, since two prefixes either contain one another or are disjoint.
 */
function innermost(prefixes: Features["prefixes"], address: Address): string {
  for (const { family, length, networks } of prefixes) {
    if (family !== familyOf(address)) continue;
    const network = networkAddress({ address, prefixLength: length });
    if (networks.has(network)) return formatCidr({ address: network, prefixLength: length });
  }
  return "";
}
