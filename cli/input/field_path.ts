import type { FieldPath } from "../../objects/yaml/documents.ts";

/** Matches the field in a gate's message: names joined by dots, `[0]`, `["a key"]`, and `key` for a map's keys. */
const FIELD = /^[A-Z]\w*(?: \S+)?: ([a-zA-Z][\w-]*(?:\.[\w-]+|\[\d+\]|\["(?:[^"\\]|\\.)*"\])*)(?: key)?: /;
const STEP = /([\w-]+)|\["((?:[^"\\]|\\.)*)"\]/g;

/**
 * Returns the field that a message of the gates is about. These have the form `Kind name: spec.ports[0].port: …`; any
 * other message is about the whole object, an empty path.
 */
export function fieldPathOf(message: string): FieldPath {
  const [, field = ""] = FIELD.exec(message) ?? [];
  return [...field.matchAll(STEP)].map(([, name, quoted]) => {
    if (name === undefined) return String(JSON.parse(`"${quoted ?? ""}"`));
    return /^\d+$/.test(name) ? Number(name) : name;
  });
}

/** Moves a gate's message to an object with the fields elsewhere: `Pod a/web-0: metadata.labels` of a template. */
export function withPathInTemplate(message: string, name: string, prefix: string): string {
  const [whole] = FIELD.exec(message) ?? [];
  const rest = message.slice(message.indexOf(": ") + 2);
  return `${name}: ${whole === undefined ? "" : `${prefix}.`}${rest}`;
}
