import type { Lab } from "../../lab/lab.ts";
import { found, measured, type Row } from "../row.ts";
import { quantile } from "../statistics.ts";
import type { Progress, Subjects } from "../subjects.ts";
import { idleNode } from "./idle_node.ts";
import { MeasuredCluster } from "./measured_cluster.ts";
import type { MeasuredDaemon } from "./measured_daemon.ts";
import type { Plan } from "./plan.ts";
import { SteadyChanges } from "./steady_changes.ts";

const P50_GOAL = 5;
const P95_GOAL = 25;
const LOOP_GOAL = 50;
const MEMORY_GOAL = 150;
const PEAK_GOAL = 220;

/** Returns the subjects: a cluster with steady changes, and a node with idle pods. */
export function daemonSubjects(plan: Plan): Subjects {
  return {
    cluster: (lab, progress) => measure(lab, plan, progress),
    idle: (lab, progress) => idleNode(lab, plan.idle, progress),
  };
}

async function measure(lab: Lab, plan: Plan, progress: Progress): Promise<readonly Row[]> {
  const cluster = await MeasuredCluster.open(lab, plan, progress);
  const syncs: number[] = [];
  let current: MeasuredDaemon | undefined;
  for (let start = 0; start < plan.starts; start++) {
    progress(`first sync ${start + 1} of ${plan.starts}`);
    const started = await cluster.start();
    current = started.current;
    syncs.push(started.sync);
  }
  if (current === undefined) throw new RangeError("starts: expected at least one");
  progress(`${plan.seconds} s of changes`);
  const changes = new SteadyChanges(cluster.server, cluster.commits, plan);
  await changes.prepare();
  const sync = { delay: await current.loopDelay(), processor: current.processorSeconds() };
  const perSecond = plan.changesPerSecond;
  const latencies = await changes.run({ changes: plan.seconds * perSecond, perSecond });
  const steady = { delay: await current.loopDelay(), processor: current.processorSeconds() - sync.processor };
  const memory = current.memory();
  await cluster.stop();

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
