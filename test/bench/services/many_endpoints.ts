import { found, type Row } from "../row.ts";
import { type ClusterSize, sizeText } from "./cluster.ts";
import { kernelMemory } from "./kernel_memory.ts";
import type { Stage } from "./stage.ts";

const SECONDS_GOAL = 10_000;
const MEGABYTES_GOAL = 300;

/** Measures a load of very many endpoints: its time, and its memory in the kernel. */
export function manyEndpoints(stage: Stage, size: ClusterSize): readonly Row[] {
  const before = kernelMemory();
  const { whole, inKernel } = stage.load(size);
  const grown = kernelMemory() - before;
  const title = `${(size.services * size.endpoints).toLocaleString("en")} endpoints (${sizeText(size)})`;
  const ofMachine = "growth of Slab, Percpu and VmallocUsed of the machine";
  return [
    found(`${title}: cold load`, "ms", whole, SECONDS_GOAL, `${inKernel.toFixed(0)} ms of it in the kernel`),
    found(`${title}: kernel memory`, "MB", grown, MEGABYTES_GOAL, ofMachine),
  ];
}
