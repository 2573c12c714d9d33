import type { LocatedObject } from "../../policyd/source/documents.ts";
import { readJsonObjects, readYamlObjects } from "../../policyd/source/documents.ts";

/**
 * What `take` makes of each object of a manifest: of YAML documents, or of JSON values one after the other; lists opened.
 *
 * Of a JSON list only one item is a tree at a time, so what is kept of each decides how much memory a list of 10,000 pods
 * takes.
 *
 * @param take must not keep the object it is given, or its `lineOf`, where there may be many
 * @throws DrawbridgeError ERR_OBJECT naming the line
 */
export function readManifestObjects<T>(
  chunks: Iterable<Uint8Array>,
  format: "json" | "yaml",
  take: (object: LocatedObject) => T,
): readonly T[] {
  return format === "json" ? readJsonObjects(chunks, take) : [...readYamlObjects(textOf(chunks))].map(take);
}

function textOf(chunks: Iterable<Uint8Array>): string {
  const decoder = new TextDecoder();
  const parts = [...chunks].map((chunk) => decoder.decode(chunk, { stream: true }));
  return parts.join("") + decoder.decode();
}
