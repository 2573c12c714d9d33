import { type Address, type Family, familyOf } from "../../kernel/ip/address.ts";
import { nameOf } from "../../objects/gate/gate.ts";
import type { ClusterObject, Node, Pod } from "../../objects/model.ts";
import { frozenLabels } from "../../objects/name.ts";
import { internalFirst } from "../../objects/nodes/node_addresses.ts";
import type { ClusterStore } from "../../objects/store.ts";
import type { PolicyOptions } from "../../objects/semantics/policies/objects.ts";
import { buildPolicyIndex, type PolicyIndex } from "../../objects/semantics/policies/policy_index.ts";
import type { Manifest } from "../input/manifests.ts";
import { storeOf } from "./policy_objects.ts";
import { PlaceholderAddresses } from "./placeholder_addresses.ts";

/** The node of pods and endpoints for which the files name no node. */
export const UNKNOWN_NODE = "";

/** A cluster as files describe it, indexed for questions. */
export interface Cluster {
  /** The objects, and a bare Node for every name that only a pod or an endpoint mentions. */
  readonly store: ClusterStore;
  readonly index: PolicyIndex;
  /** The file and line of each object, by its kind and key: `NetworkPolicy shop/web`. */
  readonly manifests: ReadonlyMap<string, Manifest>;
  readonly placeholderAddresses: PlaceholderAddresses;
  /** Pods that are in no file, which only {@link index} has, with their names for people; undefined if not all are there. */
  readonly newPods: readonly { readonly pod: Pod; readonly name: string }[] | undefined;
}

/** Pods, namespaces and nodes that no file has; the names for people are by the key of a pod. */
interface StandIns {
  readonly objects: readonly ClusterObject[];
  readonly names: ReadonlyMap<string, { readonly text: string }>;
  /** False where some are left out, since they are too many. */
  readonly isComplete: boolean;
}

/**
 * Indexes objects.
 *
 * @param options how the cluster's nodes enforce policies; policyd's defaults without them
 * @param standIns for what is in no file
 */
export function clusterOf(
  manifests: readonly Manifest[],
  options: Partial<PolicyOptions> = {},
  { objects: others, names, isComplete }: StandIns = { objects: [], names: new Map(), isComplete: true },
): Cluster {
  const objects = manifests.map(({ object }) => object);
  const known = new Set(objects.flatMap((object) => (object.kind === "Node" ? [object.name] : [])));
  const unknown = new Set(objects.flatMap(mentionedNodes).filter((name) => !known.has(name)));
  const onHosts = objects.filter((one): one is Pod => one.kind === "Pod" && one.hostNetwork);
  const pods = Map.groupBy(onHosts, ({ nodeName }) => nodeName);
  const bare = [...unknown].map((name) => bareNode(name, pods.get(name)));
  const store = storeOf([...objects, ...bare]);
  const all = others.length === 0 ? store : storeOf([...objects, ...bare, ...others]);
  const young = others.flatMap((one) => {
    const name = one.kind === "Pod" ? names.get(one.key)?.text : undefined;
    return one.kind !== "Pod" || name === undefined ? [] : [{ pod: one, name }];
  });
  return {
    store,
    index: buildPolicyIndex(all, options),
    manifests: new Map(manifests.map((manifest) => [nameOf(manifest.object), manifest])),
    placeholderAddresses: new PlaceholderAddresses(addressesOf(all)),
    newPods: isComplete ? young : undefined,
  };
}

/** Returns a pod's address in a family: its own or, where the files give it no address at all, a stand-in. */
export function podAddress(cluster: Cluster, pod: Pod, family: Family): Address | undefined {
  if (pod.hostNetwork && pod.nodeName !== undefined) return nodeAddress(cluster, pod.nodeName, family);
  return inFamily(pod.addresses, family, () => cluster.placeholderAddresses.addressOf(`Pod ${pod.key}`, family));
}

/** Returns a node's address as {@link podAddress} does, preferably its internal one. */
export function nodeAddress(
  { store, placeholderAddresses }: Cluster,
  name: string,
  family: Family,
): Address | undefined {
  const ordered = internalFirst(store.nodes.get(name)?.addresses ?? []);
  return inFamily(ordered, family, () => placeholderAddresses.addressOf(`Node ${name}`, family));
}

/** Returns the pod or node that has an address, its own or a placeholder; undefined where the files do not say. */
export function ownerOf(
  { index, placeholderAddresses }: Cluster,
  address: Address,
): { type: "pod" | "node"; key: string } | undefined {
  const [kind, key] = placeholderAddresses.ownerOf(address)?.split(" ") ?? [];
  if (key !== undefined) return kind === "Service" ? undefined : { type: kind === "Pod" ? "pod" : "node", key };
  const owner = index.owners.get(address)?.[0];
  if (owner === undefined) return undefined;
  return owner.type === "pod" ? { type: "pod", key: owner.key } : { type: "node", key: owner.name };
}

function inFamily(addresses: readonly Address[], family: Family, standIn: () => Address): Address | undefined {
  return addresses.length === 0 ? standIn() : addresses.find((address) => familyOf(address) === family);
}

function mentionedNodes(object: ClusterObject): readonly string[] {
  if (object.kind === "EndpointSlice") return object.endpoints.flatMap(({ nodeName }) => nodeName ?? []);
  return object.kind === "Pod" && object.nodeName !== undefined ? [object.nodeName] : [];
}

/**
 * Returns a node that no file describes.
 *
 * @param pods those of the host's network, whose addresses are the node's
 */
export function bareNode(name: string, pods: readonly Pod[] = []): Node {
  const addresses = new Set(pods.flatMap((pod) => pod.addresses));
  return Object.freeze({
    kind: "Node",
    key: name,
    name,
    labels: frozenLabels([]),
    addresses: [...addresses].map((address) => ({ type: "InternalIP" as const, address })),
    podCidrs: [],
    isLeaving: false,
    isNetworkUnavailable: false,
  });
}

function addressesOf({ pods, nodes, services, endpointSlices }: ClusterStore): ReadonlySet<Address> {
  return new Set([
    ...[...pods.values()].flatMap(({ addresses }) => addresses),
    ...[...nodes.values()].flatMap(({ addresses }) => addresses.map(({ address }) => address)),
    ...[...services.values()].flatMap((service) => [
      ...service.clusterIps,
      ...service.externalIps,
      ...service.loadBalancerIngress.map(({ address }) => address),
    ]),
    ...[...endpointSlices.values()].flatMap(({ endpoints }) => endpoints.map(({ address }) => address)),
  ]);
}
