/** The file of objects that are a running cluster's. */
export const CLUSTER = "cluster";

/** Where an object stands, in words: `web.yaml:12`, `standard input:3`, `cluster`. */
export function locationText(file: string, line = 1): string {
  if (file === CLUSTER) return file;
  return `${file === "-" ? "standard input" : file}:${line}`;
}
