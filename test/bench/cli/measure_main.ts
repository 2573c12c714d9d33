import process from "node:process";
import { storeOf } from "../../../cli/cluster/policy_objects.ts";
import { readManifests } from "../../../cli/input/manifests.ts";
import type { Io } from "../../../cli/io.ts";
import { matrixOf } from "../../../cli/policy/matrix/matrix.ts";
import { processIo } from "../../../cli/process_io.ts";
import { runCommandLine } from "../../../cli/program.ts";
import { buildPolicyIndex } from "../../../objects/semantics/policies/policy_index.ts";

/** The costs of one step, in a process that does nothing else. */
export interface Measurement {
  readonly milliseconds: number;
  /** The processor's time, user and system, of all threads. */
  readonly cpuMilliseconds: number;
  /** The largest memory in addition to that before the step, in MB. */
  readonly megabytes: number;
}

const MEGABYTE = 1024 * 1024;

/**
 * Runs `read FILE`, `matrix FILE` (without measuring the reading) or `run ARGUMENTS` of the program, whose output is
 * discarded.
 */
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
      const nowhere = { write: () => {}, writeFile: () => {}, isTerminal: false, columns: 10_000, hasColour: false };
      const io: Io = { ...processIo(), files, clusters, out: nowhere, err: nowhere };
      return timed(() => runCommandLine("drawbridge", io, args));
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
