import { fileURLToPath } from "node:url";
import * as v from "valibot";
import type { Lab } from "../../lab/lab.ts";
import { inOwnProcess } from "../daemon/own_process.ts";
import { kernelMemory } from "../services/kernel_memory.ts";
import { found, measured, type Row } from "../row.ts";
import { sleep } from "../sleep.ts";
import { type ClusterSize, sizeText } from "./cluster.ts";

const MAIN = fileURLToPath(new URL("build_main.ts", import.meta.url));
const TOTAL_GOAL = 5000;
const TURN_GOAL = 50;
const SETTLE_MILLISECONDS = 500;

const number = v.number();
const orderSchema = v.object({
  size: v.object({ pods: number, policies: number }),
  /**
   * Whether the policies come at once to a node that has everything else; otherwise they come with it, as after a
   * start.
   */
  isBurst: v.boolean(),
  /** Whether all policies select pods of the node; otherwise one in a hundred does. */
  isLocal: v.boolean(),
});

/** The order for a process that builds policies. */
export type BuildOrder = v.InferOutput<typeof orderSchema>;

const measurementSchema = v.object({
  whole: number,
  inKernel: number,
  processor: number,
  elements: number,
  commits: number,
  /** Milliseconds of the longest turn of the event loop. */
  longestTurn: number,
  /** The memory of the process beyond what it had with all objects parsed. */
  megabytes: number,
});

/** The measurements of that process: the time of a build, and its cost for the rest of the daemon. */
export type BuildMeasurement = v.InferOutput<typeof measurementSchema>;

/** Reads an order of {@link builds}. @throws ValiError for any other text */
export function parseOrder(text: string): BuildOrder {
  return v.parse(orderSchema, JSON.parse(text));
}

/**
 * Measures builds of very many policies from nothing: their time, the longest time in which nothing else is done, and
 * the memory that they keep.
 */
export function builds(lab: Lab, size: ClusterSize, rounds: number): readonly Row[] {
  return [
    { name: "built at the start", isBurst: false, isLocal: false },
    { name: "all policies at once", isBurst: true, isLocal: false },
    { name: "all policies at once, all on the node's pods", isBurst: true, isLocal: true },
  ].flatMap(({ name, ...order }) => {
    const taken = Array.from({ length: rounds }, () => build(lab, { size, ...order }));
    const title = `${sizeText(size)}: ${name}`;
    const values = (of: (measurement: Built) => number): readonly number[] => taken.map(of);
    const longest = Math.max(...values(({ longestTurn }) => longestTurn));
    return [
      measured(
        `${title}: until in force`,
        "ms",
        values(({ whole }) => whole),
        TOTAL_GOAL,
      ),
      measured(
        `${title}: of it in the kernel`,
        "ms",
        values(({ inKernel }) => inKernel),
      ),
      found(`${title}: longest turn of the event loop`, "ms", longest, TURN_GOAL),
      measured(
        `${title}: memory of the process`,
        "MB",
        values(({ megabytes }) => megabytes),
      ),
      measured(
        `${title}: memory of the kernel`,
        "MB",
        values(({ kernelMegabytes }) => kernelMegabytes),
      ),
    ];
  });
}

interface Built extends BuildMeasurement {
  readonly kernelMegabytes: number;
}

function build(lab: Lab, order: BuildOrder): Built {
  const namespace = lab.namespace("build");
  const before = kernelMemory();
  const measurement = namespace.inside(() =>
    inOwnProcess(["--expose-gc", MAIN, JSON.stringify(order)], measurementSchema),
  );
  const kernelMegabytes = kernelMemory() - before;
  lab.remove(namespace);
  sleep(SETTLE_MILLISECONDS);
  return { ...measurement, kernelMegabytes };
}
