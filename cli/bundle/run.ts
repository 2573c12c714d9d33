import { Buffer } from "node:buffer";
import { createHash, randomBytes } from "node:crypto";
import * as v from "valibot";
import { printable } from "../../objects/printable.ts";
import { ExitCode } from "../exit_code.ts";
import { daemonPods, forEachNode, kubectl, type KubectlAccess } from "../input/programs/daemons.ts";
import { BOUNDS, printedBy, type ProgramResult } from "../input/programs/programs.ts";
import type { Io } from "../io.ts";
import { type Item, itemsOfCluster, itemsOfNode } from "./collected.ts";
import { type ArchivedText, tarOf } from "./tar.ts";

const optionsSchema = v.object({
  node: v.optional(v.string()),
  hideNames: v.boolean(),
  kubeconfig: v.optional(v.string()),
  context: v.optional(v.string()),
});

const QUESTION = { option: "bundle", expected: "pods", otherwise: "run drawbridge node doctor on each node" };
const ROOT = "drawbridge-bundle";
const POD = `{.metadata.namespace} {.metadata.name}{"\\n"}`;

/**
 * Writes the archive. Missing parts are named on standard error and in the archive.
 *
 * @throws DrawbridgeError ERR_INPUT where kubectl is missing, and without a daemon
 */
export async function runBundle(io: Io, options: unknown): Promise<ExitCode> {
  const { node, hideNames, ...access } = v.parse(optionsSchema, options);
  const daemons = await daemonPods(io.programs, access, { ...QUESTION, node });
  const hide = hideNames ? await hiding(io, access) : (text: string): string => text;
  const collect = async (items: readonly Item[]): Promise<readonly Collected[]> => {
    const all: Collected[] = [];
    for (const item of items) all.push(await collected(io, access, item));
    return all;
  };
  const ofNodes = await forEachNode(daemons, (daemon) => collect(itemsOfNode(ROOT, daemon)));
  const all = [...(await collect(itemsOfCluster(ROOT))), ...ofNodes.flat()];
  const missing = all.flatMap(({ problem }) => problem ?? []);
  const list = { directory: ROOT, name: "missing.txt", text: missing.map((text) => `${text}\n`).join("") };
  const files = [...all, ...(missing.length === 0 ? [] : [list])].map((file) => ({ ...file, text: hide(file.text) }));
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

async function hiding(io: Io, access: KubectlAccess): Promise<(text: string) => string> {
  const list = kubectl(access, ["get", "pods", "--all-namespaces", `--output=jsonpath={range .items[*]}${POD}{end}`]);
  const { option, ...words } = QUESTION;
  const text = await printedBy(io.programs, option, "kubectl", [list], words);
  const pods = text.split("\n").flatMap((line) => {
    const [namespace = "", name = ""] = line.split(" ");
    return name === "" ? [] : [{ namespace, name }];
  });
  return hiddenNames(pods, randomBytes(16).toString("hex"));
}

/** A pod's name and namespace. */
interface PodName {
  readonly namespace: string;
  readonly name: string;
}

const NAMES = /([a-z0-9-]+\/)?([A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?)/g;

/**
 * Returns a function that replaces the names of pods in a text by hashes, one name by one hash. After `NAMESPACE/` each
 * name counts as a pod's, since a log also has those of pods that are gone.
 *
 * @param salt keeps guesses from being confirmed
 */
function hiddenNames(pods: readonly PodName[], salt: string): (text: string) => string {
  const names = new Set(pods.map(({ name }) => name));
  const namespaces = new Set(pods.map(({ namespace }) => `${namespace}/`));
  const hidden = (name: string): string =>
    `hidden-${createHash("sha256").update(`${salt}/${name}`).digest("hex").slice(0, 12)}`;
  return (text) =>
    text.replaceAll(NAMES, (whole, before: string | undefined, name: string) => {
      if (names.has(name) || namespaces.has(before ?? "")) return `${before ?? ""}${hidden(name)}`;
      // A name in the cluster's DNS begins with a pod's.
      const parts = name.split(".");
      if (!parts.some((part) => names.has(part))) return whole;
      return `${before ?? ""}${parts.map((part) => (names.has(part) ? hidden(part) : part)).join(".")}`;
    });
}
