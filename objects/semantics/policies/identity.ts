import type {
  ClusterNetworkPolicy,
  ClusterPolicyPeer,
  ClusterPolicyRule,
  Labels,
  LabelSelector,
  Namespace,
  NetworkPolicy,
  Pod,
  PolicyPeer,
  PolicyRule,
} from "../../model.ts";
import { nameLabel } from "../../name.ts";
import { keysOf } from "./selector.ts";

/** Pods that no selector of any policy distinguishes: of one namespace, with equal values of labels in selectors. */
export interface Identity {
  readonly number: number;
  readonly namespace: string;
  readonly namespaceLabels: Labels;
  readonly labels: Labels;
}

/** Gives each pod the number of its identity: some hundreds of identities represent ten thousand pods. */
export class IdentityTable {
  readonly #namespaces: ReadonlyMap<string, Namespace>;
  /** The keys of labels that selectors use, by the only namespace they select in, or undefined for all namespaces. */
  readonly #keys = new Map<string | undefined, Set<string>>([[undefined, new Set()]]);
  readonly #identities: Identity[] = [];
  readonly #numbers = new Map<string, number>();

  constructor(namespaces: ReadonlyMap<string, Namespace>, policies: readonly (NetworkPolicy | ClusterNetworkPolicy)[]) {
    this.#namespaces = namespaces;
    for (const { selector, namespace } of policies.flatMap(podSelectors)) {
      const keys = this.#keys.get(namespace) ?? new Set();
      this.#keys.set(namespace, keys);
      for (const key of keysOf(selector)) keys.add(key);
    }
  }

  numberOf({ namespace, labels }: Pod): number {
    // Neither namespaces nor labels contain a line end, and labels come in the order of their keys.
    let signature = namespace;
    const [everywhere, here] = [this.#keys.get(undefined), this.#keys.get(namespace)];
    for (const key in labels) {
      if (everywhere?.has(key) === true || here?.has(key) === true) signature += `\n${key}=${labels[key]}`;
    }
    const known = this.#numbers.get(signature);
    if (known !== undefined) return known;
    const number = this.#identities.length;
    const namespaceLabels = this.#namespaces.get(namespace)?.labels ?? nameLabel(namespace);
    this.#identities.push({ number, namespace, namespaceLabels, labels });
    this.#numbers.set(signature, number);
    return number;
  }

  all(): readonly Identity[] {
    return this.#identities;
  }
}

/** A selector of pods, in one namespace or in any. */
interface PodSelector {
  readonly selector: LabelSelector;
  readonly namespace: string | undefined;
}

/** Returns the selectors of a policy's subject and peers. */
function podSelectors(policy: NetworkPolicy | ClusterNetworkPolicy): readonly PodSelector[] {
  const own = policy.kind === "NetworkPolicy" ? policy.namespace : undefined;
  const subject = policy.kind === "NetworkPolicy" ? policy.podSelector : policy.subject.podSelector;
  const rules: readonly (PolicyRule | ClusterPolicyRule)[] = [...policy.ingress, ...policy.egress];
  const peers = rules.flatMap((rule): readonly (PolicyPeer | ClusterPolicyPeer)[] => rule.peers ?? []);
  const ofPeers = peers.flatMap((peer) => {
    if (peer.type !== "pods" || peer.podSelector === undefined) return [];
    return [{ selector: peer.podSelector, namespace: peer.namespaceSelector === undefined ? own : undefined }];
  });
  return subject === undefined ? ofPeers : [{ selector: subject, namespace: own }, ...ofPeers];
}
