import type {
  ClusterNetworkPolicy,
  ClusterObject,
  ClusterPolicyPort,
  ContainerPort,
  LabelSelector,
  NetworkPolicy,
  Pod,
  PodPeer,
  PolicyPort,
} from "../../objects/model.ts";
import { frozenLabels } from "../../objects/name.ts";
import { isFinished } from "../../objects/semantics/policies/address_owner.ts";

/** A policy of either kind. */
export type Policy = NetworkPolicy | ClusterNetworkPolicy;

/** Returns whether an object is a policy of either kind. */
export function isPolicy(object: ClusterObject): object is Policy {
  return object.kind === "NetworkPolicy" || object.kind === "ClusterNetworkPolicy";
}

/** Pods that a policy speaks of: those that it selects, or those of a peer. */
export interface Selection {
  readonly policy: Policy;
  readonly isSubject: boolean;
  readonly pods: LabelSelector;
  /** The namespaces, or the name of the only one. */
  readonly within: LabelSelector | string;
}

const EVERYTHING: LabelSelector = Object.freeze({ matchLabels: frozenLabels([]), matchExpressions: [] });

/** Returns the pods that a policy selects, and those of its peers. */
export function selectionsOf(policy: Policy): readonly Selection[] {
  const own = policy.kind === "NetworkPolicy" ? policy.namespace : "";
  const selectionOf = (
    { podSelector, namespaceSelector }: Omit<PodPeer, "type" | "index">,
    isSubject: boolean,
  ): Selection => ({
    policy,
    isSubject,
    pods: podSelector ?? EVERYTHING,
    within: namespaceSelector ?? own,
  });
  const subject =
    policy.kind === "NetworkPolicy"
      ? { podSelector: policy.podSelector, namespaceSelector: undefined }
      : policy.subject;
  const peers = peersOf(policy);
  return [
    selectionOf(subject, true),
    ...peers.flatMap((peer) => (peer.type === "pods" ? [selectionOf(peer, false)] : [])),
  ];
}

type Rule = Policy["ingress"][number];
type Rules = Pick<Policy, "ingress" | "egress">;
/** A peer of a rule of either kind. */
export type Peer = NonNullable<Rule["peers"]>[number];

function rulesOf({ ingress, egress }: Rules): readonly Rule[] {
  return [...ingress, ...egress];
}

/** Returns the ports that rules name. */
export function namedPortsOf(policy: Rules): readonly Omit<ContainerPort, "port">[] {
  const ports = rulesOf(policy).flatMap((rule): readonly (PolicyPort | ClusterPolicyPort)[] => rule.ports ?? []);
  return ports.flatMap(({ port: name, protocol = "TCP" }) => (typeof name === "string" ? [{ name, protocol }] : []));
}

/** Returns a text that is equal for equal ports. */
export function portKey({ name, protocol }: Omit<ContainerPort, "port">): string {
  return `${name} ${protocol}`;
}

/** Returns the peers of all rules of a policy. */
export function peersOf(policy: Policy): readonly Peer[] {
  return rulesOf(policy).flatMap((rule): readonly Peer[] => rule.peers ?? []);
}

/** Whether an object is a pod that policies select: it runs or will run, and not in the host's network. */
export function isRunning(object: ClusterObject): object is Pod {
  return object.kind === "Pod" && !isFinished(object) && !object.hostNetwork;
}
