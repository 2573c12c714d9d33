import { isForeignPolicy } from "../../../policyd/cluster/gate.ts";

/**
 * Kinds, beside policies, by which connections are other than NetworkPolicies and Services have it: they bring pods into networks of
 * their own, or close and redirect what goes out. Each with its group.
 */
const CHANGES_ANSWERS: ReadonlySet<string> = new Set([
  "k8s.ovn.org/UserDefinedNetwork",
  "k8s.ovn.org/ClusterUserDefinedNetwork",
  "k8s.ovn.org/EgressFirewall",
  "network.openshift.io/NetNamespace",
  "cilium.io/CiliumLocalRedirectPolicy",
  "cilium.io/CiliumEgressGatewayPolicy",
]);

/** Whether objects of this kind would change an answer, and are not understood here. */
export function isUnsupportedKind(apiVersion: string, kind: string): boolean {
  const [group = ""] = apiVersion.split("/");
  return isForeignPolicy(apiVersion, kind) || CHANGES_ANSWERS.has(`${group}/${kind}`);
}

/** The refusal of an object of such a kind that is no policy; of policies the gate says it. */
export function unsupportedText(apiVersion: string, kind: string): string {
  return `${kind} of ${JSON.stringify(apiVersion)}: Drawbridge does not know what it does to connections`;
}

/** The way out, for messages. */
export const LEAVE_OUT = "--ignore-unsupported leaves it out";
