import * as v from "valibot";
import { ARCHIVE } from "../addon.ts";
import { kubectl, type Materials } from "../cluster.ts";
import { enter } from "../node/processes.ts";
import { until } from "../run.ts";
import type { RunningCluster, RunningNode } from "../state.ts";
import { NAMESPACE } from "./objects.ts";
import type { OtherBuild } from "./other_build.ts";

/** The cluster of a run; a step that adds a node replaces it. */
export interface World {
  cluster: RunningCluster;
  readonly materials: Materials;
  /** The build to which the add-on is upgraded. */
  readonly other: OtherBuild;
  /** Starts a generator on a node. */
  readonly startGenerator: (node: RunningNode) => void;
}

/** Returns the materials with the add-on's image, which a new node needs before its kubelet starts. */
export function withAddOn(materials: Materials, ...archives: readonly string[]): Materials {
  return { ...materials, images: [...materials.images, ARCHIVE, ...archives] };
}

/** Runs kubectl in the run's namespace. */
export function inNamespace(world: World, ...args: readonly string[]): string {
  return kubectl(world.materials, ["-n", NAMESPACE, ...args]);
}

/** Waits until every server is ready and none is leaving. */
export function waitForServers(world: World): void {
  inNamespace(world, "rollout", "status", "deployment/web", "--timeout=180s");
  inNamespace(world, "rollout", "status", "deployment/steady", "--timeout=180s");
}

const SLICES = v.object({
  items: v.array(
    v.object({
      endpoints: v.nullish(
        v.array(v.object({ addresses: v.array(v.string()), conditions: v.object({ ready: v.optional(v.boolean()) }) })),
      ),
    }),
  ),
});

/** Returns the addresses that the slices of the servers name as ready. */
export function readyAddresses(world: World): ReadonlySet<string> {
  const selector = "--selector=kubernetes.io/service-name=web";
  const text = inNamespace(world, "get", "endpointslices", selector, "--output=json");
  const endpoints = v.parse(SLICES, JSON.parse(text)).items.flatMap((slice) => slice.endpoints ?? []);
  return new Set(endpoints.filter(({ conditions }) => conditions.ready === true).flatMap(({ addresses }) => addresses));
}

/** Returns the process IDs, within the node, of programs whose command line contains a match of this expression. */
export function processesOf(node: RunningNode, text: string): readonly string[] {
  return enter("node", node.first, ["pgrep", "--full", "--", text]).trim().split("\n");
}

/** Resolves after these seconds. */
export function sleep(seconds: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, seconds * 1000));
}

/** Kills processes of a node, and resolves when they have gone: until then their ports are in use. */
export async function kill(node: RunningNode, processes: readonly string[]): Promise<void> {
  enter("node", node.first, ["kill", "-KILL", ...processes]);
  const all = processes.join(",");
  await until(
    `the end of ${all} on ${node.name}`,
    () => (enter("node", node.first, ["sh", "-c", `ps --no-headers --pid ${all} || true`]) === "" ? true : undefined),
    30,
  );
}
