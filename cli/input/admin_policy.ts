import { stringify } from "yaml";
import { CLUSTER_POLICIES, CLUSTER_POLICY_VERSIONS, judge } from "../../objects/gate/gate.ts";
import { at, listAt, textAt } from "./raw.ts";
import { isObject } from "../../objects/gate/reader.ts";

/** The most elements that a list of a ClusterNetworkPolicy takes (v1alpha1: 100). */
const MOST_ELEMENTS = 25;
const HIGHEST_PRIORITY = 1000;
const ACTIONS = new Map([
  ["Allow", "Accept"],
  ["Deny", "Deny"],
  ["Pass", "Pass"],
]);

/** The ClusterNetworkPolicies that an older policy becomes, in YAML documents, or why there are none. */
export type Conversion =
  | { readonly type: "converted"; readonly yaml: string }
  | { readonly type: "refused"; readonly problem: string };

/**
 * Returns an AdminNetworkPolicy or BaselineAdminNetworkPolicy of policy.networking.k8s.io/v1alpha1 as
 * ClusterNetworkPolicies of the newest version: Allow becomes Accept, the baseline the tier Baseline, and ports
 * protocols. A missing podSelector becomes an empty one, as which Go programs read it. A rule with too many peers or
 * ports becomes several equivalent rules, and a policy with too many rules several policies with adjacent priorities.
 *
 * @returns the first problem where the gate would not accept the result
 */
export function asClusterNetworkPolicies(source: unknown): Conversion {
  const isBaseline = textAt(source, "kind") === "BaselineAdminNetworkPolicy";
  const given = at(source, "spec", "priority");
  const priority = isBaseline ? HIGHEST_PRIORITY : given;
  const name = textAt(source, "metadata", "name");
  if (name === undefined) return { type: "refused", problem: "metadata.name: missing; expected a name" };
  if (typeof priority !== "number") {
    const value = priority === undefined ? "missing" : JSON.stringify(priority);
    return { type: "refused", problem: `spec.priority: ${value}; expected an integer from 0 to ${HIGHEST_PRIORITY}` };
  }
  const ingress = listAt(source, "spec", "ingress").flatMap((rule) => convertRule(rule, "from"));
  const egress = listAt(source, "spec", "egress").flatMap((rule) => convertRule(rule, "to"));
  const count = Math.max(1, Math.ceil(Math.max(ingress.length, egress.length) / MOST_ELEMENTS));
  // The last part of the baseline gets the highest priority.
  const first = isBaseline ? HIGHEST_PRIORITY - count + 1 : priority;
  const parts = Array.from({ length: count }, (_, i) => ({
    apiVersion: `${CLUSTER_POLICIES}/${CLUSTER_POLICY_VERSIONS[0]}`,
    kind: "ClusterNetworkPolicy",
    metadata: { name: count === 1 ? name : `${name}-${i + 1}` },
    spec: {
      tier: isBaseline ? "Baseline" : "Admin",
      priority: first + i,
      subject: withPodSelector(at(source, "spec", "subject")),
      ...partOf("ingress", ingress, i),
      ...partOf("egress", egress, i),
    },
  }));
  const problem = parts.map(problemOf).find((one) => one !== undefined);
  if (problem !== undefined) return { type: "refused", problem };
  const yaml = parts.map((part) => stringify(part, { aliasDuplicateObjects: false })).join("---\n");
  return { type: "converted", yaml };
}

/** Returns why the gate does not accept a ClusterNetworkPolicy whole, without its name and the consequence. */
function problemOf(policy: object): string | undefined {
  const verdict = judge(policy);
  if (verdict.type === "ignored") return undefined;
  const problem = verdict.type === "refused" ? verdict.problem : verdict.problems[0];
  return problem?.replace(/^ClusterNetworkPolicy \S+: /, "").replace(/ \([^()]+\)$/, "");
}

function partOf(direction: string, rules: readonly object[], i: number): object {
  const part = rules.slice(i * MOST_ELEMENTS, (i + 1) * MOST_ELEMENTS);
  return part.length === 0 ? {} : { [direction]: part };
}

function convertRule(rule: unknown, key: "from" | "to"): readonly object[] {
  const name = textAt(rule, "name");
  const action = textAt(rule, "action") ?? "";
  const ports = listAt(rule, "ports").map(convertPort);
  const protocols = ports.length === 0 ? [undefined] : chunksOf(ports);
  return chunksOf(listAt(rule, key).map(withPodSelector)).flatMap((peers) =>
    protocols.map((chunk) => ({
      ...(name === undefined ? {} : { name }),
      action: ACTIONS.get(action) ?? action,
      [key]: peers,
      ...(chunk === undefined ? {} : { protocols: chunk }),
    })),
  );
}

/** Returns a subject or a peer with the podSelector that its member `pods` has to have. */
function withPodSelector(peer: unknown): unknown {
  const pods = at(peer, "pods");
  if (!isObject(peer) || !isObject(pods) || at(pods, "podSelector") !== undefined) return peer;
  return { ...peer, pods: { ...pods, podSelector: {} } };
}

function convertPort(port: unknown): unknown {
  const name = textAt(port, "namedPort");
  if (name !== undefined) return { destinationNamedPort: name };
  const [number, range] = [at(port, "portNumber"), at(port, "portRange")];
  const [start, end] = [at(range, "start"), at(range, "end")];
  const protocol = textAt(number ?? range, "protocol") ?? "TCP";
  const isOne = number !== undefined || start === end;
  const destinationPort = isOne ? { number: at(number, "port") ?? start } : { range: { start, end } };
  return { [protocol.toLowerCase()]: { destinationPort } };
}

function chunksOf(elements: readonly unknown[]): readonly (readonly unknown[])[] {
  const count = Math.max(1, Math.ceil(elements.length / MOST_ELEMENTS));
  return Array.from({ length: count }, (_, i) => elements.slice(i * MOST_ELEMENTS, (i + 1) * MOST_ELEMENTS));
}
