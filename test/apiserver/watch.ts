import type { Cancel, Clock } from "../../policyd/lib/clock.ts";
import type { WatchFault } from "./faults.ts";
import { type Change, type RawObject, recordOf, type Storage } from "./storage.ts";

/** The receiver of an answer: its head first, then its body. */
export interface Answer {
  head(status: number, headers: Readonly<Record<string, string>>): void;
  write(text: string): void;
  end(): void;
  /** Resets the connection. */
  reset(): void;
}

export type Selects = (object: RawObject) => boolean;

interface Kind {
  readonly path: string;
  /** The path under which its objects are stored: the same for all versions of a kind. */
  readonly stored: string;
  readonly kind: string;
  readonly apiVersion: string;
}

/** One watch that a client has open. */
export class Watch {
  readonly path: string;
  readonly #kind: Kind;
  readonly #answer: Answer;
  readonly #selects: Selects;
  readonly #storage: Storage;
  readonly #endings: Cancel[] = [];
  /** Nothing older is sent, also after a restore (cacheWatcher of the API server). */
  readonly #from: number;
  #last = "";
  #isOpen = true;
  #isSilent = false;
  #hasProxy = false;

  /** @param onEnd called once, for any kind of end */
  constructor(
    parts: {
      readonly kind: Kind;
      readonly answer: Answer;
      readonly selects: Selects;
      readonly storage: Storage;
      readonly clock: Clock;
    },
    timeout: number,
    from: number,
    onEnd: () => void,
  ) {
    this.#from = from;
    this.#kind = parts.kind;
    this.path = parts.kind.path;
    this.#answer = parts.answer;
    this.#selects = parts.selects;
    this.#storage = parts.storage;
    const follow = parts.storage.follow((change) => {
      if (change.path === parts.kind.stored && change.version > this.#from) this.tell(change);
    });
    this.#endings.push(
      onEnd,
      follow,
      parts.clock.after(timeout, () => this.strike({ type: "close" })),
      this.#bookmarks(parts.clock),
    );
  }

  /** Sends a change as it appears to a client that sees only the selected objects. */
  tell({ version, before, after }: Change): void {
    const was = before !== undefined && this.#selects(before);
    if (after !== undefined && this.#selects(after)) this.event(was ? "MODIFIED" : "ADDED", after);
    else if (was) {
      const metadata = { ...recordOf(before["metadata"]), resourceVersion: `${version}` };
      this.event("DELETED", { ...before, metadata });
    }
  }

  event(type: string, object: RawObject): void {
    const { kind, apiVersion } = this.#kind;
    this.#line({ type, object: type === "ERROR" ? object : { ...object, kind, apiVersion } });
  }

  bookmark(endsList = false): void {
    if (!endsList && this.#storage.version < this.#from) return;
    const annotations = endsList ? { "k8s.io/initial-events-end": "true" } : {};
    this.event("BOOKMARK", { metadata: { resourceVersion: `${this.#storage.version}`, annotations } });
  }

  /** Sends a bookmark each minute (bookmarkFrequency of the API server). */
  #bookmarks(clock: Clock): Cancel {
    let cancel: Cancel = () => {};
    const next = (): void => {
      cancel = clock.after(60_000, () => {
        this.bookmark();
        if (this.#hasProxy) this.#answer.write("\n");
        next();
      });
    };
    next();
    return () => cancel();
  }

  /** Applies a fault. */
  strike(fault: WatchFault): void {
    if (!this.#isOpen || this.#isSilent) return;
    switch (fault.type) {
      case "silence":
        this.#isSilent = true;
        this.#hasProxy = fault.hasProxy === true;
        return;
      case "duplicate":
        if (this.#last !== "") this.#answer.write(this.#last);
        return;
      case "garbage":
        this.#answer.write("}{ no JSON\n");
        return this.#end(false);
      case "truncate":
        this.#answer.write('{"type":"ADDED","object":{"kind":"Po');
        return this.#end(fault.isReset);
      case "error": {
        const { status } = fault;
        const reason = status === 410 ? "Expired" : "InternalError";
        this.event("ERROR", { kind: "Status", apiVersion: "v1", code: status, reason, message: "a fault of the test" });
        return this.#end(false);
      }
      case "close":
        return this.#end(false);
    }
  }

  /** Ends it because the client or the server has gone. */
  drop(): void {
    this.#isOpen = false;
    for (const ending of this.#endings.splice(0)) ending();
  }

  #line(value: unknown): void {
    if (!this.#isOpen || this.#isSilent) return;
    this.#last = `${JSON.stringify(value)}\n`;
    this.#answer.write(this.#last);
  }

  #end(isReset: boolean): void {
    this.drop();
    if (isReset) this.#answer.reset();
    else this.#answer.end();
  }
}
