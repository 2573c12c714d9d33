import { setTimeout as wait } from "node:timers/promises";
import { parseNotification } from "../../../kernel/nftables/decode/notification.ts";
import { startNotificationThread } from "../../../kernel/notifications/thread.ts";
import type { Lab } from "../../lab/lab.ts";
import { quantile } from "../statistics.ts";
import { benchServices, changesOf, type ClusterSize, sizeText, sliceChange, withFirstReplaced } from "./cluster.ts";
import { Ours } from "./ours.ts";
import { found, type Row } from "../row.ts";

const PER_SECOND = 100;
const GOAL = 20;
const PATIENCE_MILLISECONDS = 30_000;

/**
 * Measures the time from an object's arrival at the component until this process has received the kernel's notification
 * of the commit, with changes at a steady rate and a minSyncPeriod of 0. The daemon's own timers decide when a batch is
 * made.
 */
export async function eventToCommit(lab: Lab, size: ClusterSize, changes: number): Promise<Row> {
  const node = lab.namespace("events");
  const arrivals: number[] = [];
  const batches: (readonly number[])[] = [];
  const latencies: number[] = [];
  const ours = new Ours(node, () => void batches.push(arrivals.splice(0)));
  const services = benchServices(size);
  ours.load(changesOf(services));
  batches.length = 0;
  const events = startNotificationThread({ calls: lab.calls, namespacePath: node.path });
  const lost: string[] = [];
  await events.subscribe(
    { kind: "nftables" },
    {
      onMessages: (messages) => {
        const now = performance.now();
        for (const message of messages) {
          if (parseNotification(message)?.kind !== "generation") continue;
          for (const arrival of batches.shift() ?? []) latencies.push(now - arrival);
        }
      },
      onOverrun: () => lost.push("notifications were lost"),
      onFailure: ({ message }) => lost.push(message),
    },
  );
  const start = performance.now();
  for (let number = 0; number < changes; number++) {
    const due = start + (1000 * number) / PER_SECOND;
    if (due > performance.now()) await wait(due - performance.now());
    const service = services[(number * 7919) % services.length];
    if (service === undefined) break;
    const change = sliceChange(withFirstReplaced(service, number));
    arrivals.push(performance.now());
    ours.component.apply([change]);
  }
  const deadline = performance.now() + PATIENCE_MILLISECONDS;
  while (latencies.length < changes && lost.length === 0 && performance.now() < deadline) await wait(10);
  await events.stop();
  ours[Symbol.dispose]();
  lab.remove(node);
  if (latencies.length !== changes) {
    throw new Error(`${latencies.length} of ${changes} changes were reported: ${lost.join(", ") || "no reason known"}`);
  }
  const title = `event to commit, p95 at ${PER_SECOND} changes/s, ${sizeText(size)}`;
  const remark = `p50 ${quantile(latencies, 0.5).toFixed(1)} ms, p99 ${quantile(latencies, 0.99).toFixed(1)} ms`;
  return { ...found(title, "ms", quantile(latencies, 0.95), GOAL, remark), values: latencies };
}
