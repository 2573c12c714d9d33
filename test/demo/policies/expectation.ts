import { isAllowed } from "../../../policyd/policy/evaluate/evaluate.ts";
import type { FlowEnd, Traffic } from "../../../policyd/policy/evaluate/flow.ts";
import type { PolicyIndex } from "../../../policyd/policy/evaluate/policy_index.ts";
import { buildPolicyIndex } from "../../../policyd/policy/evaluate/policy_index.ts";
import { storeOf } from "../../support/evaluate/store.ts";
import type { Expected } from "../matrix.ts";
import { PORT } from "../measure.ts";
import type { NodeName, World } from "../world.ts";
import { NODES } from "../world.ts";

/** The cells of the matrix as the evaluator of policies judges them, by the Kubernetes objects alone. */
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

/** How many pods of each node policies isolate from what they are sent: so many elements its ingress map has in a family. */
export function isolatedPods(world: World, manifests: readonly object[]): Readonly<Record<NodeName, number>> {
  const index = buildPolicyIndex(storeOf(manifests));
  const countOf = (node: NodeName): number =>
    world.pods.filter((pod) => pod.node === node && isIsolated(index, `${pod.podNamespace}/${pod.name}`)).length;
  const [node1, node2] = NODES;
  return { node1: countOf(node1), node2: countOf(node2) };
}

function isIsolated({ pods }: PolicyIndex, key: string): boolean {
  return (pods.get(key)?.subject?.profile.ingress.isolating.length ?? 0) > 0;
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
