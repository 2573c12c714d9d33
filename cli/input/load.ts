import { DrawbridgeError } from "../../kernel/error.ts";
import { printable } from "../../policyd/log/line.ts";
import type { Io } from "../io.ts";
import { readCluster } from "./cluster/read_cluster.ts";
import type { Manifests } from "./manifests.ts";
import { readManifests } from "./manifests.ts";
import { DEFAULT_NAMESPACE } from "./objects/take.ts";
import { CLUSTER, locationText } from "./place.ts";
import type { Reading } from "./reading.ts";
import { doubtsOf } from "./report/doubts.ts";
import { summaryText } from "./report/summary.ts";

/** More lines of the same kind help nobody. */
const MOST_SHOWN = 20;
/** Files in one message. */
const MOST_NAMED = 5;
/** Lines of an object that is to be written instead. */
const LONGEST_REPLACEMENT = 60;

/** What of the command line says which cluster to read. */
export interface AccessOptions {
  readonly kubeconfig?: string | undefined;
  readonly context?: string | undefined;
  /** Of objects in files, and of ends of a connection, that name none. */
  readonly namespace?: string | undefined;
  /** Milliseconds; Infinity for no limit. */
  readonly requestTimeout: number;
}

/** What of the command line says where the objects are. */
export interface InputOptions extends AccessOptions, Reading {
  readonly filename: readonly string[];
  readonly recursive: boolean;
  /** The running cluster, and no files. */
  readonly cluster: boolean;
  /** Objects of which others are a part; what makes an answer doubtful is not said of them. */
  readonly isPart?: boolean;
  /** What they are called where there are several sets of objects: `old: `. */
  readonly label?: string;
}

/**
 * The objects a command is asked about, all of them valid.
 *
 * @throws DrawbridgeError ERR_INPUT after each problem has been told with file and line: what policies mean cannot be said
 *   while one of them cannot be read
 */
export async function loadManifests(io: Io, input: InputOptions): Promise<Manifests> {
  const manifests = await readInput(io, input);
  const { problems, remarks, leftOut } = manifests;
  tellAll(io, leftOut);
  tellAll(io, remarks);
  tellAll(io, problems);
  if (problems.length === 0) {
    if (input.isPart !== true) tellDoubts(io, [manifests.manifests], input.label);
    return manifests;
  }
  const count = problems.length === 1 ? "one problem" : `${problems.length} problems`;
  throw new DrawbridgeError("ERR_INPUT", `${count} in what was read; expected objects the API server takes: mend them`);
}

/** @param readings the paths of each reading @throws DrawbridgeError ERR_INPUT for standard input in more than one of them */
export function expectOneReading(readings: readonly (readonly string[])[]): void {
  if (readings.filter((paths) => paths.includes("-")).length < 2) return;
  throw new DrawbridgeError("ERR_INPUT", "-: standard input can be read once; expected a file for the other");
}

/**
 * As {@link loadManifests}, for commands that take places as arguments.
 *
 * @param places paths, or the one word `cluster` for the running one
 * @throws DrawbridgeError ERR_INPUT also for the cluster and files together
 */
export async function loadPlaces(
  io: Io,
  places: readonly string[],
  options: Omit<InputOptions, "filename" | "cluster">,
): Promise<Manifests> {
  const cluster = places.includes(CLUSTER);
  if (cluster && places.length > 1) {
    throw new DrawbridgeError("ERR_INPUT", `${CLUSTER}: expected it alone; a file of this name is ./${CLUSTER}`);
  }
  return loadManifests(io, { ...options, cluster, filename: cluster ? [] : places });
}

/**
 * What is there, and what is wrong with it, untold. One line says what was read.
 *
 * @throws DrawbridgeError ERR_INPUT for paths that lead nowhere or to no manifest, and a cluster that cannot be read
 */
export async function readInput(io: Io, input: InputOptions): Promise<Manifests> {
  const manifests = await readUntold(io, input);
  if (input.quiet !== true) io.err.write(`${summaryText(manifests.reading)}\n`);
  const { files, skipped } = manifests.reading;
  if (files.length === 0 && skipped.length > 0) {
    const names = skipped.slice(0, MOST_NAMED).map(({ file, reason }) => `${file} (${reason})`);
    throw new DrawbridgeError("ERR_INPUT", `no manifest in what was given; expected one: ${names.join(", ")}`);
  }
  return manifests;
}

async function readUntold(io: Io, input: InputOptions): Promise<Manifests> {
  const { filename, recursive, cluster, namespace, kubeconfig, context, requestTimeout } = input;
  if (!cluster) return readManifests(io.files, filename, recursive, namespace, input);
  const limit = requestTimeout === Infinity ? undefined : requestTimeout;
  return readCluster(io.clusters, { kubeconfig, context, requestTimeout: limit }, input.waysIn);
}

/**
 * Returns the namespace that is meant where none is named: what the command line says, or for those that read the cluster what its
 * kubeconfig says, as kubectl has it; of files `default`, so that an answer does not depend on the machine.
 *
 * @throws DrawbridgeError ERR_INPUT for a kubeconfig that cannot be used
 */
export async function namespaceFor(
  io: Io,
  { namespace, kubeconfig, context }: AccessOptions,
  isCluster: boolean,
): Promise<string> {
  return namespace ?? (isCluster ? await io.clusters.namespaceOf({ kubeconfig, context }) : DEFAULT_NAMESPACE);
}

/** Says on stderr what of the objects makes an answer doubtful. @param label what they are called, before each line */
export function tellDoubts(io: Io, [manifests, judged]: Parameters<typeof doubtsOf>, label = ""): void {
  for (const doubt of doubtsOf(manifests, judged)) io.err.write(`${printable(`${label}${doubt}`)}\n`);
}

/** The beginning of what to write instead, indented. */
function replacementText(yaml: string): string {
  const lines = yaml.trimEnd().split("\n");
  const shown = lines.slice(0, LONGEST_REPLACEMENT).map((line) => `    ${printable(line)}\n`);
  const left = lines.length - shown.length;
  const rest = left > 0 ? `    # and ${left} more lines: \`drawbridge policy lint\` prints all of them\n` : "";
  return `  write instead:\n${shown.join("")}${rest}`;
}

/** Tells problems or remarks on the stream for them. */
export function tellAll(io: Io, list: Manifests["problems"]): void {
  for (const { file, line, message, replacement } of list.slice(0, MOST_SHOWN)) {
    io.err.write(`${printable(`${locationText(file, line)}: ${message}`)}\n`);
    if (replacement !== undefined) io.err.write(replacementText(replacement));
  }
  if (list.length > MOST_SHOWN) io.err.write(`and ${list.length - MOST_SHOWN} more\n`);
}
