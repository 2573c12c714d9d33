import { Buffer } from "node:buffer";
import { DrawbridgeError } from "../../../kernel/error.ts";
import { member } from "./json_member.ts";

/** One line of a watch. */
export type WatchEvent =
  /** ADDED and MODIFIED are both "set", since a client cannot rely on the difference. */
  | { readonly type: "set" | "delete"; readonly object: unknown; readonly resourceVersion: string }
  /** All changes up to this version were sent; `endsList` marks the bookmark that ends a streamed list. */
  | { readonly type: "bookmark"; readonly resourceVersion: string; readonly endsList: boolean }
  | {
      readonly type: "error";
      readonly status: number;
      readonly words: string;
      readonly retryAfter: number | undefined;
    };

const NEWLINE = 0x0a;
/** Far above an object's 1.5 MiB in the API server. */
const LARGEST_LINE = 16 * 1024 * 1024;
const INITIAL_EVENTS_END = "k8s.io/initial-events-end";
const INTERNAL_ERROR = 500;
const NOTHING = Buffer.alloc(0);

/** Splits the answer to a watch into its events as it arrives. */
export class WatchLines {
  #begun: Buffer[] = [];
  #length = 0;

  /** The number of events so far. */
  count = 0;

  /** The number of bytes of a line whose end has not arrived. */
  get pending(): number {
    return this.#length;
  }

  /**
   * Yields the events whose lines end in this chunk, parsed one at a time.
   *
   * @throws DrawbridgeError ERR_OBJECT for a line that is not an event or too long
   */
  *push(chunk: Uint8Array): Generator<WatchEvent> {
    const bytes = Buffer.from(chunk.buffer, chunk.byteOffset, chunk.byteLength);
    let start = 0;
    for (let end = bytes.indexOf(NEWLINE); end >= 0; end = bytes.indexOf(NEWLINE, start)) {
      const line = this.#take(bytes.subarray(start, end));
      start = end + 1;
      if (line.trim() === "") continue;
      this.count++;
      yield readEvent(line);
    }
    const rest = bytes.subarray(start);
    this.#keep(rest);
  }

  #take(end: Buffer): string {
    this.#keep(end);
    const line = this.#begun.length === 1 ? (this.#begun[0] ?? NOTHING) : Buffer.concat(this.#begun);
    this.#begun = [];
    this.#length = 0;
    return line.toString("utf8");
  }

  #keep(part: Buffer): void {
    this.#length += part.length;
    if (this.#length > LARGEST_LINE) {
      throw new DrawbridgeError("ERR_OBJECT", `an event of more than ${LARGEST_LINE / 1024 / 1024} MiB`);
    }
    if (part.length > 0) this.#begun.push(part);
  }
}

function readEvent(line: string): WatchEvent {
  const event = parse(line);
  const object = member(event, "object");
  switch (member(event, "type")) {
    case "ADDED":
    case "MODIFIED":
      return { type: "set", object, resourceVersion: versionOf(object) };
    case "DELETED":
      return { type: "delete", object, resourceVersion: versionOf(object) };
    case "BOOKMARK": {
      const endsList = member(object, "metadata", "annotations", INITIAL_EVENTS_END) === "true";
      return { type: "bookmark", resourceVersion: versionOf(object), endsList };
    }
    case "ERROR":
      return {
        type: "error",
        status: numberOf(member(object, "code")) ?? INTERNAL_ERROR,
        words: wordsOf(object),
        retryAfter: numberOf(member(object, "details", "retryAfterSeconds")),
      };
    default:
      throw new DrawbridgeError("ERR_OBJECT", "a line that is not an event of a watch");
  }
}

/** Returns the message of the Status object in an answer; empty for anything else, as a proxy's or a starting server's. */
export function wordsIn(body: readonly Uint8Array[]): string {
  try {
    return wordsOf(JSON.parse(Buffer.concat(body).toString("utf8")));
  } catch {
    return "";
  }
}

function wordsOf(status: unknown): string {
  const message = member(status, "message");
  return typeof message === "string" ? message : "";
}

function parse(line: string): unknown {
  try {
    return JSON.parse(line);
  } catch (error) {
    throw new DrawbridgeError("ERR_OBJECT", "an event of a watch that is not JSON", { cause: error });
  }
}

/** Returns an event's version. It is required: a watch that went on without one could begin anywhere. */
function versionOf(object: unknown): string {
  const version = member(object, "metadata", "resourceVersion");
  if (typeof version === "string" && version !== "") return version;
  throw new DrawbridgeError("ERR_OBJECT", "metadata.resourceVersion: missing in an event of a watch");
}

function numberOf(value: unknown): number | undefined {
  return typeof value === "number" && Number.isFinite(value) && value >= 0 ? value : undefined;
}
