import { DrawbridgeError } from "../../../kernel/error.ts";
import { asList, itemOf } from "../documents.ts";
import { JsonScanner, parseJson, unreadable } from "../json_scanner.ts";
import { member } from "./member.ts";
import type { Listed } from "./resources.ts";

/** What stands around the items of a part of a list. */
export interface PageEnd {
  /** What asks for the next part; empty behind the last. */
  readonly next: string;
  /** Of the whole list; empty where the server gives none. */
  readonly resourceVersion: string;
}

/** Reads one part of a list as it arrives; of its items only one is a tree at a time. */
export class PageReader {
  readonly #resource: Pick<Listed, "kind" | "apiVersion">;
  readonly #scanner = new JsonScanner();
  #frame: unknown;

  constructor(resource: Pick<Listed, "kind" | "apiVersion">) {
    this.#resource = resource;
  }

  /**
   * The items that end in this chunk; the list's kind and apiVersion are put into them.
   *
   * @throws DrawbridgeError ERR_OBJECT for what is no JSON, or more than one list
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
      throw new DrawbridgeError("ERR_OBJECT", `${found}; expected a ${kind}List of ${apiVersion}`);
    }
    // The scanner cuts out the items of one list; of a second there would be no trace.
    if (list.items.length > 0) throw new DrawbridgeError("ERR_OBJECT", "items: expected one list of them");
    return { next: textOf(this.#frame, "continue"), resourceVersion: textOf(this.#frame, "resourceVersion") };
  }
}

function textOf(list: unknown, name: string): string {
  const text = member(list, "metadata", name) ?? "";
  if (typeof text !== "string") throw new DrawbridgeError("ERR_OBJECT", `metadata.${name}: expected a text`);
  return text;
}
