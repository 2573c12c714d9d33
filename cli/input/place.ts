import { NAMES_ANNOTATION } from "../../objects/gate/network_policy.ts";
import type { ClusterObject } from "../../objects/model.ts";
import { printable } from "../../objects/printable.ts";
import type { FieldPath } from "../../objects/yaml/documents.ts";

/** The name in place of a file for objects of a running cluster. */
export const CLUSTER = "cluster";

/** Returns the place of an object for people: `web.yaml:12`, `standard input:3`, `cluster`. */
export function locationText(file: string, line = 1): string {
  if (file === CLUSTER) return file;
  return `${file === "-" ? "standard input" : printable(file)}:${line}`;
}

/** Returns the path of a field as the file has it. The rules that an annotation adds to a NetworkPolicy are in no list. */
export function writtenPath(object: ClusterObject | undefined, path: FieldPath): FieldPath {
  if (object?.kind !== "NetworkPolicy" || path[0] !== "spec" || path[1] !== "egress") return path;
  const rule = object.egress.find(({ index }) => index === path[2]);
  return rule?.peers?.[0]?.type === "names" ? ["metadata", "annotations", NAMES_ANNOTATION] : path;
}

/** Returns the path of a policy's rule for people: `egress[0]`, or the annotation that adds it. */
export function ruleText(object: ClusterObject | undefined, direction: "egress" | "ingress", rule: number): string {
  const isWritten = writtenPath(object, ["spec", direction, rule])[0] === "spec";
  return isWritten ? `${direction}[${rule}]` : `metadata.annotations["${NAMES_ANNOTATION}"]`;
}

/** Returns what a command reads, for people: its files, or the word `cluster`. */
export function sourcesOf(input: {
  readonly cluster: boolean;
  readonly filename: readonly string[];
}): readonly string[] {
  return input.cluster ? [CLUSTER] : input.filename;
}
