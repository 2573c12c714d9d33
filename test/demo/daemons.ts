import type { Cluster } from "../lab/cluster/cluster.ts";

/** What a daemon says of itself, and what it should know. */
export interface DaemonRow {
  readonly node: string;
  readonly version: string;
  readonly isSynced: boolean;
  readonly attachments: number;
  readonly expectedAttachments: number;
  readonly objects: Readonly<Record<string, number>>;
  readonly problems: readonly string[];
}

/** What each daemon says. */
export function daemonRows({ nodes, pods }: Cluster): readonly DaemonRow[] {
  return nodes.map(({ name: node, daemon }) => {
    const { version, isSynced, attachments, objects, problems } = daemon.status();
    const expectedAttachments = pods.filter(({ nodeName }) => nodeName === node).length;
    return { node, version, isSynced, attachments, expectedAttachments, objects, problems };
  });
}

/** Whether a daemon knows exactly the pods of its node, and all it was given. */
export function isDaemonGood({ isSynced, attachments, expectedAttachments, problems }: DaemonRow): boolean {
  return isSynced && attachments === expectedAttachments && problems.length === 0;
}

/** Ends the daemons as an administrator does. @returns those that did not end well, in words */
export async function stopDaemons({ nodes }: Cluster): Promise<readonly string[]> {
  const ends = await Promise.all(nodes.map(async ({ name, daemon }) => ({ name, ...(await daemon.kill("SIGTERM")) })));
  return ends.flatMap(({ name, code, signal }) =>
    code === 0 ? [] : [`policyd of ${name} ended with ${signal ?? code}`],
  );
}
