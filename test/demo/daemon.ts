import path from "node:path";
import type { PolicydStatus } from "../../ipam/policyd_messages.ts";
import type { Lab } from "../lab/lab.ts";
import type { TwoNodes } from "../lab/topology.ts";
import type { DaemonProcess } from "../support/policyd.ts";
import { startDaemon } from "../support/policyd.ts";
import type { Cluster } from "./cluster.ts";
import type { Ground, NodeName, World } from "./world.ts";
import { NODES } from "./world.ts";

/** A node's policyd, as built. */
export interface NodeDaemon {
  readonly process: DaemonProcess;
  readonly socketPath: string;
}

/** What a daemon says of itself, and what it should know. */
export interface DaemonRow {
  readonly node: NodeName;
  readonly version: string;
  readonly isSynced: boolean;
  readonly attachments: number;
  readonly expectedAttachments: number;
  readonly objects: Readonly<Record<string, number>>;
  readonly problems: readonly string[];
}

/**
 * Starts a daemon in each node's namespace. They end with the lab at the latest.
 *
 * @returns when both have read all objects
 * @throws Error with its log when one does not come up
 */
export async function startDaemons(lab: Lab, nodes: TwoNodes, cluster: Cluster): Promise<Ground["daemons"]> {
  const start = (name: NodeName): NodeDaemon => {
    const { node } = nodes[name];
    const socketPath = path.join(lab.scratch, name, "policyd", "policyd.sock");
    const process = startDaemon(socketPath, [
      `--node-name=${name}`,
      `--objects=${cluster.directory}`,
      `--state-directory=${node.runDir}`,
      `--network-namespace=${node.path}`,
      // The router between the nodes knows their pods.
      "--encapsulation=never",
    ]);
    lab.atEnd(() => void process.child.kill("SIGKILL"));
    return { process, socketPath };
  };
  const daemons = { node1: start("node1"), node2: start("node2") };
  await Promise.all(
    NODES.map((name) => daemons[name].process.statusWhen(({ isSynced }) => isSynced, `policyd of ${name} is synced`)),
  );
  return daemons;
}

/** What each daemon says once it has seen all pods of the cluster. @throws Error when one does not see them */
export async function daemonRows(world: World): Promise<readonly DaemonRow[]> {
  return await Promise.all(
    NODES.map(async (node): Promise<DaemonRow> => {
      const hasSeenAll = ({ objects }: PolicydStatus): boolean => objects["Pod"] === world.pods.length;
      const status = await world.daemons[node].process.statusWhen(hasSeenAll, `policyd of ${node} has seen all pods`);
      const { version, isSynced, attachments, objects, problems } = status;
      const expectedAttachments = world.pods.filter((pod) => pod.node === node).length;
      return { node, version, isSynced, attachments, expectedAttachments, objects, problems };
    }),
  );
}

/** Whether a daemon knows exactly the pods of its node, and all it was given. */
export function isDaemonGood({ isSynced, attachments, expectedAttachments, problems }: DaemonRow): boolean {
  return isSynced && attachments === expectedAttachments && problems.length === 0;
}

/** Ends the daemons as an administrator does. @returns those that did not end well, in words */
export async function stopDaemons({ daemons }: Ground): Promise<readonly string[]> {
  const ends = await Promise.all(
    NODES.map(async (node) => ({ node, ...(await daemons[node].process.kill("SIGTERM")) })),
  );
  return ends.flatMap(({ node, code, signal }) =>
    code === 0 ? [] : [`policyd of ${node} ended with ${signal ?? code}`],
  );
}
