import { DrawbridgeError } from "../../kernel/error.ts";
import { printable, shortList } from "../../objects/printable.ts";
import type { Io } from "../io.ts";
import { nearestNames } from "../../objects/nearest_names.ts";
import { readCluster } from "./cluster/read_cluster.ts";
import { type Manifests, type ReadingReport, readManifests } from "./manifests.ts";
import { DEFAULT_NAMESPACE } from "./objects/take.ts";
import { CLUSTER, locationText } from "./place.ts";
import type { Reading } from "./reading.ts";
import { doubtsOf } from "./doubts.ts";
import { counted } from "../output/text.ts";

/** The most lines of one kind that are printed. */
const MOST_SHOWN = 20;
/** The most names in one message. */
const MOST_NAMED = 5;
/** The most lines of a replacement object that are printed. */
const LONGEST_REPLACEMENT = 60;

/** The options that choose a cluster. */
export interface AccessOptions {
  readonly kubeconfig?: string | undefined;
  readonly context?: string | undefined;
  /** The namespace of objects in files, and of ends of a connection, that name none. */
  readonly namespace?: string | undefined;
  /** Milliseconds; Infinity for no limit. */
  readonly requestTimeout: number;
}

/** The options that say where the objects are. */
export interface InputOptions extends AccessOptions, Reading {
  readonly filename: readonly string[];
  readonly recursive: boolean;
  /** Reads the running cluster instead of files. */
  readonly cluster: boolean;
  /** The objects are only part of an input, so doubts about the answer are not reported. */
  readonly isPart?: boolean;
  /** Begins the messages about these objects where there are several sets: `old: `. */
  readonly label?: string;
}

/**
 * Reads the objects that a command is asked about; all of them are valid.
 *
 * @throws DrawbridgeError ERR_INPUT after each problem is reported with file and line: an answer about policies needs
 *   them all
 */
export async function loadManifests(io: Io, input: InputOptions): Promise<Manifests> {
  const manifests = await readInput(io, input);
  const { problems, remarks, omitted } = manifests;
  tellAll(io, omitted);
  tellAll(io, remarks);
  tellAll(io, problems);
  if (problems.length === 0) {
    if (input.isPart !== true) tellDoubts(io, [manifests.manifests], input.label);
    return manifests;
  }
  const count = problems.length === 1 ? "one problem" : `${problems.length} problems`;
  throw new DrawbridgeError(
    "ERR_INPUT",
    `${count} in what was read; expected objects that the API server accepts: correct them`,
  );
}

/** Checks that standard input is in one list of paths at most. @throws DrawbridgeError ERR_INPUT where it is not */
export function expectOneReading(readings: readonly (readonly string[])[]): void {
  if (readings.filter((paths) => paths.includes("-")).length < 2) return;
  throw new DrawbridgeError("ERR_INPUT", "-: standard input can be read once; expected a file for the other");
}

/**
 * Reads objects as {@link loadManifests} does, for commands that take places as arguments.
 *
 * @param places paths, or only the word `cluster` for the running one
 * @throws DrawbridgeError ERR_INPUT also for the cluster and files together
 */
export async function loadPlaces(
  io: Io,
  places: readonly string[],
  options: Omit<InputOptions, "filename" | "cluster">,
): Promise<Manifests> {
  const cluster = places.includes(CLUSTER);
  if (cluster && places.length > 1) {
    throw new DrawbridgeError("ERR_INPUT", `${CLUSTER}: give nothing beside it; a file of this name is ./${CLUSTER}`);
  }
  return loadManifests(io, { ...options, cluster, filename: cluster ? [] : places });
}

/**
 * Reads the objects and their problems without reporting these, and prints one line about what was read.
 *
 * @throws DrawbridgeError ERR_INPUT for paths that lead nowhere or to no manifest, and a cluster that cannot be read
 */
export async function readInput(io: Io, input: InputOptions): Promise<Manifests> {
  const manifests = await readUnreported(io, input);
  if (input.quiet !== true) io.err.write(`${summaryText(manifests.reading)}\n`);
  const absence = input.isPart === true ? undefined : absentText(input.namespace, manifests);
  if (absence !== undefined) io.err.write(`${printable(`${input.label ?? ""}${absence}`)}\n`);
  const { files, skipped } = manifests.reading;
  if (files.length === 0 && skipped.length > 0) {
    const names = skipped.slice(0, MOST_NAMED).map(({ file, reason }) => `${file} (${reason})`);
    throw new DrawbridgeError("ERR_INPUT", `no manifest in what was given; expected one: ${names.join(", ")}`);
  }
  return manifests;
}

/** Returns a line about a namespace in which nothing is, which may be a typing error; undefined for any other. */
function absentText(namespace: string | undefined, { manifests }: Manifests): string | undefined {
  // Commands give `default` where the user has given nothing.
  if (namespace === undefined || namespace === DEFAULT_NAMESPACE) return undefined;
  const names = new Set(
    manifests.flatMap(({ object }) =>
      "namespace" in object ? object.namespace : object.kind === "Namespace" ? object.name : [],
    ),
  );
  if (names.size === 0 || names.has(namespace)) return undefined;
  const [nearest] = nearestNames(namespace, names);
  return `nothing was read in namespace ${namespace}${nearest === undefined ? "" : `; did you mean ${nearest}?`}`;
}

async function readUnreported(io: Io, input: InputOptions): Promise<Manifests> {
  const { filename, recursive, cluster, namespace, kubeconfig, context, requestTimeout } = input;
  if (!cluster) return readManifests(io.files, filename, recursive, namespace, input);
  const limit = requestTimeout === Infinity ? undefined : requestTimeout;
  return readCluster(io.clusters, { kubeconfig, context, requestTimeout: limit }, input.waysIn);
}

/**
 * Returns the namespace for names without one: the one on the command line; for a cluster the kubeconfig's, as with
 * kubectl; for files `default`, so that an answer does not depend on the machine.
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

/** Prints on stderr what makes an answer doubtful. @param label begins each line */
export function tellDoubts(io: Io, [manifests, reported]: Parameters<typeof doubtsOf>, label = ""): void {
  for (const doubt of doubtsOf(manifests, reported)) io.err.write(`${printable(`${label}${doubt}`)}\n`);
}

/** Returns the first lines of a replacement, indented. */
function replacementText(yaml: string): string {
  const lines = yaml.trimEnd().split("\n");
  const shown = lines.slice(0, LONGEST_REPLACEMENT).map((line) => `    ${printable(line)}\n`);
  const left = lines.length - shown.length;
  const rest = left > 0 ? `    # and ${left} more lines: \`drawbridge policy lint\` prints all of them\n` : "";
  return `  write instead:\n${shown.join("")}${rest}`;
}

/** Prints problems or remarks on stderr. */
export function tellAll(io: Io, list: Manifests["problems"]): void {
  for (const { file, line, message, replacement } of list.slice(0, MOST_SHOWN)) {
    io.err.write(`${printable(`${locationText(file, line)}: ${message}`)}\n`);
    if (replacement !== undefined) io.err.write(replacementText(replacement));
  }
  if (list.length > MOST_SHOWN) io.err.write(`and ${list.length - MOST_SHOWN} more\n`);
}

/** Returns one line about the input: the number of objects and files, and what was ignored or skipped and why. */
function summaryText({ files, objects, ignored, unread, skipped }: ReadingReport): string {
  const parts = [
    `read ${counted(objects, "object")} ${placeText(files)}`,
    ...(ignored.size === 0 ? [] : [`ignored ${kindsText(ignored)}: no answer depends on these kinds`]),
    ...(unread.size === 0
      ? []
      : [`did not read ${kindsText(unread)}: pods and rules that these make are in no answer`]),
    ...(skipped.length === 0
      ? []
      : [`skipped ${shortList(skipped, MOST_NAMED, ({ file, reason }) => `${file} (${reason})`)}`]),
  ];
  return printable(parts.join("; "));
}

function kindsText(kinds: ReadonlyMap<string, number>): string {
  const sorted = [...kinds].toSorted(([a], [b]) => (a < b ? -1 : 1));
  return shortList(sorted, MOST_NAMED, ([kind, count]) => `${count} ${kind}`);
}

function placeText(files: readonly string[]): string {
  const [first, ...others] = files;
  if (first === undefined) return "in no file";
  if (first === CLUSTER) return "of the cluster";
  if (others.length > 0) return `in ${files.length} files`;
  return first === "-" ? "on standard input" : `in ${first}`;
}
