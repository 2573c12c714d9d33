import { formatCidr } from "../../../kernel/ip/cidr.ts";
import type { Indexed, LabelSelector, NetworkPolicy, PolicyPeer, PolicyRule } from "../../../objects/model.ts";

/** The gate omits an element that is not an object, in any list. */
const OMITTED = "omitted";

type Element = object | typeof OMITTED;

/**
 * Returns a NetworkPolicy as the API has it; the gate makes the same policy of it again. In place of each element that
 * the gate omitted stands a string, which it omits again. A list of only invalid elements must not become an
 * empty one, which means everyone, and null is an element without members, which means everyone, too.
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
      // The annotation has the rules of names, and the gate makes them of it again.
      egress: listOf(
        egress.filter(({ peers }) => peers?.some(({ type }) => type === "names") !== true),
        (rule) => ruleManifest(rule, "to"),
      ),
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
  if (peer.type === "names") return {};
  const { podSelector, namespaceSelector } = peer;
  return {
    podSelector: podSelector && selectorManifest(podSelector),
    namespaceSelector: namespaceSelector && selectorManifest(namespaceSelector),
  };
}

function selectorManifest({ matchLabels, matchExpressions }: LabelSelector): object {
  return { matchLabels, matchExpressions };
}

/** Returns a list with the elements at their original indexes. */
function listOf<T extends Indexed>(elements: readonly T[], print: (element: T) => object): readonly Element[] {
  const length = elements.reduce((most, { index }) => Math.max(most, index + 1), 0);
  const list = Array.from({ length }, (): Element => OMITTED);
  for (const element of elements) list[element.index] = print(element);
  return list;
}

function invalidAlone(list: readonly Element[]): readonly Element[] {
  return list.length === 0 ? [OMITTED] : list;
}
