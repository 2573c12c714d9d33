import { kubectl, type Materials } from "../cluster.ts";
import { enter } from "../node/processes.ts";
import { ProgramError, until } from "../run.ts";
import type { RunningCluster, RunningNode } from "../state.ts";

const MESSAGE = "may patch the status of its own Node";
const CONDITION = '{.status.conditions[?(@.type=="NetworkUnavailable")].status}';

/** Gives every Node the condition that some clouds give new ones. */
export function makeNetworkUnavailable({ nodes }: RunningCluster, materials: Materials): void {
  const now = new Date().toISOString();
  const condition = {
    type: "NetworkUnavailable",
    status: "True",
    reason: "NoRouteCreated",
    message: "made by the test",
    lastHeartbeatTime: now,
    lastTransitionTime: now,
  };
  const patch = JSON.stringify({ status: { conditions: [condition] } });
  for (const { name } of nodes) kubectl(materials, ["patch", "node", name, "--subresource=status", `--patch=${patch}`]);
}

/** Throws unless each daemon has cleared its Node's condition, and may not write another Node's status. */
export async function checkOwnNodeStatus({ nodes }: RunningCluster, materials: Materials): Promise<void> {
  for (const { name } of nodes) {
    await until(
      `NetworkUnavailable of ${name} to be false`,
      () =>
        kubectl(materials, ["get", "node", name, `--output=jsonpath=${CONDITION}`]) === "False" ? true : undefined,
      60,
    );
  }
  const [own, other] = nodes;
  if (own === undefined || other === undefined) throw new Error("the check needs two nodes");
  const token = tokenOf(own, materials);
  patchStatus(own, own, token);
  try {
    patchStatus(own, other, token);
  } catch (error) {
    if (error instanceof ProgramError && error.message.includes(MESSAGE)) return;
    throw error;
  }
  throw new Error(`the daemon of ${own.name} may patch the status of ${other.name}`);
}

/** Makes a token like the kubelet's for the daemon's pod of this node. */
function tokenOf({ name }: RunningNode, materials: Materials): string {
  const pods = [
    "get",
    "pods",
    "--selector=app.kubernetes.io/name=drawbridge",
    `--field-selector=spec.nodeName=${name}`,
  ];
  const pod = kubectl(materials, ["-n", "kube-system", ...pods, "--output=jsonpath={.items[0].metadata.name}"]);
  const bound = ["--bound-object-kind=Pod", `--bound-object-name=${pod}`];
  return kubectl(materials, ["-n", "kube-system", "create", "token", "drawbridge", ...bound]).trim();
}

/** Sends the PATCH as the daemon does: kubectl would read the status first, which the daemon may not. */
function patchStatus(from: RunningNode, { name }: RunningNode, token: string): void {
  const patch = JSON.stringify({ metadata: { annotations: { "drawbridge.test/patched": "true" } } });
  enter("node", from.first, [
    "curl",
    "--silent",
    "--show-error",
    "--fail-with-body",
    "--cacert",
    "/etc/kubernetes/pki/ca.crt",
    "--request",
    "PATCH",
    "--header",
    `Authorization: Bearer ${token}`,
    "--header",
    "Content-Type: application/strategic-merge-patch+json",
    "--data",
    patch,
    `https://node1:6443/api/v1/nodes/${name}/status`,
  ]);
}
