import type { Address } from "../../../kernel/ip/address.ts";
import type { Node, Pod } from "../../model.ts";
import { addressOwners, type AddressOwners, isFinished } from "./address_owner.ts";
import { IdentityTable } from "./identity.ts";
import {
  indexClusterPolicies,
  type IndexedClusterPolicy,
  type IndexedNetworkPolicy,
  indexNetworkPolicies,
} from "./indexed_policy.ts";
import type { PolicyObjects, PolicyOptions } from "./objects.ts";
import { PeerSelection } from "./peer_selection.ts";
import { type Subject, subjectsOf } from "./profile.ts";

/** A snapshot of a cluster, prepared for evaluating many flows; build it again after a change. */
export interface PolicyIndex {
  readonly pods: ReadonlyMap<string, PodEntry>;
  readonly nodes: ReadonlyMap<string, Node>;
  readonly owners: ReadonlyMap<Address, AddressOwners>;
  readonly networkPolicies: readonly IndexedNetworkPolicy[];
  readonly clusterPolicies: readonly IndexedClusterPolicy[];
  readonly clusterIps: ReadonlySet<Address>;
  readonly options: PolicyOptions;
}

export interface PodEntry {
  readonly pod: Pod;
  /** The pod as policies see it; undefined if it has finished, or is in the host network and so treated as its node. */
  readonly subject: Subject | undefined;
}

const DEFAULTS: PolicyOptions = Object.freeze({ policePodToOwnNode: false, nodeLocalDNS: [] });

/**
 * Prepares a cluster for `evaluatePolicy`. A namespace that is missing among the objects only has the label of its
 * name, which every namespace has.
 */
export function buildPolicyIndex(objects: PolicyObjects, options: Partial<PolicyOptions> = {}): PolicyIndex {
  const { namespaces, nodes, pods, ...policies } = objects;
  const raw = [...policies.networkPolicies.values()];
  const rawCluster = [...policies.clusterNetworkPolicies.values()];
  const table = new IdentityTable(namespaces, [...raw, ...rawCluster]);
  const numbered = [...pods.values()].map((pod) => ({
    pod,
    identity: pod.hostNetwork || isFinished(pod) ? undefined : table.numberOf(pod),
  }));
  const selection = new PeerSelection(table.all(), nodes);
  const networkPolicies = indexNetworkPolicies(raw, selection);
  const clusterPolicies = indexClusterPolicies(rawCluster, selection);
  const subjects = subjectsOf(table.all(), networkPolicies, clusterPolicies);
  const entries = numbered.map(({ pod, identity }): [string, PodEntry] => [
    pod.key,
    { pod, subject: identity === undefined ? undefined : subjects[identity] },
  ]);
  return {
    pods: new Map(entries),
    nodes: new Map(nodes),
    owners: addressOwners(objects),
    networkPolicies,
    clusterPolicies,
    clusterIps: new Set([...(objects.services?.values() ?? [])].flatMap(({ clusterIps }) => clusterIps)),
    options: { ...DEFAULTS, ...options },
  };
}

/** Returns whether others have an address of a pod as much as it does: their policies apply to it, too (POL-95). */
export function hasSharedAddress({ owners }: Pick<PolicyIndex, "owners">, pod: Pod | undefined): boolean {
  return pod?.addresses.some((address) => (owners.get(address)?.length ?? 0) > 1) === true;
}
