import type { LabNamespace } from "../../../lab/namespace.ts";
import type { DaemonProcess } from "../../daemon/policyd.ts";
import { scrape, scrapeWhen } from "../../daemon/scrape.ts";

const STATE = ["drawbridge_synced", "drawbridge_elements", "drawbridge_sync_commits_total"] as const;

const COMPLAINTS = ["drawbridge_sync_failures_total", "drawbridge_sync_repairs_total"] as const;

/** A daemon and the node where it runs. */
export interface WatchedDaemon {
  readonly process: DaemonProcess;
  readonly node: LabNamespace;
}

/** Returns the number of objects of each kind. */
export function countKinds(objects: readonly object[]): Readonly<Record<string, number>> {
  const counts: Record<string, number> = {};
  for (const object of objects) {
    const kind = "kind" in object ? String(object.kind) : "";
    counts[kind] = (counts[kind] ?? 0) + 1;
  }
  return counts;
}

/**
 * Resolves when a daemon has objects of these numbers and the kernel has everything that follows from them.
 *
 * @throws Error when that does not happen
 */
export async function untilInForce(
  { process, node }: WatchedDaemon,
  counts: Readonly<Record<string, number>>,
): Promise<void> {
  await process.statusWhen(
    ({ objects }) => Object.entries(objects).every(([kind, count]) => count === (counts[kind] ?? 0)),
    `objects ${JSON.stringify(counts)} of ${node.name}`,
  );
  let last = "";
  await scrapeWhen(
    node,
    (values) => {
      const state = STATE.map((name) => `${name} ${values.get(name)}`).join(", ");
      // Consumers of the policies, such as the cuts, work in turns of their own, so two answers of the daemon have to
      // be equal.
      const isStill = state === last;
      last = state;
      return isStill && values.get("drawbridge_synced") === 1;
    },
    "everything in force",
  );
}

/**
 * Returns the daemon's operations that the kernel refused or that had to be repeated, with its log; nothing where there
 * are none.
 */
export function complaintsOf({ process, node }: WatchedDaemon): readonly string[] {
  const values = scrape(node);
  const bad = COMPLAINTS.filter((name) => values.get(name) !== 0).map(
    (name) => `${node.name} ${name} ${values.get(name)}`,
  );
  return bad.length === 0 ? [] : [...bad, process.log()];
}
