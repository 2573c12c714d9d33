import { printable } from "../../objects/printable.ts";

/** The name in place of a file for objects of a running cluster. */
export const CLUSTER = "cluster";

/** Returns the place of an object for people: `web.yaml:12`, `standard input:3`, `cluster`. */
export function locationText(file: string, line = 1): string {
  if (file === CLUSTER) return file;
  return `${file === "-" ? "standard input" : printable(file)}:${line}`;
}

/** Returns what a command reads, for people: its files, or the word `cluster`. */
export function sourcesOf(input: {
  readonly cluster: boolean;
  readonly filename: readonly string[];
}): readonly string[] {
  return input.cluster ? [CLUSTER] : input.filename;
}
