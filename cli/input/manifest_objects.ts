import type { BrokenObject, LocatedObject } from "../../policyd/source/documents.ts";
import { readJsonObjects, readYamlObjects } from "../../policyd/source/documents.ts";

/**
 * What `take` makes of each object of a manifest: of YAML documents, or of JSON values one after the other; lists opened.
 *
 * Of a list only one item is a tree at a time, so what is kept of each decides how much memory a list of 10,000 pods
 * takes.
 *
 * @param take must not keep the object it is given, or its `lineOf`, where there may be many
 * @param passes of YAML returns whether a broken object is passed over; none is without it
 * @throws DrawbridgeError ERR_OBJECT naming the line
 */
export function readManifestObjects<T>(
  chunks: Iterable<Uint8Array>,
  format: "json" | "yaml",
  take: (object: LocatedObject) => T,
  passes?: (broken: BrokenObject) => boolean,
): readonly T[] {
  if (format === "json") return readJsonObjects(chunks, take);
  const taken: T[] = [];
  // One at a time: what was taken of an object is far smaller than its tree.
  for (const object of readYamlObjects(textOf(chunks), passes)) taken.push(take(object));
  return taken;
}

function textOf(chunks: Iterable<Uint8Array>): string {
  const decoder = new TextDecoder();
  const parts = [...chunks].map((chunk) => decoder.decode(chunk, { stream: true }));
  return parts.join("") + decoder.decode();
}
