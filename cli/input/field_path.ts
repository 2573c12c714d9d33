import type { FieldPath } from "../../policyd/source/documents.ts";

/**
 * The field that a message of the gates is about: they have the form `Kind name: spec.ports[0].port: …`. What is no such
 * message is about the whole object: an empty path.
 */
export function fieldPathOf(message: string): FieldPath {
  const [, field = ""] = /^[A-Z]\w* \S+: ([a-zA-Z][\w.[\]-]*): /.exec(message) ?? [];
  return field
    .split(/[.[]/)
    .filter((step) => step !== "")
    .map((step) => (step.endsWith("]") ? Number(step.slice(0, -1)) : step));
}
