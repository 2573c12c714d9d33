import type { Address } from "../../../kernel/ip/address.ts";
import type { Labels, Namespace, NetworkPolicy, Node, NodeAddress } from "../../../objects/model.ts";
import type { Direction } from "../../../objects/semantics/policies/flow.ts";
import type { PolicyObjects } from "../../../objects/semantics/policies/objects.ts";
import type { AddressHolder } from "../../flows/flow_end_names.ts";
import { isolatingPolicies } from "../compile/compile_profile.ts";
import type { PolicyView } from "../live/policy_view.ts";
import { sharesOf } from "../policy_size.ts";

/** The data of the cluster that one packet needs; no access takes longer in a larger cluster. */
export type ClusterView = Pick<PolicyView, "holderOf" | "holdersOf" | "nodeLabels" | "namespaceLabels" | "policiesOf">;

/** The part of a cluster that decides about a flow at one end. */
export interface ReducedCluster extends PolicyObjects {
  /** Keys of the NetworkPolicies that allow nothing because of their size (POL-73): here they have no rules. */
  readonly tooLarge: Readonly<Record<Direction, ReadonlySet<string>>>;
}

/**
 * Returns the part of a cluster that decides about a flow at one end: the two ends, the nodes that they are or run on,
 * their namespaces, and the policies that select the subject. The evaluator gives the same verdict for it as for the
 * whole cluster, except for policies that are too large, which it does not know.
 *
 * @param subject the address at which the flow is evaluated
 * @param other the other end's
 */
export function reducedCluster(view: ClusterView, subject: Address, other: Address): ReducedCluster {
  const ends = [
    { address: subject, holder: view.holderOf(subject) },
    ...view.holdersOf(other).map((holder) => ({ address: other, holder })),
  ];
  const pods = ends.flatMap(({ holder }) => (holder?.type === "pod" ? [holder.pod] : []));
  const addressesOf = (isHolder: (holder: AddressHolder) => boolean): readonly Address[] => [
    ...new Set(ends.flatMap(({ address, holder }) => (holder !== undefined && isHolder(holder) ? [address] : []))),
  ];
  const nodes = new Set([
    ...ends.flatMap(({ holder }) => (holder?.type === "node" ? [holder.name] : [])),
    ...pods.flatMap(({ nodeName }) => nodeName ?? []),
  ]);
  const own = ends[0]?.holder;
  // Only a few of the hundreds of policies in a namespace select a pod, and only those are worth an index.
  const { networkPolicies, clusterPolicies } = own?.type === "pod" ? view.policiesOf(own.pod) : NO_POLICIES;
  const tooLarge = { egress: tooLargeOf(networkPolicies, "egress"), ingress: tooLargeOf(networkPolicies, "ingress") };
  return {
    tooLarge,
    // The addresses by which the rules know the ends, whether or not their objects have them now.
    pods: byKey(
      pods.map((pod) => ({
        ...pod,
        addresses: addressesOf((holder) => holder.type === "pod" && holder.pod.key === pod.key),
      })),
    ),
    nodes: byKey(
      [...nodes].map((name) =>
        nodeWith(
          name,
          view.nodeLabels(name),
          addressesOf((holder) => holder.type === "node" && holder.name === name),
        ),
      ),
    ),
    namespaces: byKey(pods.map(({ namespace }) => namespaceWith(namespace, view.namespaceLabels(namespace)))),
    networkPolicies: byKey(networkPolicies.map((policy) => asInForce(policy, tooLarge))),
    clusterNetworkPolicies: byKey(clusterPolicies),
  };
}

const NO_POLICIES: ReturnType<ClusterView["policiesOf"]> = { networkPolicies: [], clusterPolicies: [] };

/** Computed as in profiles: policies in force together, and policies in shadow together. */
function tooLargeOf(policies: readonly NetworkPolicy[], direction: Direction): ReadonlySet<string> {
  const keys = isolatingPolicies(direction, policies).flatMap((some) => {
    const shares = sharesOf(some, direction);
    return some.flatMap(({ key }, place) => (shares[place] === "in force" ? [] : [key]));
  });
  return new Set(keys);
}

/** Returns the policy without the rules that no node has: the more rules there are, the longer evaluating takes. */
function asInForce(policy: NetworkPolicy, tooLarge: ReducedCluster["tooLarge"]): NetworkPolicy {
  const { key, egress, ingress } = policy;
  const [isEgressLost, isIngressLost] = [tooLarge.egress.has(key), tooLarge.ingress.has(key)];
  if (!isEgressLost && !isIngressLost) return policy;
  return { ...policy, egress: isEgressLost ? [] : egress, ingress: isIngressLost ? [] : ingress };
}

function nodeWith(name: string, labels: Labels, addresses: readonly Address[]): Node {
  const own = addresses.map((address): NodeAddress => ({ type: "InternalIP", address }));
  const unknown = { podCidrs: [], isLeaving: false, isNetworkUnavailable: false };
  return { kind: "Node", key: name, name, labels, addresses: own, ...unknown };
}

function namespaceWith(name: string, labels: Labels): Namespace {
  return { kind: "Namespace", key: name, name, uid: "", labels, isTerminating: false };
}

function byKey<T extends { readonly key: string }>(all: Iterable<T>): ReadonlyMap<string, T> {
  return new Map([...all].map((one) => [one.key, one]));
}
