import { mkdirSync, writeFileSync } from "node:fs";
import path from "node:path";
import process from "node:process";
import { setTimeout as wait } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { startEventThread } from "../../../kernel/events/thread.ts";
import { formatAddress } from "../../../kernel/ip/address.ts";
import { ApiServerProcess } from "../../apiserver/process.ts";
import type { Lab } from "../../lab/lab.ts";
import { createLab } from "../../lab/lab.ts";
import { twoNodes } from "../../lab/topology.ts";
import { makeCertificate } from "../../support/certificate.ts";
import { thisMachine } from "../machine.ts";
import { recordLocalPods } from "../policy/local_records.ts";
import type { ServicesReport } from "../services/report.ts";
import { formatServicesReport } from "../services/report.ts";
import type { ServicesRow } from "../services/row.ts";
import { found, measured } from "../services/row.ts";
import { quantile } from "../statistics.ts";
import { AddressCommits } from "./address_commits.ts";
import { clusterObjects } from "./cluster.ts";
import { manyNodes, NODES_PLAN } from "./many_nodes.ts";
import { MeasuredDaemon } from "./measured_daemon.ts";
import type { Plan } from "./plan.ts";
import { releases } from "./release.ts";
import { steadyChanges } from "./steady_changes.ts";

const RESULTS = fileURLToPath(new URL("../../../test-results/bench-daemon.json", import.meta.url));
const PORT = 6443;
/** Of one message to the API server's process. */
const OBJECTS_AT_ONCE = 1000;
/** Longer than minSyncPeriod. */
const QUIET_MILLISECONDS = 2000;
const P50_GOAL = 10;
const P95_GOAL = 50;
const LOOP_GOAL = 50;
const MEMORY_GOAL = 150;
const PEAK_GOAL = 220;

/** What can be measured alone: a cluster with steady changes, one of thousands of Nodes, and an API server that comes back. */
export const SUBJECTS = ["cluster", "nodes", "release"] as const;

type Subject = (typeof SUBJECTS)[number];

type Progress = (step: string) => void;

/**
 * Measures the whole daemon of one node behind an API server in a process of its own, prints a table or JSON and leaves
 * the JSON.
 */
export async function benchDaemon(
  plan: Plan,
  subjects: readonly Subject[] | undefined,
  output: "table" | "json",
  progress: Progress,
): Promise<void> {
  const machine = thisMachine();
  const started = performance.now();
  using lab = createLab("bench-daemon");
  const nft = lab.namespace("nft").exec("nft", ["--version"]).trim();
  using nodesLab = createLab("bench-nodes");
  const isMeant = (subject: Subject): boolean => subjects?.includes(subject) ?? true;
  const rows = [
    ...(isMeant("cluster") ? await measure(lab, plan, progress) : []),
    ...(isMeant("nodes") ? await manyNodes(nodesLab, NODES_PLAN, progress) : []),
    ...(isMeant("release") ? await releases(createLab, plan, progress) : []),
  ];
  const report: ServicesReport = { machine, nft, seconds: Math.round((performance.now() - started) / 1000), rows };
  const json = `${JSON.stringify(report, undefined, 2)}\n`;
  mkdirSync(path.dirname(RESULTS), { recursive: true });
  writeFileSync(RESULTS, json);
  process.stdout.write(
    output === "json"
      ? json
      : `${formatServicesReport(report)}\nall values: ${path.relative(process.cwd(), RESULTS)}\n`,
  );
}

async function measure(lab: Lab, plan: Plan, progress: Progress): Promise<readonly ServicesRow[]> {
  const { node1, router } = twoNodes(lab);
  const { node } = node1;
  const server = new ApiServerProcess(router);
  lab.atEnd(() => void server.stop());
  const address = formatAddress(node1.routerAddresses[0]);
  progress("filling the API server");
  const objects = clusterObjects(plan);
  for (let next = 0; next < objects.length; next += OBJECTS_AT_ONCE) {
    await server.apply(...objects.slice(next, next + OBJECTS_AT_ONCE));
  }
  const authority = makeCertificate("authority");
  await server.tell({
    type: "listen",
    address,
    port: PORT,
    certificate: makeCertificate("server", authority, address),
  });
  const directory = `${lab.scratch}/daemon`;
  for (const name of ["state", "account"]) mkdirSync(`${directory}/${name}`, { recursive: true });
  recordLocalPods(`${directory}/state`, plan, lab);
  writeFileSync(`${directory}/account/token`, "of nobody");
  writeFileSync(`${directory}/account/ca.crt`, authority.certificate);

  const commits = new AddressCommits();
  const events = startEventThread({ calls: lab.calls, namespacePath: node.path });
  await events.subscribe({ kind: "nftables" }, commits);
  const syncs: number[] = [];
  let current: MeasuredDaemon | undefined;
  lab.atEnd(() => current?.daemon.child.kill("SIGKILL"));
  for (let start = 0; start < plan.starts; start++) {
    if (current !== undefined) {
      await current.daemon.kill("SIGKILL");
      const flushed = performance.now();
      node.exec("nft", ["flush", "ruleset"]);
      // The kernel tells of it, too, and that is not the next daemon's first batch.
      await lastOfBurst(commits, flushed);
    }
    progress(`first sync ${start + 1} of ${plan.starts}`);
    const begun = performance.now();
    current = new MeasuredDaemon(node, directory, `https://${address}:${PORT}`);
    await current.daemon.statusWhen(({ isSynced }) => isSynced, "all objects read");
    syncs.push((await lastOfBurst(commits, begun)) - begun);
  }
  if (current === undefined) throw new RangeError("starts: expected at least one");
  progress(`${plan.seconds} s of changes`);
  const sync = { delay: await current.loopDelay(), processor: current.processorSeconds() };
  const latencies = await steadyChanges(server, commits, plan);
  const steady = { delay: await current.loopDelay(), processor: current.processorSeconds() - sync.processor };
  const memory = current.memory();
  await events.stop();
  await current.daemon.kill("SIGTERM");
  await server.stop();

  const size = `${plan.pods} pods, ${plan.services} × ${plan.endpoints} Services, ${plan.policies} policies`;
  const load = `${plan.changesPerSecond} changes/s for ${plan.seconds} s`;
  const all = [...latencies.values()].flat();
  return [
    measured(`${size}: from its start until all is in force`, "ms", syncs),
    found(`${load}: memory at the end`, "MB", memory.now, MEMORY_GOAL),
    found("memory at its peak", "MB", memory.peak, PEAK_GOAL),
    measured(`${load}: of one processor`, "%", [(100 * steady.processor) / plan.seconds]),
    ...[...latencies, ["all changes", all] as const].flatMap(([kind, values]) => [
      { ...found(`${kind}: API server to kernel, p50`, "ms", quantile(values, 0.5), P50_GOAL), values },
      { ...found(`${kind}: API server to kernel, p95`, "ms", quantile(values, 0.95), P95_GOAL), values },
    ]),
    found(
      `${load}: delay of the event loop, p99`,
      "ms",
      steady.delay.p99,
      LOOP_GOAL,
      `p50 ${steady.delay.p50.toFixed(1)} ms, at most ${steady.delay.max.toFixed(0)} ms; during the first sync p99 ${sync.delay.p99.toFixed(0)} ms, at most ${sync.delay.max.toFixed(0)} ms, ${sync.processor.toFixed(1)} s of processors`,
    ),
  ];
}

/** Waits until no batch follows any more. @returns when the last one was told of */
async function lastOfBurst(commits: AddressCommits, begun: number): Promise<number> {
  while (commits.last < begun || performance.now() - commits.last < QUIET_MILLISECONDS) await wait(50);
  return commits.last;
}
