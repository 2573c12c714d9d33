import { groupOf, isForeignPolicy } from "../../../objects/gate/gate.ts";

/**
 * Kinds, with their groups, by which connections differ from what NetworkPolicies and Services say: they bring pods
 * into networks of their own, or block and redirect outgoing connections. Policies are not among them.
 */
const CHANGES_ANSWERS: ReadonlySet<string> = new Set([
  "k8s.ovn.org/UserDefinedNetwork",
  "k8s.ovn.org/ClusterUserDefinedNetwork",
  "k8s.ovn.org/EgressFirewall",
  "network.openshift.io/NetNamespace",
  "cilium.io/CiliumLocalRedirectPolicy",
  "cilium.io/CiliumEgressGatewayPolicy",
]);

/** Returns whether a kind would change an answer but is not understood here. */
export function isUnsupportedKind(apiVersion: string, kind: string): boolean {
  return isForeignPolicy(apiVersion, kind) || CHANGES_ANSWERS.has(`${groupOf(apiVersion)}/${kind}`);
}

/** Returns the message for such a kind other than a policy; for policies the gate has its own. */
export function unsupportedText(apiVersion: string, kind: string): string {
  return `${kind} of ${JSON.stringify(apiVersion)}: Drawbridge does not know what it does to connections`;
}

/** Kinds that also decide on connections and are not read, each with its consequence for the answer. */
const NAMED: ReadonlyMap<string, string> = new Map([
  ["security.istio.io/AuthorizationPolicy", "Istio may deny what is allowed here"],
  ["policy.linkerd.io/AuthorizationPolicy", "Linkerd may deny what is allowed here"],
  ["policy.linkerd.io/ServerAuthorization", "Linkerd may deny what is allowed here"],
  ["route.openshift.io/Route", "a way in by it is not known"],
  ["cilium.io/CiliumEnvoyConfig", "Cilium may lead connections elsewhere"],
]);

/** Returns a note about a kind that also decides on connections and is not read; undefined for any other. */
export function namedText(apiVersion: string, kind: string, name: string): string | undefined {
  const consequence = NAMED.get(`${groupOf(apiVersion)}/${kind}`);
  return consequence === undefined ? undefined : `${kind} ${name}: not read; ${consequence}`;
}

/** The way out, for messages. */
export const OMIT = "--ignore-unsupported omits it";
