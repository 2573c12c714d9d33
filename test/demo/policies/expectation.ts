import { isAllowed } from "../../../objects/semantics/policies/evaluate.ts";
import type { FlowEnd, Traffic } from "../../../objects/semantics/policies/flow.ts";
import { buildPolicyIndex } from "../../../objects/semantics/policies/policy_index.ts";
import { storeOf } from "../../support/evaluate/store.ts";
import type { Expected } from "../matrix.ts";
import { type DemoPod, type NodeName, NODES, PORT, type World } from "../world.ts";

/** Returns the cells of the matrix with the verdicts of the policies' evaluator, from only the Kubernetes objects. */
export function expectedUnderPolicies(
  world: World,
  cells: readonly Expected[],
  manifests: readonly object[],
): readonly Expected[] {
  const index = buildPolicyIndex(storeOf(manifests));
  const endOf = (name: string): FlowEnd => {
    const pod = world.pods.find((one) => one.name === name);
    return pod === undefined ? { type: "node", name } : { type: "pod", key: `${pod.podNamespace}/${name}` };
  };
  return cells.map((cell) => {
    const ends = { source: endOf(cell.source), destination: endOf(cell.target), family: cell.family };
    return { ...cell, reached: isAllowed(index, { ...ends, ...trafficOf(cell) }) };
  });
}

/**
 * Returns the number of pods of each node that policies isolate in a direction, which is the number of elements of its
 * map in a family.
 */
export function isolatedPods(
  { pods }: World,
  manifests: readonly object[],
  direction: "ingress" | "egress",
): ReadonlyMap<NodeName, number> {
  const index = buildPolicyIndex(storeOf(manifests));
  const isIsolated = ({ podNamespace, name }: DemoPod): boolean =>
    (index.pods.get(`${podNamespace}/${name}`)?.subject?.profile[direction].isolating.length ?? 0) > 0;
  return new Map(NODES.map((node) => [node, pods.filter((pod) => pod.node === node && isIsolated(pod)).length]));
}

function trafficOf({ protocol }: Expected): Traffic {
  switch (protocol) {
    case "tcp":
      return { protocol: "TCP", port: PORT };
    case "udp":
      return { protocol: "UDP", port: PORT };
    case "sctp":
      return { protocol: "SCTP", port: PORT };
    default:
      return { protocol: "ICMP" };
  }
}
