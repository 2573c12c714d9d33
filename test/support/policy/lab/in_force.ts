import { setTimeout as pause } from "node:timers/promises";
import { parseAddress } from "../../../../kernel/ip/address.ts";
import type { LabNamespace } from "../../../lab/namespace.ts";
import { ProbeSocket, SocketType } from "../../../lab/probe/socket.ts";
import type { DaemonProcess } from "../../daemon/policyd.ts";

const METRICS = { address: parseAddress("127.0.0.1"), port: 9873 };
const REQUEST = new TextEncoder().encode("GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
const PATIENCE_MILLISECONDS = 60_000;
/** The time between two questions, in which the daemon can work. */
const INTERVAL_MILLISECONDS = 5;
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
  const deadline = performance.now() + PATIENCE_MILLISECONDS;
  let last = "";
  for (;;) {
    const values = await readMetrics(node);
    const state = STATE.map((name) => `${name} ${values.get(name)}`).join(", ");
    // Consumers of the policies, such as the cuts, work in turns of their own, so two answers of the daemon have to be
    // equal.
    if (values.get("drawbridge_synced") === 1 && state === last) return;
    if (performance.now() > deadline) throw new Error(`${node.name}: not in force: ${state}\n${process.log()}`);
    last = state;
    await pause(INTERVAL_MILLISECONDS);
  }
}

/**
 * Returns the daemon's operations that the kernel refused or that had to be repeated, with its log; nothing where there
 * are none.
 */
export async function complaintsOf({ process, node }: WatchedDaemon): Promise<readonly string[]> {
  const values = await readMetrics(node);
  const bad = COMPLAINTS.filter((name) => values.get(name) !== 0).map(
    (name) => `${node.name} ${name} ${values.get(name)}`,
  );
  return bad.length === 0 ? [] : [...bad, process.log()];
}

/** Reads the metrics of a node's daemon, by name and labels as they are printed. */
export async function readMetrics(node: LabNamespace): Promise<ReadonlyMap<string, number>> {
  const socket = ProbeSocket.open(node, 4, SocketType.STREAM);
  try {
    socket.connect(METRICS);
    const deadline = performance.now() + PATIENCE_MILLISECONDS;
    let text = "";
    let isAsked = false;
    for (;;) {
      isAsked ||= socket.send(REQUEST) === REQUEST.length;
      const next = socket.receive();
      if (next.kind === "data") text += Buffer.from(next.data).toString("latin1");
      else if (isAsked && next.kind === "end") return valuesIn(text);
      else if (performance.now() > deadline) throw new Error(`${node.name}: no metrics`);
      else await pause(1);
    }
  } finally {
    socket.close();
  }
}

function valuesIn(page: string): ReadonlyMap<string, number> {
  const lines = page.split("\n").filter((line) => line.startsWith("drawbridge_"));
  return new Map(
    lines.map((line) => {
      const space = line.lastIndexOf(" ");
      return [line.slice(0, space), Number(line.slice(space + 1))];
    }),
  );
}
