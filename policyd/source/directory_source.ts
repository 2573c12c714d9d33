import { setImmediate as untilEventsAreTold } from "node:timers/promises";
import { DrawbridgeError } from "../../kernel/error.ts";
import type { Verdict } from "../cluster/gate.ts";
import { judge } from "../cluster/gate.ts";
import type { ClusterObject, Kind } from "../cluster/model.ts";
import type { Cancel, Clock } from "../clock.ts";
import { readObjects } from "./documents.ts";
import { ObjectFiles } from "./object_files.ts";
import type { ObjectSink, ObjectSource } from "./object_source.ts";
import type { DirectoryEvent, FileState, WatchedDirectory } from "./watched_directory.ts";

/** The YAML library reads half a megabyte a second, JSON is read a hundred times faster. */
const LARGEST_YAML = 16 * 1024 * 1024;
const LARGEST_JSON = 64 * 1024 * 1024;
/** A file written in place is read when it was left alone for so long, one that never is after the longer time. */
const SETTLE_MILLISECONDS = 50;
const LONGEST_SETTLE_MILLISECONDS = 1000;
/** Several changes at once are one scan. */
const GATHER_MILLISECONDS = 2;
/** How often everything is looked at: for changes that were not told, and for files that could not be read. */
const RESCAN_MILLISECONDS = 5000;
/** How often a directory that is away is looked for: nothing tells when it comes back. */
const MISSING_MILLISECONDS = 500;
/** How long files are looked at, or objects read, without letting others run. */
const SLICE_MILLISECONDS = 20;

/**
 * The objects in the files of a directory, followed as they change.
 *
 * A file takes effect whole: one that was renamed into place at once, one that is written in place when it is left
 * alone. One that cannot be read keeps what it held before. While the directory is missing everything stays.
 */
export class DirectorySource implements ObjectSource {
  readonly #directory: WatchedDirectory;
  readonly #clock: Clock;
  readonly #files = new ObjectFiles();
  /** The signature each file was last read with, or could not be. */
  readonly #seen = new Map<string, string>();
  /** Files that are waited for, and since when. */
  readonly #unsettled = new Map<string, number>();
  /** What was told of a file since it was read: a "change" after a "rename" counts. */
  readonly #events = new Map<string, DirectoryEvent>();
  readonly #due = new Set<string>();
  #isAllDue = true;
  #nextRescan = 0;
  #sink: ObjectSink | undefined;
  #told: ReadonlySet<string> = new Set();
  /** Of the directory as a whole. */
  #problem: string | undefined;
  #isListed = false;
  #isSynced = false;
  #isScanning = false;
  #wake: { readonly at: number; readonly cancel: Cancel } | undefined;

  constructor(directory: WatchedDirectory, clock: Clock) {
    this.#directory = directory;
    this.#clock = clock;
  }

  start(sink: ObjectSink): void {
    this.#sink = sink;
    this.#wakeIn(0);
  }

  find(kind: Kind, key: string): ClusterObject | undefined {
    return this.#files.find(kind, key);
  }

  count(kind: Kind): number {
    return this.#files.count(kind);
  }

  problems(): readonly string[] {
    return [...(this.#problem === undefined ? [] : [this.#problem]), ...this.#files.problems()];
  }

  stop(): void {
    this.#sink = undefined;
    this.#wake?.cancel();
    this.#directory.close();
  }

  #onEvent(event: DirectoryEvent, fileName: string | undefined): void {
    if (fileName === undefined) this.#isAllDue = true;
    else {
      this.#due.add(fileName);
      if (this.#events.get(fileName) !== "change") this.#events.set(fileName, event);
    }
    this.#wakeIn(GATHER_MILLISECONDS);
  }

  #wakeIn(milliseconds: number): void {
    const at = this.#clock.now() + milliseconds;
    if (this.#sink === undefined || this.#isScanning || (this.#wake !== undefined && this.#wake.at <= at)) return;
    this.#wake?.cancel();
    const cancel = this.#clock.after(milliseconds, () => {
      this.#wake = undefined;
      void this.#scan();
    });
    this.#wake = { at, cancel };
  }

  async #scan(): Promise<void> {
    this.#isScanning = true;
    const isFull = this.#isAllDue || this.#clock.now() >= this.#nextRescan;
    const names = isFull ? this.#all() : [...this.#due, ...this.#unsettled.keys()];
    this.#due.clear();
    let sliceEnd = performance.now() + SLICE_MILLISECONDS;
    for (const name of names) {
      await this.#examine(name, isFull);
      if (performance.now() < sliceEnd) continue;
      await untilEventsAreTold();
      sliceEnd = performance.now() + SLICE_MILLISECONDS;
    }
    this.#isScanning = false;
    if (this.#sink === undefined) return;
    this.#tell(this.#sink);
    if (this.#isAllDue || this.#due.size > 0) this.#wakeIn(GATHER_MILLISECONDS);
    if (this.#unsettled.size > 0) this.#wakeIn(SETTLE_MILLISECONDS);
    this.#wakeIn(Math.max(0, this.#nextRescan - this.#clock.now()));
  }

  /** Every file there is or was; none when the directory is away. */
  #all(): readonly string[] {
    this.#isAllDue = false;
    // Followed before it is listed, so that nothing changes unseen in between.
    const unfollowed = problemOf(() => {
      this.#directory.follow((event, fileName) => {
        this.#onEvent(event, fileName);
      });
    });
    let names: readonly string[] = [];
    const unlisted = problemOf(() => {
      names = [...new Set([...this.#directory.list(), ...this.#files.names()])].sort();
    });
    this.#isListed = unlisted === undefined;
    this.#nextRescan = this.#clock.now() + (this.#isListed ? RESCAN_MILLISECONDS : MISSING_MILLISECONDS);
    if (unlisted !== undefined) this.#problem = `${unlisted}: the objects known from it stay`;
    else if (unfollowed !== undefined) this.#problem = `${unfollowed}: it is looked at every ${RESCAN_MILLISECONDS} ms`;
    else this.#problem = undefined;
    return names;
  }

  async #examine(name: string, isFull: boolean): Promise<void> {
    try {
      const state = this.#directory.look(name);
      if (state === undefined) {
        this.#files.remove(name);
        this.#forget(name);
        this.#seen.delete(name);
        return;
      }
      const isKnown = this.#seen.get(name) === state.signature;
      if (isKnown && !(isFull && this.#files.isUnreadable(name))) {
        this.#forget(name);
        return;
      }
      if (await this.#isSettled(name, state)) await this.#read(name, state);
    } catch (error) {
      this.#files.keep(name, messageOf(error));
      // Nobody can tell when it is left alone; the next look at everything tries again.
      this.#forget(name);
    }
  }

  /** Whether the writer has finished, as far as can be told; otherwise the file is looked at again. */
  async #isSettled(name: string, state: FileState): Promise<boolean> {
    const since = this.#unsettled.get(name) ?? this.#clock.now();
    this.#unsettled.set(name, since);
    // inotify queues a write's event before stat can see the write: after one round of the event loop it has been told.
    await untilEventsAreTold();
    const wasRenamed = this.#events.get(name) === "rename" && state.size > 0;
    const isLeftAlone = this.#clock.time() - state.modifiedAt >= SETTLE_MILLISECONDS;
    return wasRenamed || isLeftAlone || this.#clock.now() - since >= LONGEST_SETTLE_MILLISECONDS;
  }

  async #read(name: string, state: FileState): Promise<void> {
    const reading = await this.#attempt(name);
    const isSame = this.#directory.look(name)?.signature === state.signature;
    const since = this.#unsettled.get(name) ?? Number.NEGATIVE_INFINITY;
    // Written while it was read: it is looked at again, unless that never ends.
    if (!isSame && this.#clock.now() - since < LONGEST_SETTLE_MILLISECONDS) return;
    if (typeof reading === "string") this.#files.keep(name, reading);
    else this.#files.put(name, reading);
    this.#seen.set(name, state.signature);
    this.#forget(name);
  }

  /** What the gates say of the file's objects, or why it cannot be read. */
  async #attempt(name: string): Promise<readonly Verdict[] | string> {
    const verdicts: Verdict[] = [];
    try {
      const text = this.#directory.read(name, name.endsWith(".json") ? LARGEST_JSON : LARGEST_YAML);
      let sliceEnd = performance.now() + SLICE_MILLISECONDS;
      for (const value of readObjects(text, name)) {
        verdicts.push(judge(value));
        if (performance.now() < sliceEnd) continue;
        await untilEventsAreTold();
        sliceEnd = performance.now() + SLICE_MILLISECONDS;
      }
      return verdicts;
    } catch (error) {
      return messageOf(error);
    }
  }

  #forget(name: string): void {
    this.#unsettled.delete(name);
    this.#events.delete(name);
  }

  #tell(sink: ObjectSink): void {
    const changes = this.#files.takeChanges();
    if (changes.length > 0) sink.changed(changes);
    const problems = new Map(this.#files.problemsByKind().map(({ text, kind }) => [text, kind]));
    for (const [text, kind] of problems) if (!this.#told.has(text)) sink.problem(text, kind);
    const own = this.#problem === undefined ? [] : [this.#problem];
    for (const text of own) if (!this.#told.has(text)) sink.sourceProblem(text);
    this.#told = new Set([...problems.keys(), ...own]);
    if (this.#isSynced || this.#unsettled.size > 0 || !this.#isListed) return;
    this.#isSynced = true;
    sink.synced();
  }
}

/** Why an action failed; undefined when it did not. @throws what is not of our family: it is a bug */
function problemOf(action: () => void): string | undefined {
  try {
    action();
    return undefined;
  } catch (error) {
    return messageOf(error);
  }
}

/** @throws what is not of our family: it is a bug */
function messageOf(error: unknown): string {
  if (error instanceof DrawbridgeError) return error.message;
  throw error;
}
