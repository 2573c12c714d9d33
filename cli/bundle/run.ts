import { Buffer } from "node:buffer";
import * as v from "valibot";
import { printable } from "../../objects/printable.ts";
import { ExitCode } from "../exit_code.ts";
import { daemonEntries } from "../input/input_schema.ts";
import { awayNodes, daemonPods, forEachNode, kubectl, type KubectlAccess } from "../input/programs/daemons.ts";
import { BOUNDS, type ProgramResult } from "../input/programs/programs.ts";
import type { Io } from "../io.ts";
import { type Item, itemsOfCluster, itemsOfNode } from "./collected.ts";
import { type ArchivedText, tarOf } from "./tar.ts";

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
export async function runBundle(io: Io, options: unknown): Promise<ExitCode> {
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
