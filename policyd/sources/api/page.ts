import { DrawbridgeError } from "../../../kernel/error.ts";
import { asList, itemOf } from "../../../objects/yaml/documents.ts";
import { JsonScanner, parseJson, unreadable } from "../../../objects/yaml/json_scanner.ts";
import { member } from "./json_member.ts";
import type { Listed } from "./resources.ts";

/** The metadata of a page of a list. */
export interface PageEnd {
  /** The continue token for the next page; empty after the last. */
  readonly next: string;
  /** The version of the whole list; empty where the server gives none. */
  readonly resourceVersion: string;
}

/** Reads one page of a list as it arrives, and has only one parsed item in memory at a time. */
export class PageReader {
  readonly #resource: Pick<Listed, "kind" | "apiVersion">;
  readonly #scanner = new JsonScanner();
  #frame: unknown;

  constructor(resource: Pick<Listed, "kind" | "apiVersion">) {
    this.#resource = resource;
  }

  /**
   * Yields the items that end in this chunk, with the list's kind and apiVersion put into them.
   *
   * @throws DrawbridgeError ERR_OBJECT for invalid JSON, or for more than one list
   */
  *push(chunk: Uint8Array): Generator {
    for (const piece of this.#scanner.push(chunk)) {
      if (this.#frame !== undefined) throw unreadable("more than one value; expected one list", piece.line);
      const value = parseJson(piece);
      if (piece.type === "item") yield itemOf(this.#resource, value);
      else this.#frame = value;
    }
  }

  /** @throws DrawbridgeError ERR_OBJECT for anything but one whole list of the resource's kind */
  end(): PageEnd {
    this.#scanner.end();
    const { kind, apiVersion } = this.#resource;
    const list = asList(this.#frame);
    if (list === undefined || list.kind !== kind || list.apiVersion !== apiVersion) {
      const found = list === undefined ? "something else" : `${list.kind}List of ${String(list.apiVersion)}`;
      throw new DrawbridgeError("ERR_OBJECT", `${found}; expected ${kind}List of ${apiVersion}`);
    }
    // The scanner cuts out the items of only one list; those of a second would be lost without a trace.
    if (list.items.length > 0) throw new DrawbridgeError("ERR_OBJECT", "items: expected one list of them");
    return { next: textOf(this.#frame, "continue"), resourceVersion: textOf(this.#frame, "resourceVersion") };
  }
}

function textOf(list: unknown, name: string): string {
  const text = member(list, "metadata", name) ?? "";
  if (typeof text !== "string") throw new DrawbridgeError("ERR_OBJECT", `metadata.${name}: expected a text`);
  return text;
}
