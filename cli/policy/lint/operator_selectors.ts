import type { ClusterPolicyPeer, Pod, PodPeer, PolicyPeer } from "../../../objects/model.ts";
import type { LintContext } from "./context.ts";
import { requirementsOf } from "../../../objects/semantics/policies/selector.ts";

/** Domains of Kubernetes itself and of tools that make manifests; their labels are in everybody's objects. */
const COMMON_DOMAINS = ["kubernetes.io", "k8s.io", "helm.sh"];

/**
 * Returns whether a selector is for pods that an operator creates and that are in no file: it requires a label with a
 * domain, such as `strimzi.io/cluster`, and no pod has a label of this domain; or the files have an object of the kind
 * that a label names, as a Prometheus for `app.kubernetes.io/name=prometheus`.
 *
 * A misspelt label does not count, since other labels have its domain.
 */
export function isOfOperator(
  { labelDomains, manifests }: LintContext,
  peer: PolicyPeer | ClusterPolicyPeer | Pick<PodPeer, "podSelector">,
): boolean {
  const selector = "podSelector" in peer ? peer.podSelector : undefined;
  if (selector === undefined) return false;
  const required = requirementsOf(selector).filter(({ operator }) => operator === "In" || operator === "Exists");
  const kinds = new Set([...manifests.reading.unread.keys()].map((kind) => kind.toLowerCase()));
  const isKind = (word: string): boolean => kinds.has(word.replaceAll("-", "").toLowerCase());
  if (required.some(({ key, values }) => isKind(key) || values.some(isKind))) return true;
  const domains = requirementsOf(selector).flatMap(({ key, operator }) =>
    operator === "In" || operator === "Exists" ? [domainOf(key)] : [],
  );
  return domains.some((domain) => domain !== "" && !isCommon(domain) && !labelDomains.has(domain));
}

/** Returns the domains in the keys of some pods' labels: `strimzi.io` for `strimzi.io/cluster`, empty for `app`. */
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
