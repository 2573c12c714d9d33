import process from "node:process";
import { storeOf } from "../../../cli/cluster/policy_objects.ts";
import { readManifests } from "../../../cli/input/manifests.ts";
import type { Io } from "../../../cli/io.ts";
import { matrixOf } from "../../../cli/policy/matrix/matrix.ts";
import { processIo } from "../../../cli/process_io.ts";
import { runProgram } from "../../../cli/program.ts";
import { buildPolicyIndex } from "../../../policyd/semantics/policies/policy_index.ts";

/** What one step took, in a process that does nothing else. */
export interface Measurement {
  readonly milliseconds: number;
  /** Of the processor, user and system, all threads. */
  readonly cpuMilliseconds: number;
  /** The most memory beyond that before the step, in MB. */
  readonly megabytes: number;
}

const MEGABYTE = 1024 * 1024;

/** `read FILE`, `matrix FILE` (reading is not measured) or `run ARGUMENTS` of the program, whose output is dropped. */
async function measure([step = "", ...args]: readonly string[]): Promise<Measurement> {
  const { files, clusters } = processIo();
  switch (step) {
    case "read":
      return timed(() => void readManifests(files, args, false));
    case "matrix": {
      const { manifests } = readManifests(files, args, false);
      return timed(() => {
        const { groups, between } = matrixOf(
          buildPolicyIndex(storeOf(manifests.map(({ object }) => object))),
          "workload",
        );
        for (const from of groups) for (const to of groups) between(from, to);
      });
    }
    case "run": {
      const nowhere = { write: () => {}, isTerminal: false, columns: 10_000, hasColour: false };
      const io: Io = { ...processIo(), files, clusters, out: nowhere, err: nowhere };
      return timed(() => runProgram("drawbridge", io, args));
    }
    default:
      throw new Error(`${step}: no such step`);
  }
}

async function timed(step: () => unknown): Promise<Measurement> {
  globalThis.gc?.();
  const [before, cpu, start] = [process.memoryUsage().rss, process.cpuUsage(), performance.now()];
  await step();
  const milliseconds = performance.now() - start;
  const { user, system } = process.cpuUsage(cpu);
  const peak = process.resourceUsage().maxRSS * 1024;
  return { milliseconds, cpuMilliseconds: (user + system) / 1000, megabytes: Math.max(0, peak - before) / MEGABYTE };
}

process.stdout.write(JSON.stringify(await measure(process.argv.slice(2))));
