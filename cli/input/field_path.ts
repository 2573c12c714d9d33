import type { FieldPath } from "../../policyd/source/documents.ts";

/** A field in a message of the gates: names with dots between them, `[0]`, `["a key"]`, and `key` for the keys of a map. */
const FIELD = /^[A-Z]\w*(?: \S+)?: ([a-zA-Z][\w-]*(?:\.[\w-]+|\[\d+\]|\["(?:[^"\\]|\\.)*"\])*)(?: key)?: /;
const STEP = /([\w-]+)|\["((?:[^"\\]|\\.)*)"\]/g;

/**
 * The field that a message of the gates is about: they have the form `Kind name: spec.ports[0].port: …`. What is no such
 * message is about the whole object: an empty path.
 */
export function fieldPathOf(message: string): FieldPath {
  const [, field = ""] = FIELD.exec(message) ?? [];
  return [...field.matchAll(STEP)].map(([, name, quoted]) => {
    if (name === undefined) return String(JSON.parse(`"${quoted ?? ""}"`));
    return /^\d+$/.test(name) ? Number(name) : name;
  });
}

/** A message of the gates about another object, whose fields are elsewhere: `Pod a/web-0: metadata.labels` of a template. */
export function retold(message: string, name: string, prefix: string): string {
  const [whole] = FIELD.exec(message) ?? [];
  const rest = message.slice(message.indexOf(": ") + 2);
  return `${name}: ${whole === undefined ? "" : `${prefix}.`}${rest}`;
}
