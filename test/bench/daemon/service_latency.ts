import type { Lab } from "../../lab/lab.ts";
import { compared, found, measured, type Row } from "../row.ts";
import { quantile } from "../statistics.ts";
import { MeasuredCluster } from "./measured_cluster.ts";
import type { Plan } from "./plan.ts";
import { ServiceChanges } from "./service_changes.ts";

/** Kube-proxy's default, which was ours as well. */
const KUBE_PROXYS = { minSyncPeriod: "1s" };
/** Changes so far apart that none waits for the previous one. */
const QUIET = { changes: 60, perSecond: 4 };
const P50_GOAL = 5;
const P95_GOAL = 25;

interface Measurement {
  readonly quiet: readonly number[];
  readonly latencies: ReadonlyMap<string, readonly number[]>;
  readonly processor: number;
}

/**
 * Measures how late changes of Services are in the kernel when nothing else changes, with the default configuration
 * and, for comparison, with kube-proxy's `minSyncPeriod`, by daemons in turn.
 */
export async function serviceLatency(lab: Lab, plan: Plan, progress: (step: string) => void): Promise<readonly Row[]> {
  const cluster = await MeasuredCluster.open(lab, plan, progress);
  const changes = new ServiceChanges(cluster.server, cluster.commits, plan);
  const pairs: { readonly ours: Measurement; readonly peer: Measurement }[] = [];
  const measureOne = async (name: string, configuration: Readonly<Record<string, unknown>>): Promise<Measurement> => {
    progress(`${name}: first sync`);
    const { current } = await cluster.start(configuration);
    await changes.prepare();
    progress(`${name}: single changes`);
    const quiet = [...(await changes.run(QUIET)).values()].flat();
    progress(`${name}: ${plan.seconds} s of changes`);
    const before = current.processorSeconds();
    const load = { changes: plan.seconds * plan.changesPerSecond, perSecond: plan.changesPerSecond };
    const latencies = await changes.run(load);
    return { quiet, latencies, processor: (1000 * (current.processorSeconds() - before)) / load.changes };
  };
  for (let pair = 0; pair < plan.starts; pair++) {
    pairs.push({ ours: await measureOne("by default", {}), peer: await measureOne("minSyncPeriod 1s", KUBE_PROXYS) });
  }
  await cluster.stop();

  const load = `${plan.changesPerSecond} Service changes/s, ${plan.seconds} s`;
  const ours = pairs.map((pair) => pair.ours);
  const allOf = ({ latencies }: Measurement): readonly number[] => [...latencies.values()].flat();
  const kinds = [...(ours[0]?.latencies.keys() ?? [])];
  const byKind = kinds.map((kind) => [kind, ours.flatMap(({ latencies }) => latencies.get(kind) ?? [])] as const);
  const all = ours.flatMap(allOf);
  const asPairs = (valueOf: (one: Measurement) => number): { readonly ours: number; readonly peer: number }[] =>
    pairs.map((pair) => ({ ours: valueOf(pair.ours), peer: valueOf(pair.peer) }));
  const against = "minSyncPeriod 1s";
  return [
    measured(
      "single changes of Services: API server to kernel",
      "ms",
      ours.flatMap(({ quiet }) => quiet),
    ),
    ...byKind.flatMap(([kind, values]) => [
      { ...found(`${kind}: API server to kernel, p50`, "ms", quantile(values, 0.5), P50_GOAL), values },
      { ...found(`${kind}: API server to kernel, p95`, "ms", quantile(values, 0.95), P95_GOAL), values },
    ]),
    { ...found(`${load}: API server to kernel, p50`, "ms", quantile(all, 0.5), P50_GOAL), values: all },
    { ...found(`${load}: API server to kernel, p95`, "ms", quantile(all, 0.95), P95_GOAL), values: all },
    compared(
      "single changes: API server to kernel, p50",
      "ms",
      against,
      asPairs(({ quiet }) => quantile(quiet, 0.5)),
    ),
    compared(
      `${load}: API server to kernel, p50`,
      "ms",
      against,
      asPairs((one) => quantile(allOf(one), 0.5)),
    ),
    compared(
      `${load}: the daemon's processor time for a change`,
      "ms",
      against,
      asPairs(({ processor }) => processor),
    ),
  ];
}
