import * as v from "valibot";
import { Buffer } from "node:buffer";
import { printable } from "../../objects/printable.ts";
import { ExitCode, type Io } from "../io.ts";
import { daemonEntries } from "../input/input_schema.ts";
import { awayNodes, daemonPods, forEachNode, kubectl, type KubectlAccess } from "../input/programs/daemons.ts";
import { BOUNDS, type ProgramResult } from "../input/programs/programs.ts";
import { type Item, itemsOfCluster, itemsOfNode } from "./collected.ts";

const optionsSchema = v.object({
  ...daemonEntries,
  node: v.optional(v.string()),
});

const QUESTION = { option: "bundle", expected: "pods", otherwise: "run drawbridge node doctor on each node" };
const ROOT = "drawbridge-bundle";

/**
 * Writes the archive. Missing parts are named on standard error and in the archive.
 *
 * @throws DrawbridgeError ERR_INPUT where kubectl is missing or fails, and without a daemon
 */
export async function runBundle(io: Io, options: unknown): Promise<ExitCode | string> {
  if (io.out.isTerminal) return "the archive is not for a terminal: append > bundle.tar";
  const { node, ...access } = v.parse(optionsSchema, options);
  const unlisted: string[] = [];
  const onUnlisted = (reason: string): number => unlisted.push(`${ROOT}: nodes without a daemon: ${reason}`);
  const question = { ...QUESTION, node, onUnlisted };
  const daemons = await daemonPods(io.programs, access, question);
  const away = await awayNodes(io.programs, access, question, daemons);
  const collect = async (items: readonly Item[]): Promise<readonly Collected[]> => {
    const all: Collected[] = [];
    for (const item of items) all.push(await collected(io, access, item));
    return all;
  };
  const ofNodes = await forEachNode(daemons, (daemon) => collect(itemsOfNode(ROOT, daemon)));
  const all = [...(await collect(itemsOfCluster(ROOT, access.drawbridgeNamespace))), ...ofNodes.flat()];
  const missing = [
    ...all.flatMap(({ problem }) => problem ?? []),
    ...unlisted,
    ...away.flatMap((one) => (one.pod === undefined ? [`${ROOT}/${one.node}: the node has no daemon`] : [])),
  ];
  const list = { directory: ROOT, name: "missing.txt", text: missing.map((text) => `${text}\n`).join("") };
  const files = [...all, ...(missing.length === 0 ? [] : [list])];
  for (const part of tarOf(files, Math.floor(Date.now() / 1000))) io.out.writeFile(Buffer.from(part));
  for (const text of missing) io.err.write(`not collected: ${printable(text)}\n`);
  return missing.length === 0 ? ExitCode.YES : ExitCode.NO;
}

interface Collected extends ArchivedText {
  /** Why it is missing. */
  readonly problem?: string;
}

async function collected(io: Io, access: KubectlAccess, item: Item): Promise<Collected> {
  const { command, args } = kubectl(access, item.args);
  const result = await io.programs.run(command, args, BOUNDS);
  // A doctor that finds something ends with exit code 1.
  const text = "output" in result ? (result.output ?? "") : "";
  const isThere = result.type === "printed" || text !== "";
  const problem = `${item.directory}/${item.name}: ${failureText(result)}`;
  return { directory: item.directory, name: item.name, text, ...(isThere ? {} : { problem }) };
}

function failureText(result: ProgramResult): string {
  return result.type === "failed" ? `kubectl ended with ${result.how}: ${result.words.trim()}` : result.type;
}

/** A text in an archive. */
interface ArchivedText {
  /** At most 155 characters. */
  readonly directory: string;
  /** At most 100 characters. */
  readonly name: string;
  readonly text: string;
}

const BLOCK = 512;

/**
 * Yields a tar archive (POSIX.1-1988, "ustar") of texts in UTF-8, which is a text itself.
 *
 * @param seconds the time of the files, since 1970
 */
function* tarOf(files: Iterable<ArchivedText>, seconds: number): Generator<string> {
  for (const { directory, name, text } of files) {
    const size = Buffer.byteLength(text);
    yield header(directory, name, size, seconds);
    yield text;
    yield "\0".repeat((BLOCK - (size % BLOCK)) % BLOCK);
  }
  yield "\0".repeat(2 * BLOCK);
}

function header(directory: string, name: string, size: number, seconds: number): string {
  const octal = (value: number, width: number): string => `${value.toString(8).padStart(width - 1, "0")}\0`;
  const text = (value: string, width: number): string => value.slice(0, width).padEnd(width, "\0");
  const start = text(name, 100) + octal(0o644, 8) + octal(0, 8) + octal(0, 8) + octal(size, 12) + octal(seconds, 12);
  const end = `0${text("", 100)}ustar\x0000${text("", 64)}${octal(0, 8)}${octal(0, 8)}${text(directory, 155)}`;
  // The sum counts its own field as blanks.
  const sum = Buffer.from(`${start}        ${end}`).reduce((total, byte) => total + byte, 0);
  return `${start}${sum.toString(8).padStart(6, "0")}\0 ${end}`.padEnd(BLOCK, "\0");
}
