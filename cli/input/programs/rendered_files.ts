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
 * Runs the programs for a command's options `--kustomize` and `--helm`, and puts their outputs among the values of `-f`,
 * in the order of the command line. It does nothing for a command without {@link keepSources}.
 *
 * @param texts gets the outputs, by names that say where they come from
 * @throws DrawbridgeError ERR_INPUT as {@link kustomized} and {@link helmTemplate}
 */
export async function renderOptions({ programs }: Io, texts: Map<string, string>, command: Command): Promise<void> {
  const given: unknown = command.getOptionValue("namespace");
  const namespace = typeof given === "string" ? given : undefined;
  const values = listOf(command, "helmValues");
  const sources = listOf(command, SOURCES);
  if (sources.length === 0) return;
  const names: string[] = [];
  for (const source of sources) {
    const [option = ""] = source.split(" ", 1);
    const place = source.slice(option.length + 1);
    names.push(option === "filename" ? place : source);
    if (option === "kustomize") texts.set(source, await kustomized(programs, place));
    if (option === "helm") texts.set(source, await helmTemplate(programs, place, { namespace, values }));
  }
  command.setOptionValue("filename", names);
}

/** The name under which a command keeps the values of `-f`, `--kustomize` and `--helm`, each after its option's name. */
const SOURCES = "sources";

/** Keeps the places that a command is given in the order of its command line: the first one is the old side of `diff`. */
export function keepSources(command: Command): Command {
  for (const option of ["filename", "kustomize", "helm"]) {
    command.on(`option:${option}`, (place: string) => {
      command.setOptionValue(SOURCES, [...listOf(command, SOURCES), `${option} ${place}`]);
    });
  }
  return command;
}

/** Returns the values of an option that may occur several times. */
function listOf(command: Command, option: string): readonly string[] {
  const values: unknown = command.getOptionValue(option);
  return Array.isArray(values) ? values.filter((one) => typeof one === "string") : [];
}
