import { type Cidr, cidrContains } from "../../../kernel/ip/cidr.ts";
import type {
  ClusterPolicyPeer,
  ClusterPolicyRule,
  IpBlockPeer,
  LabelRequirement,
  Labels,
  LabelSelector,
  PodPeer,
  PolicyPeer,
  PolicyRule,
} from "../../../objects/model.ts";
import type { PortPattern } from "../../../objects/semantics/policies/indexed_policy.ts";
import { requirementsOf, selects } from "../../../objects/semantics/policies/selector.ts";

// The functions here use only the text of the objects, so their results stay true for any pods. A "no" may be wrong,
// but a "yes" never is: something that only several together cover counts as not covered.

/** Returns whether a selector selects everything that another does; undefined selects everything. */
export function selectorCovers(outer: LabelSelector | undefined, inner: LabelSelector | undefined): boolean {
  const given = inner === undefined ? [] : requirementsOf(inner);
  const asked = outer === undefined ? [] : requirementsOf(outer);
  return asked.every((one) => given.some((other) => implies(other, one)));
}

/** Returns whether labels that meet the first requirement also meet the second. */
function implies(given: LabelRequirement, asked: LabelRequirement): boolean {
  if (given.key !== asked.key) return false;
  switch (asked.operator) {
    case "In":
      return given.operator === "In" && given.values.every((value) => asked.values.includes(value));
    case "Exists":
      return given.operator === "In" || given.operator === "Exists";
    case "DoesNotExist":
      return given.operator === "DoesNotExist";
    case "NotIn":
      if (given.operator === "In") return !given.values.some((value) => asked.values.includes(value));
      if (given.operator === "NotIn") return asked.values.every((value) => given.values.includes(value));
      return given.operator === "DoesNotExist";
  }
}

type AnyRule = Pick<PolicyRule | ClusterPolicyRule, "peers" | "ports">;

/**
 * Returns whether a rule allows everything that another does.
 *
 * @param ownLabels the labels of the namespace of both policies; undefined for cluster-wide policies
 */
export function ruleCovers(outer: AnyRule, inner: AnyRule, ownLabels: Labels | undefined): boolean {
  return peersCover(outer.peers, inner.peers, ownLabels) && portsCover(outer.ports, inner.ports);
}

/** Returns whether a rule is for every peer and every port. */
export function isAllowAll({ peers, ports }: AnyRule): boolean {
  return peers === undefined && ports === undefined;
}

function peersCover(outer: AnyRule["peers"], inner: AnyRule["peers"], ownLabels: Labels | undefined): boolean {
  if (outer === undefined || inner === undefined) return outer === undefined;
  return inner.every((one) => outer.some((other) => peerCovers(other, one, ownLabels)));
}

type AnyPeer = PolicyPeer | ClusterPolicyPeer;

function peerCovers(outer: AnyPeer, inner: AnyPeer, ownLabels: Labels | undefined): boolean {
  if (outer.type === "pods") return inner.type === "pods" && podsCover(outer, inner, ownLabels);
  if (outer.type === "ipBlock") return inner.type === "ipBlock" && blockCovers(outer, inner);
  if (outer.type === "nodes") return inner.type === "nodes" && selectorCovers(outer.selector, inner.selector);
  if (outer.type === "names") return inner.type === "names" && inner.names.every((one) => outer.names.includes(one));
  return inner.type === "networks" && inner.cidrs.every((one) => outer.cidrs.some((other) => cidrCovers(other, one)));
}

function podsCover(outer: PodPeer, inner: PodPeer, ownLabels: Labels | undefined): boolean {
  if (!selectorCovers(outer.podSelector, inner.podSelector)) return false;
  const [wide, narrow] = [outer.namespaceSelector, inner.namespaceSelector];
  if (wide === undefined) return narrow === undefined;
  if (narrow !== undefined) return selectorCovers(wide, narrow);
  return ownLabels !== undefined && selects(wide, ownLabels);
}

function blockCovers(outer: IpBlockPeer, inner: IpBlockPeer): boolean {
  if (!cidrCovers(outer.cidr, inner.cidr)) return false;
  const taken = outer.except.filter((one) => cidrCovers(inner.cidr, one) || cidrCovers(one, inner.cidr));
  return taken.every((one) => inner.except.some((other) => cidrCovers(other, one)));
}

/** Returns whether a prefix contains all addresses of another. */
export function cidrCovers(outer: Cidr, inner: Cidr): boolean {
  return outer.prefixLength <= inner.prefixLength && cidrContains(outer, inner.address);
}

/** Returns whether ports contain all of others; undefined stands for every port of every protocol. */
export function portsCover(
  outer: readonly PortPattern[] | undefined,
  inner: readonly PortPattern[] | undefined,
): boolean {
  if (outer === undefined || inner === undefined) return outer === undefined;
  return inner.every((one) => outer.some((other) => portCovers(other, one)));
}

function portCovers(outer: PortPattern, inner: PortPattern): boolean {
  if (outer.protocol !== inner.protocol) return false;
  if (outer.port === undefined) return true;
  if (typeof outer.port === "string") return outer.port === inner.port;
  if (typeof inner.port !== "number") return false;
  return outer.port <= inner.port && (inner.endPort ?? inner.port) <= (outer.endPort ?? outer.port);
}
