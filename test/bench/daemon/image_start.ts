import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import * as v from "valibot";

const CONTAINERFILE = fileURLToPath(new URL("../../../manifests/image/Containerfile", import.meta.url));

/** The options with which the daemon is started on a node. */
export interface ImageStart {
  /** Options for Node, before the bundle. */
  readonly nodeOptions: readonly string[];
  readonly environment: Readonly<Record<string, string>>;
}

/**
 * Reads the options from the image's Containerfile, so that a benchmark measures what a node runs.
 *
 * @throws Error where it has none
 */
export function imageStart(containerfile: string = readFileSync(CONTAINERFILE, "utf8")): ImageStart {
  const entry: unknown = JSON.parse(/^ENTRYPOINT (\[.*\])$/m.exec(containerfile)?.[1] ?? "[]");
  const [node, ...rest] = v.parse(v.array(v.string()), entry);
  const bundle = rest.pop();
  if (node === undefined || bundle === undefined) throw new Error("Containerfile: no ENTRYPOINT of Node and a bundle");
  const environment: Record<string, string> = {};
  for (const [, name = "", value = ""] of containerfile.matchAll(/^ENV (\w+)=(\S+)$/gm)) {
    if (name !== "PATH") environment[name] = value;
  }
  return { nodeOptions: rest, environment };
}
