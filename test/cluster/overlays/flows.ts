import { Buffer } from "node:buffer";
import { readFlowFile } from "../../../cli/flows/read_file.ts";
import { endText, type FlowRow } from "../../../policyd/flows/row.ts";
import { drawbridge, kubectl, type Materials } from "../cluster.ts";
import { ProgramError, until } from "../run.ts";
import type { RunningCluster } from "../state.ts";

const POLICY = {
  apiVersion: "networking.k8s.io/v1",
  kind: "NetworkPolicy",
  metadata: { name: "flows", namespace: "kube-system" },
  spec: { podSelector: { matchLabels: { "k8s-app": "kube-dns" } }, ingress: [{}] },
};

/**
 * Throws unless `drawbridge flows` names the clients of the cluster's DNS, and `policy status --wait` ends when a
 * policy is in force on every node.
 */
export async function checkFlows(cluster: RunningCluster, materials: Materials): Promise<void> {
  await until("a flow of the cluster's DNS", () => flows(cluster, materials).find(isOfDns), 120);
  kubectl(materials, ["apply", "--filename=-"], JSON.stringify(POLICY));
  const text = drawbridge(cluster, materials, ["policy", "status", "kube-system/flows", "--wait", "--timeout=60s"]);
  if (!/kube-system\/flows +1 +2 of 2 nodes /.test(text)) throw new Error(`policy status: ${text}`);
  kubectl(materials, ["delete", "--filename=-"], JSON.stringify(POLICY));
}

function isOfDns({ from, to }: FlowRow): boolean {
  return [from, to].some((end) => endText(end) === "kube-system/deployment/coredns");
}

/** Reads the flows; none until a daemon has a ledger. */
function flows(cluster: RunningCluster, materials: Materials): readonly FlowRow[] {
  try {
    return readFlowFile([Buffer.from(drawbridge(cluster, materials, ["flows", "-o", "jsonl"]))], "flows");
  } catch (error) {
    if (error instanceof ProgramError) return [];
    throw error;
  }
}
