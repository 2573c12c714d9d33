import type { Cluster } from "../lab/cluster/cluster.ts";

/** The status of a daemon, and what it should have. */
export interface DaemonRow {
  readonly node: string;
  readonly version: string;
  readonly isSynced: boolean;
  readonly attachments: number;
  readonly expectedAttachments: number;
  readonly objects: Readonly<Record<string, number>>;
  readonly problems: readonly string[];
}

/** Returns the status of each daemon. */
export function daemonRows({ nodes, pods }: Cluster): readonly DaemonRow[] {
  return nodes.map(({ name: node, daemon }) => {
    const { version, isSynced, attachments, objects, problems } = daemon.status();
    const expectedAttachments = pods.filter(({ nodeName }) => nodeName === node).length;
    return { node, version, isSynced, attachments, expectedAttachments, objects, problems };
  });
}

/** Whether a daemon has exactly the pods of its node, and all objects that it was given. */
export function isDaemonGood({ isSynced, attachments, expectedAttachments, problems }: DaemonRow): boolean {
  return isSynced && attachments === expectedAttachments && problems.length === 0;
}

/** Ends the daemons as an administrator does. @returns descriptions of those that did not end well */
export async function stopDaemons({ nodes }: Cluster): Promise<readonly string[]> {
  const ends = await Promise.all(nodes.map(async ({ name, daemon }) => ({ name, ...(await daemon.kill("SIGTERM")) })));
  return ends.flatMap(({ name, code, signal }) =>
    code === 0 ? [] : [`policyd of ${name} ended with ${signal ?? code}`],
  );
}
