import { type Address, familyOf } from "../../../kernel/ip/address.ts";
import { keyText } from "../../../kernel/nftables/encode/element.ts";
import type { Element, Table } from "../../../kernel/nftables/model/object.ts";
import type { ClusterNetworkPolicy, Labels, Namespace, NetworkPolicy, Node, Pod } from "../../../objects/model.ts";
import type { DesiredElement } from "../../../policyd/ruleset/desired/desired_element.ts";
import { compileProfile } from "../../../policyd/policies/compile/compile_profile.ts";
import {
  groupHasNode,
  groupHasPod,
  type SelectablePod,
  subjectSelects,
} from "../../../policyd/policies/compile/peer_groups.ts";
import { memberKeys } from "../../../policyd/policies/compile/sets/member_elements.ts";
import type { MemberSet, ProfileObjects } from "../../../policyd/policies/compile/sets/member_set.ts";
import type { PolicyOptions } from "../../../policyd/policies/compile/options.ts";
import { policyTable } from "../../../policyd/policies/compile/policy_table.ts";
import type { NodeGroup, PodGroup, ProfilesByDirection } from "../../../policyd/policies/compile/profile.ts";
import { profileChainName, profileObjects } from "../../../policyd/policies/compile/profile_chain.ts";
import { knownElements, selfElements, verdictElement } from "../../../policyd/policies/compile/table_elements.ts";

export interface PolicyCluster {
  readonly namespaces: ReadonlyMap<string, Namespace>;
  readonly nodes: ReadonlyMap<string, Node>;
  readonly pods: ReadonlyMap<string, Pod>;
  readonly networkPolicies: ReadonlyMap<string, NetworkPolicy>;
  readonly clusterNetworkPolicies: ReadonlyMap<string, ClusterNetworkPolicy>;
}

/** A cluster as it is compiled into one node's table of policies. */
export interface CompiledNode {
  readonly table: Table;
  readonly elements: ReadonlyMap<string, readonly Element[]>;
  /** The profiles of local and expected pods, by their keys. */
  readonly profiles: ReadonlyMap<string, ProfilesByDirection>;
  readonly objects: readonly ProfileObjects[];
  /** The node's own addresses, as in its kernel. */
  readonly ownAddresses: ReadonlySet<Address>;
}

/** The owner of an address: a pod, or the node with this name. */
export type Owner = { readonly pod: Pod } | { readonly node: string };

/** Compiles a whole cluster at once, in the plainest way: the result that incremental changes must lead to. */
export class CompiledCluster {
  readonly owners: ReadonlyMap<Address, Owner>;
  readonly #cluster: PolicyCluster;
  readonly #options: PolicyOptions;
  readonly #flattenAbove: number | undefined;

  constructor(cluster: PolicyCluster, options: PolicyOptions, flattenAbove?: number) {
    this.#cluster = cluster;
    this.#options = options;
    this.#flattenAbove = flattenAbove;
    this.owners = ownersOf(cluster);
  }

  /** Returns the table of a node; for undefined, that of pods that no node has yet. */
  node(name: string | undefined): CompiledNode {
    const local = this.#localPods(name);
    const pods = [...local.keys(), ...this.#expectedPods(name)];
    const profiles = new Map(pods.map((pod) => [pod.key, this.profilesOf(pod)]));
    const distinct = new Map(
      [...profiles.values()]
        .flatMap(({ egress, ingress }) => [egress, ingress])
        .filter((profile) => profile !== undefined)
        .map((profile) => [profileChainName(profile.direction, profile.key, this.#options), profile]),
    );
    const objects = [...distinct.values()].map((one) => profileObjects(one, this.#options, this.#flattenAbove));
    const memberSets = new Map(objects.flatMap((one) => one.memberSets).map((set) => [set.name, set]));
    const fixedSets = new Map(objects.flatMap((one) => one.fixedSets).map((set) => [set.definition.name, set]));
    const elements = new Map<string, Element[]>();
    for (const [pod, addresses] of local) {
      for (const { set, element } of localElements(addresses, profiles.get(pod.key), this.#options))
        add(elements, set, element);
    }
    for (const { definition, elements: fixed } of fixedSets.values()) elements.set(definition.name, [...fixed]);
    for (const set of memberSets.values()) this.#fill(elements, set);
    const table = policyTable(this.#options);
    const ownAddresses = new Set(
      [...this.owners].flatMap(([address, owner]) => ("node" in owner && owner.node === name ? [address] : [])),
    );
    return {
      table: {
        ...table,
        sets: [
          ...table.sets,
          ...[...memberSets.values()].flatMap(({ definitions }) => [definitions[4], definitions[6]]),
          ...[...fixedSets.values()].map(({ definition }) => definition),
        ],
        chains: [...objects.flatMap(({ chains }) => chains), ...table.chains],
      },
      elements,
      profiles,
      objects,
      ownAddresses,
    };
  }

  profilesOf(pod: Pod): ProfilesByDirection {
    const one = this.#selectable(pod);
    const network = [...this.#cluster.networkPolicies.values()].filter((policy) => subjectSelects(policy, one));
    const cluster = [...this.#cluster.clusterNetworkPolicies.values()].filter((policy) => subjectSelects(policy, one));
    return {
      egress: compileProfile("egress", network, cluster),
      ingress: compileProfile("ingress", network, cluster),
    };
  }

  /** Returns a node's pods with the addresses that they own. */
  #localPods(name: string | undefined): ReadonlyMap<Pod, readonly Address[]> {
    const local = new Map<Pod, Address[]>();
    for (const [address, owner] of this.owners) {
      if (!("pod" in owner) || owner.pod.nodeName !== name) continue;
      local.set(owner.pod, [...(local.get(owner.pod) ?? []), address]);
    }
    return local;
  }

  /** Returns the pods whose ADD is expected: the objects that their policies need exist before it. */
  #expectedPods(name: string | undefined): readonly Pod[] {
    return [...this.#cluster.pods.values()].filter(
      ({ nodeName, hostNetwork, phase, isTerminating }) =>
        nodeName !== undefined && nodeName === name && !hostNetwork && phase === "Pending" && !isTerminating,
    );
  }

  #selectable({ namespace, labels }: Pod): SelectablePod {
    const namespaceLabels: Labels = this.#cluster.namespaces.get(namespace)?.labels ?? {
      "kubernetes.io/metadata.name": namespace,
    };
    return { namespace, labels, namespaceLabels };
  }

  #fill(elements: Map<string, Element[]>, set: MemberSet): void {
    for (const family of [4, 6] as const) elements.set(set.definitions[family].name, []);
    const known = new Set<string>();
    for (const source of set.sources) {
      for (const [address, owner] of this.owners) {
        if (!this.#isIn(source.group, address)) continue;
        for (const key of memberKeys(source, address, "pod" in owner ? owner.pod.ports : [])) {
          if (known.has(keyText(key))) continue;
          known.add(keyText(key));
          add(elements, set.definitions[familyOf(address)].name, { key });
        }
      }
    }
  }

  #isIn(group: PodGroup | NodeGroup | undefined, address: Address): boolean {
    const owner = this.owners.get(address);
    if (owner === undefined) return false;
    if ("pod" in owner)
      return group === undefined || (group.type === "pods" && groupHasPod(group, this.#selectable(owner.pod)));
    const node = this.#cluster.nodes.get(owner.node);
    return group?.type === "nodes" && node !== undefined && groupHasNode(group, node.labels);
  }
}

function localElements(
  addresses: readonly Address[],
  profiles: ProfilesByDirection | undefined,
  options: PolicyOptions,
): readonly DesiredElement[] {
  const verdicts = (["egress", "ingress"] as const).flatMap((direction) => {
    const profile = profiles?.[direction];
    const chain = profile && profileChainName(direction, profile.key, options);
    return addresses.map((address) => verdictElement(direction, address, chain));
  });
  return [...knownElements(addresses), ...selfElements(addresses), ...verdicts];
}

function add(elements: Map<string, Element[]>, set: string, element: Element): void {
  const list = elements.get(set) ?? [];
  elements.set(set, list);
  list.push(element);
}

/**
 * Returns the owner of each address. A node's address is the node's, whatever pods say; of several pods the running one
 * that is not terminating owns it (POL-57).
 */
function ownersOf({ pods, nodes }: PolicyCluster): ReadonlyMap<Address, Owner> {
  const owners = new Map<Address, Owner>();
  const rank = ({ phase, isTerminating }: Pod): number => (isTerminating ? 0 : 2) + (phase === "Running" ? 1 : 0);
  const claimants = [...pods.values()]
    .filter(({ hostNetwork, phase }) => !hostNetwork && phase !== "Succeeded" && phase !== "Failed")
    .toSorted((a, b) => rank(a) - rank(b) || (a.key < b.key ? 1 : -1));
  for (const pod of claimants) for (const address of pod.addresses) owners.set(address, { pod });
  for (const { hostNetwork, nodeName, addresses } of pods.values()) {
    if (!hostNetwork || nodeName === undefined) continue;
    for (const address of addresses) owners.set(address, { node: nodeName });
  }
  for (const { name, addresses } of nodes.values()) {
    for (const { address } of addresses) owners.set(address, { node: name });
  }
  return owners;
}
