import type { Address } from "../../../kernel/ip/address.ts";
import type { Labels, Namespace, Node, NodeAddress } from "../../cluster/model.ts";
import type { PolicyObjects } from "../evaluate/objects.ts";
import { selects } from "../evaluate/selector.ts";
import type { AddressHolder } from "../live/member_index.ts";
import type { PolicyView } from "../live/policy_view.ts";

/** What is asked of the cluster about one packet; no answer takes longer in a larger one. */
export type ClusterView = Pick<PolicyView, "holderOf" | "nodeLabels" | "namespaceLabels" | "policiesFor">;

/**
 * The part of a cluster that decides about a flow at one end: the two ends, the nodes they are or run on, their
 * namespaces, and the policies that select the subject. What the evaluator says of it is what it says of the whole.
 *
 * @param subject the address at which the flow is judged
 * @param other the other end's
 */
export function reducedCluster(view: ClusterView, subject: Address, other: Address): PolicyObjects {
  const ends = [subject, other].map((address) => ({ address, holder: view.holderOf(address) }));
  const pods = ends.flatMap(({ holder }) => (holder?.type === "pod" ? [holder.pod] : []));
  const addressesOf = (isHolder: (holder: AddressHolder) => boolean): readonly Address[] => [
    ...new Set(ends.flatMap(({ address, holder }) => (holder !== undefined && isHolder(holder) ? [address] : []))),
  ];
  const nodes = new Set([
    ...ends.flatMap(({ holder }) => (holder?.type === "node" ? [holder.name] : [])),
    ...pods.flatMap(({ nodeName }) => nodeName ?? []),
  ]);
  const { networkPolicies, clusterPolicies } = policiesOf(view, ends[0]?.holder);
  return {
    // The addresses the rules know them by, whether or not their objects tell those by now.
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
    networkPolicies: byKey(networkPolicies),
    clusterNetworkPolicies: byKey(clusterPolicies),
  };
}

/** Of hundreds in a namespace a few select a pod, and only they are worth an index. */
function policiesOf(view: ClusterView, holder: AddressHolder | undefined): ReturnType<ClusterView["policiesFor"]> {
  if (holder?.type !== "pod") return { networkPolicies: [], clusterPolicies: [] };
  const { namespace, labels } = holder.pod;
  const namespaceLabels = view.namespaceLabels(namespace);
  const { networkPolicies, clusterPolicies } = view.policiesFor(holder.pod);
  return {
    networkPolicies: networkPolicies.filter(({ podSelector }) => selects(podSelector, labels)),
    clusterPolicies: clusterPolicies.filter(
      ({ subject: { namespaceSelector, podSelector } }) =>
        selects(namespaceSelector, namespaceLabels) && (podSelector === undefined || selects(podSelector, labels)),
    ),
  };
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
