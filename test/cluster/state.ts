import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import path from "node:path";
import * as v from "valibot";
import { type FirstProcess, isAlive } from "./node/processes.ts";
import { STATE } from "./place.ts";
import type { NodePlan, Settings } from "./settings.ts";

/** A running node. */
export interface RunningNode extends NodePlan {
  readonly first: FirstProcess;
  /** The directory with the node's files, under their paths in the node. */
  readonly directory: string;
}

/** The cluster that is up. */
export interface RunningCluster {
  readonly settings: Settings;
  readonly machine: FirstProcess;
  readonly nodes: readonly RunningNode[];
}

const FILE = path.join(STATE, "cluster.json");
const FIRST = v.object({ pid: v.number(), namespace: v.string() });
const CLUSTER = v.object({
  settings: v.object({
    nodes: v.number(),
    firstFamily: v.picklist([4, 6]),
    isDualStack: v.boolean(),
    containerd: v.picklist([1, 2]),
  }),
  machine: FIRST,
  nodes: v.array(
    v.object({
      name: v.string(),
      addresses: v.object({ 4: v.string(), 6: v.string() }),
      zone: v.string(),
      first: FIRST,
      directory: v.string(),
    }),
  ),
});

/** Reads the cluster that is up; undefined if there is none, or if its machine has ended. */
export function readCluster(): RunningCluster | undefined {
  if (!existsSync(FILE)) return undefined;
  const cluster = v.parse(CLUSTER, JSON.parse(readFileSync(FILE, "utf8")));
  return isAlive(cluster.machine) ? cluster : undefined;
}

/** Stores the cluster for later commands. */
export function writeCluster(cluster: RunningCluster): void {
  mkdirSync(STATE, { recursive: true });
  writeFileSync(FILE, JSON.stringify(cluster, undefined, 2));
}

/** Removes the files of a cluster whose processes have ended. */
export function removeState(): void {
  rmSync(STATE, { recursive: true, force: true });
}
