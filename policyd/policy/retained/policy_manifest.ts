import { formatCidr } from "../../../kernel/ip/cidr.ts";
import type { Indexed, LabelSelector, NetworkPolicy, PolicyPeer, PolicyRule } from "../../cluster/model.ts";

/**
 * A NetworkPolicy as the API has it: the gate makes the same of it again. In place of what the gate has left out stands
 * null, which it leaves out again: a list of nothing but invalid elements must not become an empty one, which is everyone.
 */
export function policyManifest(policy: NetworkPolicy): object {
  const { namespace, name, annotations, podSelector, policyTypes, ingress, egress } = policy;
  return {
    apiVersion: "networking.k8s.io/v1",
    kind: policy.kind,
    metadata: { namespace, name, annotations },
    spec: {
      podSelector: selectorManifest(podSelector),
      policyTypes,
      ingress: listOf(ingress, (rule) => ruleManifest(rule, "from")),
      egress: listOf(egress, (rule) => ruleManifest(rule, "to")),
    },
  };
}

function ruleManifest({ peers, ports }: PolicyRule, field: "from" | "to"): object {
  return {
    [field]: peers && invalidAlone(listOf(peers, peerManifest)),
    ports: ports && invalidAlone(listOf(ports, ({ protocol, port, endPort }) => ({ protocol, port, endPort }))),
  };
}

function peerManifest(peer: PolicyPeer): object {
  if (peer.type === "ipBlock") {
    return { ipBlock: { cidr: formatCidr(peer.cidr), except: peer.except.map(formatCidr) } };
  }
  const { podSelector, namespaceSelector } = peer;
  return {
    podSelector: podSelector && selectorManifest(podSelector),
    namespaceSelector: namespaceSelector && selectorManifest(namespaceSelector),
  };
}

function selectorManifest({ matchLabels, matchExpressions }: LabelSelector): object {
  return { matchLabels, matchExpressions };
}

/** The elements at their places. */
function listOf<T extends Indexed>(elements: readonly T[], print: (element: T) => object): readonly (object | null)[] {
  const length = elements.reduce((most, { index }) => Math.max(most, index + 1), 0);
  const list = Array.from({ length }, (): object | null => null);
  for (const element of elements) list[element.index] = print(element);
  return list;
}

function invalidAlone(list: readonly (object | null)[]): readonly (object | null)[] {
  return list.length === 0 ? [null] : list;
}
