import { mkdirSync, renameSync, unlinkSync, writeFileSync } from "node:fs";
import process from "node:process";
import { setTimeout as wait } from "node:timers/promises";
import { startNotificationThread } from "../../../kernel/notifications/thread.ts";
import type { Lab } from "../../lab/lab.ts";
import { BUNDLE, startDaemon } from "../../support/daemon/policyd.ts";
import { AddressCommits } from "../daemon/address_commits.ts";
import { imageStart } from "../daemon/image_start.ts";
import { RunDirectory } from "../run_directory.ts";
import { found, type Row } from "../row.ts";
import { quantile } from "../statistics.ts";
import {
  baseManifests,
  type BenchPod,
  benchPolicies,
  type ClusterSize,
  NODE,
  pertinentPod,
  podManifest,
  policyManifest,
  relabelled,
  sizeText,
} from "./cluster.ts";
import { recordLocalPods } from "./local_records.ts";
import { waitedForProcessor } from "./processor_wait.ts";

const MILLISECONDS_BETWEEN = 20;
const GOAL = 10;
const PATIENCE_MILLISECONDS = 10_000;
const KINDS = ["a pod added", "a pod relabelled", "a pod removed"] as const;

/**
 * Measures the time from right before the system call that renames a finished file into the daemon's directory of
 * objects, or removes it, until this process has received the kernel's notification of the last batch that it causes.
 * The daemon is a process of its own, started as on a node; the changes are of a pod elsewhere. The files are in
 * memory: ext4 takes 2 ms to unlink one, and 6 to 20 at the 95th and 99th percentiles.
 */
export async function eventToCommit(lab: Lab, size: ClusterSize, changes: number): Promise<readonly Row[]> {
  const node = lab.namespace(`events-${size.pods}`);
  using run = new RunDirectory();
  const directory = run.path;
  writeCluster(directory, size, lab);
  const { nodeOptions, environment } = imageStart();
  Object.assign(process.env, environment);
  const daemon = startDaemon(
    `${directory}/run/policyd.sock`,
    [
      `--node-name=${NODE}`,
      `--objects=${directory}/objects`,
      `--state-directory=${directory}/state`,
      `--network-namespace=${node.path}`,
      "--log-level=error",
    ],
    BUNDLE,
    nodeOptions,
  );
  lab.atEnd(() => daemon.child.kill("SIGKILL"));
  // The node has no bridge and forwards nothing, which the daemon reports: here only its rules count.
  const areObjectsFine = (problems: readonly string[]): boolean => problems.every((text) => text.startsWith("node: "));
  await daemon.statusWhen(({ isSynced, problems }) => isSynced && areObjectsFine(problems), "synced");
  const watch = new AddressCommits();
  const events = startNotificationThread({ calls: lab.calls, namespacePath: node.path });
  await events.subscribe({ kind: "nftables" }, watch);
  await untilQuiet(watch);
  const latencies = new Map<string, number[]>(KINDS.map((kind) => [kind, []]));
  const waits = new Map<string, number[]>(KINDS.map((kind) => [kind, []]));
  const before = watch.commits;
  for (let number = 0; number < changes; number++) {
    const kind = KINDS[number % KINDS.length];
    if (kind === undefined) break;
    const change = fileChange(directory, kind, pertinentPod(size.pods + Math.floor(number / KINDS.length)));
    const seen = watch.commits;
    const waited = waitedForProcessor(String(daemon.child.pid));
    const start = performance.now();
    change();
    const deadline = start + PATIENCE_MILLISECONDS;
    while (watch.commits === seen) {
      if (watch.lost.length > 0 || performance.now() > deadline) {
        throw new Error(`${kind}: no commit: ${watch.lost.join(", ") || "no reason known"}; log:\n${daemon.log()}`);
      }
      await wait(1);
    }
    waits.get(kind)?.push(waitedForProcessor(String(daemon.child.pid)) - waited);
    await wait(Math.max(1, start + MILLISECONDS_BETWEEN - performance.now()));
    latencies.get(kind)?.push(watch.last - start);
  }
  const batches = watch.commits - before;
  await events.stop();
  await daemon.kill("SIGTERM");
  return KINDS.map((kind) => {
    const values = latencies.get(kind) ?? [];
    const [p50, p99] = [0.5, 0.99].map((share) => quantile(values, share).toFixed(1));
    const waited = quantile(waits.get(kind) ?? [], 0.95).toFixed(1);
    const remark = `p50 ${p50} ms, p99 ${p99} ms; ready without a processor p95 ${waited} ms; ${batches} batches for ${changes} changes`;
    const title = `${kind} elsewhere, file to commit, p95, ${sizeText(size)}`;
    return { ...found(title, "ms", quantile(values, 0.95), GOAL, remark), values };
  });
}

function writeCluster(directory: string, size: ClusterSize, lab: Lab): void {
  for (const name of ["objects", "state", "run"]) mkdirSync(`${directory}/${name}`, { recursive: true });
  const write = (name: string, items: readonly object[]): void =>
    writeFileSync(`${directory}/objects/${name}.json`, JSON.stringify({ apiVersion: "v1", kind: "List", items }));
  write("base", baseManifests(size));
  write("policies", benchPolicies(size).map(policyManifest));
  recordLocalPods(`${directory}/state`, size, lab);
}

/** Prepares a change of one file. @returns a function that makes it */
function fileChange(directory: string, kind: (typeof KINDS)[number], pod: BenchPod): () => void {
  const file = `${directory}/objects/${pod.name}.json`;
  if (kind === "a pod removed") return () => unlinkSync(file);
  writeFileSync(`${directory}/new`, JSON.stringify(podManifest(kind === "a pod added" ? pod : relabelled(pod))));
  return () => renameSync(`${directory}/new`, file);
}

async function untilQuiet(watch: AddressCommits): Promise<void> {
  for (let before = -1; before !== watch.commits;) {
    before = watch.commits;
    await wait(300);
  }
}
