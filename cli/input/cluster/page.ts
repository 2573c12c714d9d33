import { type PageEnd, PageReader } from "../../../policyd/sources/api/page.ts";
import type { Resource } from "./resources.ts";

/** One page of a list. */
export interface Page<T> extends Pick<PageEnd, "next"> {
  readonly items: readonly T[];
}

/**
 * Reads one answer of the API server; only one of its items is parsed into a tree at a time.
 *
 * @param take returns what to retain of an item; the list's kind and apiVersion are put into the item
 * @throws DrawbridgeError ERR_OBJECT for anything but one list of the resource's kind
 */
export function readPage<T>(
  body: Iterable<Uint8Array>,
  resource: Pick<Resource, "kind" | "apiVersion">,
  take: (object: unknown) => T,
): Page<T> {
  const items: T[] = [];
  const reader = new PageReader(resource);
  for (const chunk of body) for (const item of reader.push(chunk)) items.push(take(item));
  return { items, next: reader.end().next };
}
