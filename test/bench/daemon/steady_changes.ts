import { setTimeout as wait } from "node:timers/promises";
import type { ApiServerProcess } from "../../apiserver/process.ts";
import type { RawObject } from "../../apiserver/storage.ts";
import { type BenchPod, pertinentPod, podManifest, relabelled } from "../policy/cluster.ts";
import { benchService, sliceManifest, withFirstReplaced } from "../services/cluster.ts";
import type { AddressCommits } from "./address_commits.ts";
import { asStored } from "./cluster.ts";
import type { Plan } from "./plan.ts";

const PATIENCE_MILLISECONDS = 60_000;
/** The first number above every pod and endpoint of the cluster: nothing else has the addresses of these pods. */
const FIRST_NEW_POD = 100_000;
const ROUNDS_UNTIL_RELABELLED = 100;
const ROUNDS_UNTIL_REMOVED = 200;
const KINDS = [
  "a pod added elsewhere",
  "an endpoint replaced",
  "a pod relabelled elsewhere",
  "a pod removed elsewhere",
];

interface ClusterChange {
  readonly object: RawObject;
  /** The address whose element in the kernel shows that the change is in force. */
  readonly address: string;
}

/**
 * Changes the cluster at a steady rate.
 *
 * @returns milliseconds from the message to the API server's process until the kernel's notification of the batch, by
 * kind
 * @throws Error when one is not committed
 */
export async function steadyChanges(
  server: ApiServerProcess,
  commits: AddressCommits,
  plan: Plan,
): Promise<ReadonlyMap<string, readonly number[]>> {
  await makeEarlierPods(server, commits);
  const latencies = new Map<string, number[]>(KINDS.map((kind) => [kind, []]));
  const start = performance.now();
  for (let number = 0; number < plan.seconds * plan.changesPerSecond; number++) {
    const due = start + (1000 * number) / plan.changesPerSecond;
    if (due > performance.now()) await wait(due - performance.now());
    const kind = KINDS[number % KINDS.length] ?? "";
    const { object, address } = changeOf(kind, number, plan);
    const reported = performance.now();
    commits.await(address, (at) => latencies.get(kind)?.push(at - reported));
    void server.apply(object);
  }
  await untilCommitted(commits);
  return latencies;
}

/** Makes the pods that the first rounds relabel and remove. */
async function makeEarlierPods(server: ApiServerProcess, commits: AddressCommits): Promise<void> {
  for (let before = 1; before <= ROUNDS_UNTIL_REMOVED; before++) {
    const pod = pertinentPod(FIRST_NEW_POD - before);
    const { object, address } = podChange(before > ROUNDS_UNTIL_RELABELLED ? relabelled(pod) : pod);
    commits.await(address, () => {});
    await server.apply(object);
  }
  await untilCommitted(commits);
}

/** Waits until all awaited changes are committed. @throws Error when they are not */
export async function untilCommitted(commits: AddressCommits): Promise<void> {
  const deadline = performance.now() + PATIENCE_MILLISECONDS;
  while (commits.missing.length > 0 && commits.lost.length === 0 && performance.now() < deadline) await wait(10);
  if (commits.missing.length > 0 || commits.lost.length > 0) {
    throw new Error(`not committed: ${commits.missing.slice(0, 5).join(", ")}; ${commits.lost.join(", ")}`);
  }
}

/**
 * Returns a change: a pod is added, later relabelled and later removed, rounds apart, so that no change waits for the
 * previous one.
 */
function changeOf(kind: string, number: number, plan: Plan): ClusterChange {
  const round = Math.floor(number / KINDS.length);
  const pod = (delay: number): BenchPod => pertinentPod(FIRST_NEW_POD + round - delay);
  switch (kind) {
    case "an endpoint replaced": {
      const service = withFirstReplaced(benchService((number * 7919) % plan.services, plan.endpoints), number);
      return { object: asStored(sliceManifest(service)), address: service.endpoints[0] ?? "" };
    }
    case "a pod relabelled elsewhere":
      return podChange(relabelled(pod(ROUNDS_UNTIL_RELABELLED)));
    case "a pod removed elsewhere":
      return podChange(relabelled(pod(ROUNDS_UNTIL_REMOVED)), { isGone: true });
    default:
      return podChange(pod(0));
  }
}

function podChange(pod: BenchPod, further: RawObject = {}): ClusterChange {
  return { object: { ...asStored(podManifest(pod)), ...further }, address: pod.address4 };
}
