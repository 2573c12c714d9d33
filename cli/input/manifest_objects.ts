import {
  type BrokenObject,
  type LocatedObject,
  readJsonObjects,
  readYamlObjects,
} from "../../objects/yaml/documents.ts";

/**
 * Returns the results of `take` for each object of a manifest: YAML documents, or JSON values in a row, with lists
 * opened.
 *
 * Only one item of a list is parsed into a tree at a time, so `take` decides how much memory 10,000 pods need.
 *
 * @param take must not retain the object it is given, or its `lineOf`, where there may be many
 * @param passes for YAML, returns whether a broken object is skipped; without it none is
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
  // Takes one object at a time: the result is far smaller than the object's tree.
  for (const object of readYamlObjects(textOf(chunks), passes)) taken.push(take(object));
  return taken;
}

function textOf(chunks: Iterable<Uint8Array>): string {
  const decoder = new TextDecoder();
  const parts = [...chunks].map((chunk) => decoder.decode(chunk, { stream: true }));
  return parts.join("") + decoder.decode();
}
