import type { Cancel, Clock } from "../../lib/clock.ts";
import type { AnswerHandler, ApiConnection } from "./connection/connection.ts";
import { readOrFail, broken, type Failure, failureText } from "./failure.ts";
import { PageReader } from "./page.ts";
import { OK, Reading, refusalOf } from "./reading.ts";
import type { Listed } from "./resources.ts";
import type { Serving } from "./serving.ts";
import {
  advance,
  INITIAL,
  isOlder,
  type ReflectorAction,
  type ReflectorEvent,
  type ReflectorState,
} from "./reflector_decision.ts";
import type { WatchEvent, WatchLines } from "./watch_lines.ts";

/** A healthy server begins to answer at once, also to a watch, and sends a list without long pauses. */
const ANSWER_SILENCE = 30_000;
/**
 * The longest time without a whole event or object of a list. A watch gets a bookmark about once a minute
 * (bookmarkFrequency of the API server). A balancer may keep the connection to a server that is dead, and send bytes.
 */
const STALL = 120_000;
/** Milliseconds between two lists because a watch reports older versions: the cache of a server may only be late. */
const BACKWARDS_PAUSE = 60_000;
/** Milliseconds without an answer after which the server may be unhealthy. */
const LATE = 2000;
/** The largest number of bytes read from the body of a refusal. */
const LONGEST_REFUSAL = 16 * 1024;

/** The parts of a reflector that all kinds share. */
export interface ReflectorParts {
  readonly connection: ApiConnection;
  readonly clock: Clock;
  /** Returns numbers from 0 up to 1. */
  readonly random: () => number;
}

/** Receives the objects that a reflector reads. A list takes effect as a whole, when it is complete. */
export interface ReflectedObjects {
  /** Begins a list, and forgets an earlier one that is not complete. */
  begin(): void;
  /** Ends a list: objects that were not in it are gone. */
  complete(): void;
  /** Notes that the server has no such list, or does not show it. */
  without(failure: Failure): void;
  /** Adds or replaces an object, from a list or a watch. */
  put(value: unknown): void;
  /** Removes an object, which is given in its last version. */
  remove(value: unknown): void;
}

/** The subject of a reflector. */
export interface Followed {
  /** The list in each version of the kind, the newest first; at least one. */
  readonly versions: readonly Listed[];
  readonly objects: ReflectedObjects;
  /** Passes on the changes of the objects so far. */
  readonly flush: () => void;
  /** Returns what is currently known about how the server serves it. */
  readonly serving: () => Serving;
  /** Called when `isListed`, `trouble`, `earliest` or `servedVersion` of the {@link Reflector} may have changed. */
  readonly moved: () => void;
  /** Called before {@link ReflectedObjects.complete} for a list that is older than the known objects. */
  readonly restored?: () => void;
}

/** A wait for the next attempt. */
interface Waiting {
  readonly cancel: Cancel;
  /** The clock's time from which it may end because the server is healthy again; undefined if it may not. */
  readonly earliest: number | undefined;
}

/**
 * Follows the objects of one kind, in the newest version that is served: a list, then a watch from there, forever.
 * {@link advance} decides all steps; this class carries them out.
 */
export class Reflector {
  readonly #parts: ReflectorParts;
  readonly #followed: Followed;
  #state: ReflectorState = INITIAL;
  #reading: Reading | undefined;
  #wait: Waiting | undefined;
  #trouble: Failure | undefined;
  /** The clock's time since which the objects may be out of date; undefined while a watch holds. */
  #staleSince: number | undefined;
  /** The clock's time from which a watch that goes back leads to another list. */
  #nextReturn = 0;

  constructor(followed: Followed, parts: ReflectorParts) {
    this.#parts = parts;
    this.#followed = followed;
    this.#staleSince = parts.clock.now();
  }

  start(): void {
    this.#on({ type: "due" });
  }

  stop(): void {
    this.#wait?.cancel();
    this.#drop();
  }

  /** Whether a whole list has been read. */
  get isListed(): boolean {
    return this.#state.isListed;
  }

  /** The failure that keeps it from the server, in words; undefined without one. */
  get trouble(): string | undefined {
    const { connection } = this.#parts;
    return this.#trouble === undefined ? undefined : failureText(this.#trouble, connection.name, this.#current.name);
  }

  /** The apiVersion of the objects in force; undefined while the server does not have the kind. */
  get servedVersion(): string | undefined {
    const { servedVersion } = this.#state;
    return servedVersion === undefined ? undefined : this.#followed.versions[servedVersion]?.apiVersion;
  }

  /** Applies a change of how the server serves the kind. */
  redefine(): void {
    this.#on({ type: "redefined" });
  }

  /** The milliseconds for which the objects may have been out of date; 0 while a watch holds. */
  get staleness(): number {
    return this.#staleSince === undefined ? 0 : this.#parts.clock.now() - this.#staleSince;
  }

  /**
   * The clock's time from which it may retry if the server is healthy: the earliest end of a wait, or when an answer is
   * late. Undefined while the objects are up to date, and for a wait that does not depend on the server's health.
   */
  get earliest(): number | undefined {
    const reading = this.#reading;
    if (reading === undefined) return this.#wait?.earliest;
    return reading.status === OK ? undefined : reading.begun + LATE;
  }

  /**
   * Shortens a wait that depends on the server's health, since the server is healthy again; Retry-After still counts.
   *
   * @param milliseconds the wait before a list; a watch is requested at once
   */
  hurry(milliseconds: number): void {
    const earliest = this.#reading === undefined ? this.#wait?.earliest : undefined;
    if (earliest === undefined) return;
    this.#on({ type: "recovered" });
    const own = this.#state.next === "list" ? milliseconds : 0;
    this.#waitFor(Math.max(own, earliest - this.#parts.clock.now()), undefined);
  }

  /**
   * Requests a watch once more if its request is from before the given time and has no answer: the server is healthy,
   * so the answer may be lost. A list is not requested again, since it may be slow and costs the server much.
   */
  repeat(before: number): void {
    const reading = this.#reading;
    if (reading === undefined || this.#state.phase !== "watching") return;
    if (reading.status === OK || reading.isRepeated || reading.begun > before) return;
    this.#on({ type: "due" });
    if (this.#reading !== undefined) this.#reading.isRepeated = true;
  }

  /** The list in the version that is requested. */
  get #current(): Listed {
    const { versions } = this.#followed;
    const listed = versions[this.#state.version] ?? versions[0];
    if (listed === undefined) throw new Error("a reflector without a list");
    return listed;
  }

  #on(event: ReflectorEvent): void {
    const { state, actions } = advance(this.#state, event, this.#followed.serving(), this.#parts.random);
    this.#state = state;
    if (event.type === "failed") this.#staleSince ??= this.#parts.clock.now();
    for (const action of actions) this.#do(action);
    if (actions.length > 0) this.#followed.moved();
  }

  #do(action: ReflectorAction): void {
    const { objects } = this.#followed;
    switch (action.type) {
      case "request":
        return this.#request(action.query);
      case "wait":
        return this.#waitFor(action.milliseconds, action.earliest);
      case "begin":
        return objects.begin();
      case "complete":
        objects.complete();
        return this.#followed.flush();
      case "without":
        objects.without(action.failure);
        return this.#followed.flush();
      case "restored":
        return this.#followed.restored?.();
      case "trouble":
        this.#trouble = action.failure;
        return;
      case "well":
        this.#trouble = undefined;
        this.#staleSince = undefined;
        return;
    }
  }

  #waitFor(milliseconds: number, earliest: number | undefined): void {
    const { clock } = this.#parts;
    this.#wait?.cancel();
    this.#wait = {
      cancel: clock.after(milliseconds, () => this.#on({ type: "due" })),
      earliest: earliest === undefined ? undefined : clock.now() + earliest,
    };
  }

  #request(query: string): void {
    this.#drop();
    this.#wait?.cancel();
    this.#wait = undefined;
    const { path, labelSelector, objectName } = this.#current;
    const byLabels = labelSelector === undefined ? "" : `&labelSelector=${encodeURIComponent(labelSelector)}`;
    const byName =
      objectName === undefined ? "" : `&fieldSelector=${encodeURIComponent(`metadata.name=${objectName}`)}`;
    const selection = `${byLabels}${byName}`;
    const page = this.#state.phase === "listing" ? new PageReader(this.#current) : undefined;
    const reading = new Reading(this.#parts.clock.now(), page);
    this.#reading = reading;
    this.#listen(reading);
    reading.cancel = this.#parts.connection.get(`${path}?${query}${selection}`, this.#handlerOf(reading));
  }

  #handlerOf(reading: Reading): AnswerHandler {
    const ifCurrent = (action: () => void): void => {
      if (this.#reading === reading) action();
      if (this.#reading === reading) this.#listen(reading);
    };
    return {
      answered: (status, retryAfter) => ifCurrent(() => this.#answered(reading, status, retryAfter)),
      data: (chunk) => ifCurrent(() => this.#data(reading, chunk)),
      ended: () => ifCurrent(() => this.#ended(reading)),
      failed: (reason) => ifCurrent(() => this.#fail(reading, refusalOf(reading) ?? broken(reason))),
    };
  }

  /** Restarts the timeouts: that for the next data, and that for the next whole event or object of a list. */
  #listen(reading: Reading): void {
    const { clock } = this.#parts;
    const fail = (): void => this.#fail(reading, refusalOf(reading) ?? { type: "silent" });
    if (reading.heard !== reading.whole) {
      reading.heard = reading.whole;
      reading.stall();
      reading.stall = clock.after(STALL, fail);
    }
    reading.silence();
    // Without changes a watch sends only bookmarks.
    const isQuiet = reading.status === OK && this.#state.phase === "watching";
    if (!isQuiet) reading.silence = clock.after(ANSWER_SILENCE, fail);
  }

  #answered(reading: Reading, status: number, retryAfter: number | undefined): void {
    reading.status = status;
    reading.retryAfter = retryAfter;
    reading.since = this.#parts.clock.now();
    reading.heard = undefined;
    if (status === OK) this.#on({ type: "answered" });
  }

  #data(reading: Reading, chunk: Uint8Array): void {
    if (reading.status !== OK) {
      const length = reading.refusal.reduce((sum, { byteLength }) => sum + byteLength, chunk.byteLength);
      if (length <= LONGEST_REFUSAL) reading.refusal.push(chunk);
      return;
    }
    const { page, lines } = reading;
    // After invalid data, the valid part of the same chunk is not used either: the next attempt reads it again.
    const failure = page === undefined ? this.#watched(reading, lines, chunk) : this.#listed(reading, page, chunk);
    this.#followed.flush();
    if (failure !== undefined) this.#fail(reading, failure);
  }

  #listed(reading: Reading, page: PageReader, chunk: Uint8Array): Failure | undefined {
    const items = readOrFail(() => [...page.push(chunk)]);
    if (!Array.isArray(items)) return items;
    reading.items += items.length;
    for (const item of items) this.#followed.objects.put(item);
    return undefined;
  }

  #watched(reading: Reading, lines: WatchLines, chunk: Uint8Array): Failure | undefined {
    const events = readOrFail(() => [...lines.push(chunk)]);
    if (!Array.isArray(events)) return events;
    for (const event of events) {
      this.#take(reading, event);
      if (this.#reading !== reading) return undefined;
    }
    return undefined;
  }

  /** Requests a list if a watch goes back; until the list says so the objects do not. @returns whether it goes back */
  #goesBack(event: WatchEvent): boolean {
    const { phase, resourceVersion } = this.#state;
    if (phase !== "watching" || event.type === "error" || !isOlder(event.resourceVersion, resourceVersion))
      return false;
    const now = this.#parts.clock.now();
    if (now >= this.#nextReturn) {
      this.#nextReturn = now + BACKWARDS_PAUSE;
      this.#on({ type: "backwards" });
    }
    return true;
  }

  #take(reading: Reading, event: WatchEvent): void {
    if (this.#goesBack(event)) return;
    switch (event.type) {
      case "set":
        this.#followed.objects.put(event.object);
        return this.#on({ type: "progress", resourceVersion: event.resourceVersion });
      case "delete":
        this.#followed.objects.remove(event.object);
        return this.#on({ type: "progress", resourceVersion: event.resourceVersion });
      case "bookmark":
        return this.#on({
          type: event.endsList ? "initialEnd" : "progress",
          resourceVersion: event.resourceVersion,
        });
      case "error": {
        const { status, words, retryAfter } = event;
        return this.#fail(reading, { type: "refused", status, words, retryAfter, isEvent: true });
      }
    }
  }

  #ended(reading: Reading): void {
    const { page, lines } = reading;
    const refusal = refusalOf(reading);
    if (refusal !== undefined) return this.#fail(reading, refusal);
    if (page === undefined) {
      return this.#fail(reading, lines.pending > 0 ? broken("a watch that ended inside an event") : { type: "closed" });
    }
    const end = readOrFail(() => page.end());
    if ("type" in end) return this.#fail(reading, end);
    if (end.resourceVersion === "") return this.#fail(reading, broken("a list without metadata.resourceVersion"));
    this.#drop();
    this.#on({ type: "page", ...end });
  }

  #fail(reading: Reading, failure: Failure): void {
    const lasted = reading.since === undefined ? 0 : this.#parts.clock.now() - reading.since;
    this.#drop();
    this.#on({ type: "failed", failure, lasted });
  }

  #drop(): void {
    const reading = this.#reading;
    this.#reading = undefined;
    reading?.silence();
    reading?.stall();
    reading?.cancel();
  }
}
