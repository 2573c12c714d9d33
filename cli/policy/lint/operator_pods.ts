import type { ClusterPolicyPeer, Pod, PodPeer, PolicyPeer } from "../../../policyd/cluster/model.ts";
import type { LintContext } from "./context.ts";
import { requirementsOf } from "./coverage.ts";

/** Whose labels everybody writes: Kubernetes' own, and those of the tools that make manifests. */
const COMMON_DOMAINS = ["kubernetes.io", "k8s.io", "helm.sh"];

/**
 * Whether a selector is for pods that an operator creates, which are in no file: it asks for a label of a domain, as
 * `strimzi.io/cluster`, and none of the pods has a label of this domain.
 *
 * A misspelt label is not taken for one: then its domain is that of other labels.
 */
export function isOfOperator(
  { labelDomains }: LintContext,
  peer: PolicyPeer | ClusterPolicyPeer | Pick<PodPeer, "podSelector">,
): boolean {
  const selector = "podSelector" in peer ? peer.podSelector : undefined;
  if (selector === undefined) return false;
  const domains = requirementsOf(selector).flatMap(({ key, operator }) =>
    operator === "In" || operator === "Exists" ? [domainOf(key)] : [],
  );
  return domains.some((domain) => domain !== "" && !isCommon(domain) && !labelDomains.has(domain));
}

/** The domains of the labels that some pods have: `strimzi.io` of `strimzi.io/cluster`, empty of `app`. */
export function labelDomainsOf(pods: readonly Pod[]): ReadonlySet<string> {
  return new Set(pods.flatMap(({ labels }) => Object.keys(labels).map(domainOf)));
}

function domainOf(key: string): string {
  const slash = key.indexOf("/");
  return slash < 0 ? "" : key.slice(0, slash);
}

function isCommon(domain: string): boolean {
  return COMMON_DOMAINS.some((one) => domain === one || domain.endsWith(`.${one}`));
}
