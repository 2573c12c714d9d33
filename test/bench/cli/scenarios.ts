import { execFileSync } from "node:child_process";
import { statSync, writeFileSync } from "node:fs";
import path from "node:path";
import process from "node:process";
import { fileURLToPath } from "node:url";
import * as v from "valibot";
import { CLI_DIRECTORY } from "../../support/cli/program.ts";
import { compared, found, interleave, type Row } from "../row.ts";
import { median } from "../statistics.ts";
import { BIG, bigConnections, bigLedger, bigPods, bigPolicies } from "./big_cluster.ts";
import type { Measurement } from "./measure_main.ts";

const MAIN = fileURLToPath(new URL("measure_main.ts", import.meta.url));
const MEGABYTE = 1024 * 1024;
const measurementSchema = v.object({ milliseconds: v.number(), cpuMilliseconds: v.number(), megabytes: v.number() });

/** The subjects, each of which can be measured by itself. */
export const CLI_SUBJECTS = ["cluster", "help"] as const;

type Measure = (title: string, args: readonly string[]) => readonly Measurement[];

/**
 * Measures the command line on files that it makes in a directory.
 *
 * @param subjects all of them when absent
 */
export function measureCli(
  directory: string,
  runs: number,
  progress: (step: string) => void,
  subjects: readonly (typeof CLI_SUBJECTS)[number][] = CLI_SUBJECTS,
): readonly Row[] {
  const at = (name: string): string => path.join(directory, name);
  const measure: Measure = (title, args) =>
    Array.from({ length: runs }, (_, run) => {
      progress(`${title}: ${run + 1} of ${runs}`);
      const text = execFileSync(process.execPath, ["--expose-gc", MAIN, ...args], { encoding: "utf8" });
      return v.parse(measurementSchema, JSON.parse(text));
    });
  progress("making the files");
  return [
    ...(subjects.includes("cluster") ? clusterRows(at, measure) : []),
    ...(subjects.includes("help") ? [helpRow(runs * 4, progress)] : []),
  ];
}

function clusterRows(at: (name: string) => string, measure: Measure): readonly Row[] {
  writeFileSync(at("pods.json"), JSON.stringify({ apiVersion: "v1", items: bigPods(), kind: "List" }, undefined, 4));
  const objects = [...bigPods().map(withoutManagedFields), ...bigPolicies()];
  writeFileSync(at("before.json"), JSON.stringify({ apiVersion: "v1", items: objects, kind: "List" }));
  writeFileSync(at("after.json"), JSON.stringify({ apiVersion: "v1", items: objects.slice(0, -1), kind: "List" }));
  const size = megabytesOf(at("pods.json"));
  const cluster = `${BIG.pods} pods in ${BIG.workloads} workloads, ${BIG.policies} policies`;
  const read = measure("read", ["read", at("pods.json")]);
  const matrix = measure("matrix", ["matrix", at("before.json")]);
  const table = measure("policy matrix", ["run", "policy", "matrix", "-f", at("before.json")]);
  const diff = measure("policy diff", ["run", "policy", "diff", at("before.json"), at("after.json")]);
  writeFileSync(at("change.json"), JSON.stringify(objects.at(-1)));
  writeFileSync(at("conntrack.txt"), bigConnections());
  const change = ["-f", at("change.json"), "--against", at("after.json")];
  const places = ["-n", "n0", "-f", at("after.json"), "--conntrack", at("conntrack.txt")];
  const suggested = measure("policy suggest", ["run", "policy", "suggest", ...places]);
  writeFileSync(at("flows.jsonl"), bigLedger());
  const ledger = ["--ledger", at("flows.jsonl")];
  const seen = measure("policy dry-run --ledger", ["run", "policy", "dry-run", ...change, ...ledger]);
  const learnt = measure("policy suggest --ledger", ["run", "policy", "suggest", ...places.slice(0, 4), ...ledger]);
  return [
    rowOf(`read ${BIG.pods} pods, ${size} MB of JSON`, read, 2000),
    rowOf(`matrix of ${cluster}: evaluation`, matrix, 2000),
    memoryRow("the same: memory beyond reading", matrix, 300),
    rowOf("policy matrix, whole command on them", table, 5000),
    rowOf("policy diff, whole command, one policy less", diff, 3000),
    rowOf(`policy suggest for a namespace, with ${BIG.connections} connections`, suggested, 10_000),
    rowOf(`policy dry-run, one policy more, with a ledger of ${BIG.flows} flows`, seen, 5000),
    rowOf("policy suggest for a namespace, with as many", learnt, 10_000),
  ];
}

function megabytesOf(file: string): string {
  return (statSync(file).size / MEGABYTE).toFixed(0);
}

function memoryRow(title: string, runs: readonly Measurement[], goal: number): Row {
  const values = runs.map(({ megabytes }) => megabytes);
  return { ...found(title, "MB", median(values), goal), values };
}

/**
 * Returns a row with the smaller of two times. The clock includes everything else that runs on the machine, and the
 * processor's time includes threads that collect garbage beside the work, so the smaller is never less than a quiet
 * machine needs.
 */
function rowOf(title: string, runs: readonly Measurement[], goal: number): Row {
  const values = runs.map(({ milliseconds }) => milliseconds);
  const [clock, processor] = [median(values), median(runs.map(({ cpuMilliseconds }) => cpuMilliseconds))];
  const remark = `${clock.toFixed(0)} ms by the clock, ${processor.toFixed(0)} ms of the processor`;
  return { ...found(title, "ms", Math.min(clock, processor), goal, remark), values };
}

/** Compares the times by the clock, in interleaved pairs, which cancels out what both have in common. */
function helpRow(pairs: number, progress: (step: string) => void): Row {
  const started = (args: readonly string[]) => (): number => {
    const start = performance.now();
    execFileSync(process.execPath, args);
    return performance.now() - start;
  };
  progress("--help");
  const both = interleave(pairs, started([path.join(CLI_DIRECTORY, "drawbridge.js"), "--help"]), started(["-e", "0"]));
  return compared("--help", "ms", "node -e 0", both, { ratioAtMost: 2.5 });
}

function withoutManagedFields(object: object): object {
  if (!("metadata" in object) || typeof object.metadata !== "object") return object;
  return { ...object, metadata: { ...object.metadata, managedFields: undefined } };
}
