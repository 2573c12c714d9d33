import { formatCidr } from "../../../kernel/ip/cidr.ts";
import type { ClusterPolicyPeer, LabelSelector, PodPeer, PolicyPeer } from "../../../objects/model.ts";
import { isEmptySelector } from "../../../policyd/policies/compile/selector.ts";
import { requirementText } from "../../../objects/semantics/policies/print.ts";
import type { PortPattern } from "../../../objects/semantics/policies/indexed_policy.ts";
import { requirementsOf } from "../../../objects/semantics/policies/selector.ts";
import { shortList } from "../../../objects/printable.ts";

/** Returns a selector in kubectl's form, with matchLabels as requirements: `app=web,tier in (a, b)`. */
export function selectorText(selector: LabelSelector): string {
  return requirementsOf(selector).map(requirementText).join(",");
}

/**
 * Returns a peer in words (POL-23).
 *
 * @param own the policy's namespace
 */
export function peerText(peer: PolicyPeer | ClusterPolicyPeer, own: string): string {
  switch (peer.type) {
    case "ipBlock": {
      const without = peer.except.length === 0 ? "" : ` without ${peer.except.map(formatCidr).join(", ")}`;
      return `addresses in ${formatCidr(peer.cidr)}${without}`;
    }
    case "networks":
      return `addresses in ${peer.cidrs.map(formatCidr).join(", ")}`;
    case "names":
      return `the addresses that DNS gives for ${peer.names.join(", ")}`;
    case "nodes":
      return isEmptySelector(peer.selector) ? "all nodes" : `nodes with ${selectorText(peer.selector)}`;
    case "pods":
      return podsText(peer, own);
  }
}

function podsText({ podSelector, namespaceSelector }: PodPeer, own: string): string {
  const isAny = podSelector === undefined || isEmptySelector(podSelector);
  const pods = isAny ? "all pods" : `pods with ${selectorText(podSelector)}`;
  if (namespaceSelector === undefined) return `${pods} in namespace ${own}`;
  if (isEmptySelector(namespaceSelector)) return `${pods} in all namespaces`;
  return `${pods} in namespaces with ${selectorText(namespaceSelector)}`;
}

/** Returns a port of a rule: `80/TCP`, `8000-8080/TCP`, `"http"/TCP`, `all/UDP`. */
export function portText({ protocol, port, endPort }: PortPattern): string {
  const suffix = protocol === undefined ? "" : `/${protocol}`;
  if (port === undefined) return `all${suffix}`;
  if (typeof port === "string") return `${JSON.stringify(port)}${suffix}`;
  return `${port}${endPort === undefined ? "" : `-${endPort}`}${suffix}`;
}

const MOST_NAMED = 3;

/** Returns some names, and the number of the others. */
export function namesText(names: readonly string[]): string {
  return shortList(names, MOST_NAMED);
}
