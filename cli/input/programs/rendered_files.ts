import { Buffer } from "node:buffer";
import type { Command } from "commander";
import type { Io } from "../../io.ts";
import type { ManifestFileSystem } from "../manifest_files.ts";
import { helmTemplate, kustomized } from "./programs.ts";

/** Returns the files together with texts, each as a file of its name. */
export function withTexts(files: ManifestFileSystem, texts: ReadonlyMap<string, string>): ManifestFileSystem {
  return {
    ...files,
    typeOf: (path) => (texts.has(path) ? "file" : files.typeOf(path)),
    read(path) {
      const text = texts.get(path);
      return text === undefined ? files.read(path) : [Buffer.from(text)];
    },
  };
}

/**
 * Runs the programs for a command's options `--kustomize` and `--helm`, and appends their outputs to the values of
 * `-f`. It does nothing for a command without these options.
 *
 * @param texts gets the outputs, by names that say where they come from
 * @throws DrawbridgeError ERR_INPUT as {@link kustomized} and {@link helmTemplate}
 */
export async function renderOptions({ programs }: Io, texts: Map<string, string>, command: Command): Promise<void> {
  const [kustomize, helm, values] = [
    listOf(command, "kustomize"),
    listOf(command, "helm"),
    listOf(command, "helmValues"),
  ];
  const given: unknown = command.getOptionValue("namespace");
  const namespace = typeof given === "string" ? given : undefined;
  const names: string[] = [];
  const add = (name: string, text: string): void => {
    texts.set(name, text);
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
