import type { Address } from "../../../kernel/ip/address.ts";
import { type Cidr, lastAddress, networkAddress } from "../../../kernel/ip/cidr.ts";
import type {
  ClusterNetworkPolicy,
  ClusterPolicyPeer,
  ClusterPolicyPort,
  ClusterPolicyRule,
  NetworkPolicy,
  PolicyPeer,
  PolicyPort,
  PolicyRule,
} from "../../model.ts";
import { LINK_DESTINATIONS } from "../../nodes/node_addresses.ts";
import type { Direction } from "./flow.ts";
import type { Members, PeerSelection } from "./peer_selection.ts";

/** A NetworkPolicy with everything that its selectors and prefixes select. */
export interface IndexedNetworkPolicy {
  readonly policy: NetworkPolicy;
  readonly subject: Members;
  readonly rules: Readonly<Record<Direction, readonly IndexedRule[]>>;
}

export interface IndexedClusterPolicy {
  readonly policy: ClusterNetworkPolicy;
  readonly subject: Members;
  readonly rules: Readonly<Record<Direction, readonly IndexedClusterRule[]>>;
}

export interface IndexedRule {
  readonly index: number;
  /** Undefined means everyone. */
  readonly peers: readonly IndexedPeer[] | undefined;
  /** Undefined means every port of every protocol. */
  readonly ports: readonly PortPattern[] | undefined;
  readonly isDenying: boolean;
}

export interface IndexedClusterRule extends IndexedRule {
  readonly rule: ClusterPolicyRule;
}

export type PortPattern = PolicyPort | ClusterPolicyPort;

export type IndexedPeer =
  | { readonly type: "pods"; readonly index: number; readonly members: Members }
  | { readonly type: "nodes"; readonly index: number; readonly names: ReadonlySet<string> }
  | {
      readonly type: "addresses";
      readonly index: number;
      readonly ranges: readonly PrefixRange[];
      readonly except: readonly PrefixRange[];
    }
  | { readonly type: "names"; readonly index: number; readonly names: readonly string[] };

/** The addresses of a prefix, in a form that many addresses can be compared with. */
export interface PrefixRange {
  readonly cidr: Cidr;
  readonly first: Address;
  readonly last: Address;
}

/** Indexes NetworkPolicies in the order of their keys, which is the order in which reasons are given. */
export function indexNetworkPolicies(
  policies: readonly NetworkPolicy[],
  selection: PeerSelection,
): readonly IndexedNetworkPolicy[] {
  const rulesOf = (rules: readonly PolicyRule[], namespace: string): readonly IndexedRule[] =>
    rules.map(({ index, peers, ports }) => ({
      index,
      peers: peers?.map((peer) => indexPeer(peer, selection, namespace)),
      ports,
      isDenying: false,
    }));
  return policies.toSorted(byKey).map((policy) => ({
    policy,
    subject: selection.pods({ podSelector: policy.podSelector, namespaceSelector: undefined }, policy.namespace),
    rules: { egress: rulesOf(policy.egress, policy.namespace), ingress: rulesOf(policy.ingress, policy.namespace) },
  }));
}

/** Indexes ClusterNetworkPolicies in the order of evaluation within a tier; for equal priorities we chose the name. */
export function indexClusterPolicies(
  policies: readonly ClusterNetworkPolicy[],
  selection: PeerSelection,
): readonly IndexedClusterPolicy[] {
  const rulesOf = (rules: readonly ClusterPolicyRule[]): readonly IndexedClusterRule[] =>
    rules.map((rule) => ({
      index: rule.index,
      peers: rule.peers?.flatMap((peer) => [indexPeer(peer, selection, ""), ...linkOf(peer, rule.action)]),
      ports: rule.ports,
      isDenying: rule.action === "Deny",
      rule,
    }));
  return policies
    .toSorted((a, b) => a.priority - b.priority || byKey(a, b))
    .map((policy) => ({
      policy,
      subject: selection.pods(policy.subject, ""),
      rules: { egress: rulesOf(policy.egress), ingress: rulesOf(policy.ingress) },
    }));
}

/**
 * Returns the destinations on the link for a Deny of nodes: a pod that may not send to nodes may not send to groups,
 * broadcasts and link-local addresses either, since its own node listens there (CNP-20).
 */
function linkOf({ type, index }: ClusterPolicyPeer, action: ClusterPolicyRule["action"]): readonly IndexedPeer[] {
  if (type !== "nodes" || action !== "Deny") return [];
  return [{ type: "addresses", index, ranges: LINK_DESTINATIONS.map(prefixRange), except: [] }];
}

function indexPeer(peer: PolicyPeer | ClusterPolicyPeer, selection: PeerSelection, namespace: string): IndexedPeer {
  const { type, index } = peer;
  switch (type) {
    case "pods":
      return { type, index, members: selection.pods(peer, namespace) };
    case "nodes":
      return { type, index, names: selection.nodes(peer.selector) };
    case "networks":
      return { type: "addresses", index, ranges: peer.cidrs.map(prefixRange), except: [] };
    case "ipBlock":
      return { type: "addresses", index, ranges: [prefixRange(peer.cidr)], except: peer.except.map(prefixRange) };
    case "names":
      return { type, index, names: peer.names };
  }
}

function byKey(a: { readonly key: string }, b: { readonly key: string }): number {
  return a.key < b.key ? -1 : 1;
}

/** Returns all addresses of a prefix, including the first and the last. */
function prefixRange(cidr: Cidr): PrefixRange {
  return { cidr, first: networkAddress(cidr), last: lastAddress(cidr) };
}

/** Returns whether the range contains the address; never true across families. */
export function isWithin({ first, last }: PrefixRange, address: Address): boolean {
  return typeof first === typeof address && first <= address && address <= last;
}
