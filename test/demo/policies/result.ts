import { setTimeout as pause } from "node:timers/promises";
import { POLICY_SETS, POLICY_TABLE } from "../../../policyd/policies/compile/policy_table.ts";
import type { RawObject } from "../../apiserver/storage.ts";
import type { LabNode } from "../../lab/lab.ts";
import type { LabCalls } from "../../lab/libc.ts";
import { compareMatrices, type Difference, type Expected, type Seen } from "../matrix.ts";
import { measureQuestions } from "../measure.ts";
import { nodeOf, type World } from "../world.ts";
import { expectedUnderPolicies, isolatedPods } from "./expectation.ts";
import { policyShow } from "./manifests.ts";

const DEADLINE_MILLISECONDS = 30_000;
const POLL_MILLISECONDS = 10;
/** The time in which a packet without an answer is sent several times (test/lab/probe/prober.ts). */
const DENIED_MILLISECONDS = 1200;

/** The expected results under policies, the measured ones, and the differences. */
export interface PoliciesResult {
  readonly policies: readonly { readonly pod: string; readonly words: string }[];
  readonly expected: readonly Expected[];
  readonly seen: readonly Seen[];
  readonly differences: readonly Difference[];
}

/** Policies that are in force on both nodes, with their verdict on every cell of the matrix. */
export type PublishedPolicies = Pick<PoliciesResult, "policies" | "expected">;

/** Adds the policies to the cluster. @returns when both nodes isolate the pods @throws Error when they do not */
export async function publishPolicies(world: World, cells: readonly Expected[]): Promise<PublishedPolicies> {
  const show = policyShow(world);
  const objects = await setPolicies(
    world,
    show.map(({ manifest }) => manifest),
  );
  const policies = show.map(({ pod, words }) => ({ pod, words }));
  return { policies, expected: expectedUnderPolicies(world, cells, objects) };
}

/**
 * Replaces the present policies by these, and waits until they are in force.
 *
 * The sets that a chain uses are in the kernel before the chain, and the chain before the element that sends a pod's
 * packets to it: so when all pods have such an element, everything is there.
 *
 * @returns all objects of the cluster
 * @throws Error when they do not come into force
 */
export async function setPolicies(world: World, manifests: readonly RawObject[]): Promise<readonly RawObject[]> {
  const { cluster } = world;
  const before = await cluster.server.objects();
  await cluster.delete(...before.filter(({ kind }) => kind === "NetworkPolicy"));
  await cluster.apply(...manifests);
  const objects = await cluster.server.objects();
  const end = performance.now() + DEADLINE_MILLISECONDS;
  for (const direction of ["ingress", "egress"] as const) {
    for (const [name, expected] of isolatedPods(world, objects, direction)) {
      while (isolatedOn(nodeOf(world, name), direction) !== expected) {
        if (performance.now() > end) {
          throw new Error(`policyd of ${name} does not isolate ${expected} pods in ${direction}`);
        }
        await pause(POLL_MILLISECONDS);
      }
    }
  }
  return objects;
}

/** Sends packets for every cell: first those that should be answered, since the others only wait. */
export async function checkPolicies(
  calls: LabCalls,
  world: World,
  { policies, expected }: PublishedPolicies,
  onProgress: (done: number) => void,
): Promise<PoliciesResult> {
  let done = 0;
  const measure = async (isReached: boolean, timeoutMilliseconds?: number): Promise<readonly Seen[]> =>
    await measureQuestions(
      calls,
      world,
      expected.filter(({ reached }) => reached === isReached),
      {
        ...(timeoutMilliseconds === undefined ? {} : { timeoutMilliseconds }),
        onProgress: () => onProgress(++done),
      },
    );
  const seen = [...(await measure(true)), ...(await measure(false, DENIED_MILLISECONDS))];
  return { policies, expected, seen, differences: compareMatrices(expected, seen) };
}

/** Returns the number of pods of a node that the kernel sends to a profile over IPv4. */
function isolatedOn(node: LabNode, direction: "ingress" | "egress"): number {
  const { family, name: table } = POLICY_TABLE;
  const listing = node.exec("nft", ["list", "map", family, table, `${POLICY_SETS[direction]}4`]);
  return [...listing.matchAll(/ : (jump|goto) /g)].length;
}
