import type { Lab } from "../../lab/lab.ts";
import { found, measured, type Row } from "../row.ts";
import { quantile } from "../statistics.ts";
import type { Progress } from "../subjects.ts";
import { MeasuredCluster } from "./measured_cluster.ts";
import type { Plan } from "./plan.ts";
import { SteadyChanges } from "./steady_changes.ts";

/** Changes so far apart that none waits for the previous one. */
const QUIET = { changes: 60, perSecond: 4 };
const P50_GOAL = 5;
const P95_GOAL = 25;

/**
 * Measures how late changes of Services are in the kernel when nothing else changes, with the default configuration, by
 * several daemons.
 */
export async function serviceLatency(lab: Lab, plan: Plan, progress: Progress): Promise<readonly Row[]> {
  const cluster = await MeasuredCluster.open(lab, plan, progress);
  const changes = new SteadyChanges(cluster.server, cluster.commits, plan, "Services");
  const load = { changes: plan.seconds * plan.changesPerSecond, perSecond: plan.changesPerSecond };
  const quiet: number[] = [];
  const processor: number[] = [];
  const byKind = new Map<string, number[]>();
  for (let start = 1; start <= plan.starts; start++) {
    progress(`daemon ${start} of ${plan.starts}: first sync`);
    const { current } = await cluster.start();
    await changes.prepare();
    progress(`daemon ${start} of ${plan.starts}: single changes`);
    quiet.push(...[...(await changes.run(QUIET)).values()].flat());
    progress(`daemon ${start} of ${plan.starts}: ${plan.seconds} s of changes`);
    const before = current.processorSeconds();
    for (const [kind, values] of await changes.run(load)) byKind.set(kind, [...(byKind.get(kind) ?? []), ...values]);
    processor.push((1000 * (current.processorSeconds() - before)) / load.changes);
  }
  await cluster.stop();
  const all = `${plan.changesPerSecond} Service changes/s, ${plan.seconds} s`;
  return [
    measured("single changes of Services: API server to kernel", "ms", quiet),
    ...[...byKind, [all, [...byKind.values()].flat()] as const].flatMap(([kind, values]) => [
      { ...found(`${kind}: API server to kernel, p50`, "ms", quantile(values, 0.5), P50_GOAL), values },
      { ...found(`${kind}: API server to kernel, p95`, "ms", quantile(values, 0.95), P95_GOAL), values },
    ]),
    measured(`${all}: the daemon's processor time for a change`, "ms", processor),
  ];
}
