import { askerElement, nameGroupsOf } from "../../../policyd/policies/compile/name_rules.ts";
import { type Address, familyOf, FAMILIES } from "../../../kernel/ip/address.ts";
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
import { memberKeys, type MemberSet, type ProfileObjects } from "../../../policyd/policies/compile/sets/member_set.ts";
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
  /** The first owner of each address by name, which is the one that is attached where several have it. */
  readonly owners: ReadonlyMap<Address, Owner>;
  readonly #all: ReadonlyMap<Address, readonly Owner[]>;
  readonly #cluster: PolicyCluster;
  readonly #options: PolicyOptions;
  readonly #flattenAbove: number | undefined;

  constructor(cluster: PolicyCluster, options: PolicyOptions, flattenAbove?: number) {
    this.#cluster = cluster;
    this.#options = options;
    this.#flattenAbove = flattenAbove;
    this.#all = ownersOf(cluster);
    this.owners = new Map(
      [...this.#all].flatMap(([address, [first]]) => (first === undefined ? [] : [[address, first]])),
    );
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
    for (const set of memberSets.values()) this.#fill(elements, set, name);
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
          ...byName(objects.flatMap(({ nameSets }) => nameSets)),
        ],
        chains: [...byName(objects.flatMap(({ chains }) => chains)), ...table.chains],
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

  #fill(elements: Map<string, Element[]>, set: MemberSet, node: string | undefined): void {
    for (const family of FAMILIES) elements.set(set.definitions[family].name, []);
    const known = new Set<string>();
    for (const source of set.sources) {
      for (const [address, all] of this.#all) {
        // A node knows which pod of its own has an address.
        const [first] = all;
        const owners = first !== undefined && "pod" in first && first.pod.nodeName === node ? [first] : all;
        const keys = owners.map((owner) =>
          this.#isIn(source.group, owner) ? memberKeys(source, address, "pod" in owner ? owner.pod.ports : []) : [],
        );
        for (const key of keys.flat()) {
          const holders = keys.filter((some) => some.some((one) => keyText(one) === keyText(key)));
          if (!set.isDenying && holders.length < owners.length) continue;
          if (known.has(keyText(key))) continue;
          known.add(keyText(key));
          add(elements, set.definitions[familyOf(address)].name, { key });
        }
      }
    }
  }

  #isIn(group: PodGroup | NodeGroup | undefined, owner: Owner): boolean {
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
  const askers = nameGroupsOf(profiles?.egress).length > 0 ? addresses.map(askerElement) : [];
  return [...knownElements(addresses), ...selfElements(addresses), ...verdicts, ...askers];
}

function add(elements: Map<string, Element[]>, set: string, element: Element): void {
  const list = elements.get(set) ?? [];
  elements.set(set, list);
  list.push(element);
}

/**
 * Returns the owners of each address, by name. A node's address is the node's, whatever pods say; of several pods those
 * that run and are not terminating own it (POL-57), and where two are equal, both (POL-95).
 */
function ownersOf({ pods, nodes }: PolicyCluster): ReadonlyMap<Address, readonly Owner[]> {
  const claims: { readonly address: Address; readonly rank: number; readonly name: string; readonly owner: Owner }[] =
    [];
  for (const pod of pods.values()) {
    const { hostNetwork, nodeName, phase, isTerminating, addresses, key } = pod;
    if (hostNetwork ? nodeName === undefined : phase === "Succeeded" || phase === "Failed") continue;
    const rank = hostNetwork ? 10 : (isTerminating ? 0 : 2) + (phase === "Running" ? 1 : 0);
    const [name, owner] = hostNetwork ? [nodeName ?? "", { node: nodeName ?? "" }] : [key, { pod }];
    for (const address of addresses) claims.push({ address, rank, name, owner });
  }
  for (const { name, addresses } of nodes.values()) {
    for (const { address } of addresses) claims.push({ address, rank: 20, name, owner: { node: name } });
  }
  return new Map(
    [...Map.groupBy(claims, ({ address }) => address)].map(([address, all]) => {
      const most = Math.max(...all.map(({ rank }) => rank));
      const best = new Map(all.filter(({ rank }) => rank === most).map(({ name, owner }) => [name, owner]));
      return [address, [...best].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, owner]) => owner)];
    }),
  );
}

/** Returns objects that several profiles share once. */
function byName<T extends { readonly name: string }>(all: readonly T[]): Iterable<T> {
  return new Map(all.map((one) => [one.name, one])).values();
}
