import { Buffer } from "node:buffer";
import type { Command } from "commander";
import type { Io } from "../../io.ts";
import type { ManifestFileSystem } from "../manifest_files.ts";
import { helmTemplate, kustomized } from "./programs.ts";

/** The files together with the outputs of programs, each output as a file whose name says where it comes from. */
export class RenderedFiles implements ManifestFileSystem {
  readonly #files: ManifestFileSystem;
  readonly #texts = new Map<string, string>();

  constructor(files: ManifestFileSystem) {
    this.#files = files;
  }

  /** Adds an output. */
  add(name: string, text: string): void {
    this.#texts.set(name, text);
  }

  typeOf(path: string): "file" | "directory" | undefined {
    return this.#texts.has(path) ? "file" : this.#files.typeOf(path);
  }

  isLink(path: string): boolean {
    return this.#files.isLink(path);
  }

  namesIn(directory: string): readonly string[] {
    return this.#files.namesIn(directory);
  }

  read(path: string): Iterable<Uint8Array> {
    const text = this.#texts.get(path);
    return text === undefined ? this.#files.read(path) : [Buffer.from(text)];
  }
}

/**
 * Runs the programs for a command's options `--kustomize` and `--helm`, and appends their outputs to the values of
 * `-f`. It does nothing for a command without these options.
 *
 * @throws DrawbridgeError ERR_INPUT as {@link kustomized} and {@link helmTemplate}
 */
export async function renderOptions({ programs }: Io, files: RenderedFiles, command: Command): Promise<void> {
  const [kustomize, helm, values] = [
    listOf(command, "kustomize"),
    listOf(command, "helm"),
    listOf(command, "helmValues"),
  ];
  const given: unknown = command.getOptionValue("namespace");
  const namespace = typeof given === "string" ? given : undefined;
  const names: string[] = [];
  const add = (name: string, text: string): void => {
    files.add(name, text);
    names.push(name);
  };
  for (const directory of kustomize) add(`kustomize ${directory}`, await kustomized(programs, directory));
  for (const chart of helm) add(`helm ${chart}`, await helmTemplate(programs, chart, { namespace, values }));
  if (names.length > 0) command.setOptionValue("filename", [...listOf(command, "filename"), ...names]);
}

/** Returns the values of an option that may occur several times. */
function listOf(command: Command, option: string): readonly string[] {
  const values: unknown = command.getOptionValue(option);
  return Array.isArray(values) ? values.filter((one) => typeof one === "string") : [];
}
