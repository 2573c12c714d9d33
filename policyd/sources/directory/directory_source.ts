import { setImmediate as untilEventsAreReported } from "node:timers/promises";
import { DrawbridgeError, problemOf } from "../../../kernel/error.ts";
import { judge, type Verdict } from "../../../objects/gate/gate.ts";
import type { ClusterObject, Kind } from "../../../objects/model.ts";
import type { Clock } from "../../lib/clock.ts";
import { ControlLoop } from "../../lib/control_loop.ts";
import { readObjects } from "../../../objects/yaml/documents.ts";
import { ObjectFiles } from "./object_files.ts";
import type { ObjectSink, ObjectSource } from "../object_source.ts";
import type { DirectoryEvent, FileState, WatchedDirectory } from "./watched_directory.ts";

/** The largest files in bytes: the YAML library reads half a megabyte a second, JSON is read a hundred times faster. */
const LARGEST_YAML = 16 * 1024 * 1024;
const LARGEST_JSON = 64 * 1024 * 1024;
/** A file written in place is read once it has not changed for this time, and after the longer time in any case. */
const SETTLE_MILLISECONDS = 50;
const LONGEST_SETTLE_MILLISECONDS = 1000;
/** The debounce time: several changes at once cost one scan. */
const GATHER_MILLISECONDS = 2;
/** The time between two full scans, which find changes without an event and read unreadable files again. */
const RESCAN_MILLISECONDS = 5000;
/** The time between two checks for a missing directory, whose return causes no event. */
const MISSING_MILLISECONDS = 500;
/** The longest time that a scan takes the thread before it lets other work run. */
const SLICE_MILLISECONDS = 20;

/**
 * Follows the objects in the files of a directory.
 *
 * A file takes effect as a whole: at once if it was renamed into place, and after its writer has finished if it is
 * written in place. The objects of a file that cannot be read stay. While the directory is missing all objects stay.
 */
export class DirectorySource implements ObjectSource {
  readonly #directory: WatchedDirectory;
  readonly #clock: Clock;
  readonly #files = new ObjectFiles();
  /** The signature of each file at its last read, also of a failed one. */
  readonly #seen = new Map<string, string>();
  /** Files whose writers may not have finished, with the clock's time of the first check. */
  readonly #unsettled = new Map<string, number>();
  /** The event of each file since it was read: a "change" after a "rename" replaces it. */
  readonly #events = new Map<string, DirectoryEvent>();
  readonly #due = new Set<string>();
  #isAllDue = true;
  #nextRescan = 0;
  #sink: ObjectSink | undefined;
  #reported: ReadonlySet<string> = new Set();
  /** The problem of the directory as a whole. */
  #problem: string | undefined;
  #isListed = false;
  #isSynced = false;
  readonly #loop: ControlLoop;

  constructor(directory: WatchedDirectory, clock: Clock) {
    this.#directory = directory;
    this.#clock = clock;
    this.#loop = new ControlLoop({ clock, pass: () => this.#scan(), pause: () => GATHER_MILLISECONDS });
  }

  start(sink: ObjectSink): void {
    this.#sink = sink;
    this.#loop.within(0);
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
    void this.#loop.stop();
    this.#directory.close();
  }

  #onEvent(event: DirectoryEvent, fileName: string | undefined): void {
    if (fileName === undefined) this.#isAllDue = true;
    else {
      this.#due.add(fileName);
      if (this.#events.get(fileName) !== "change") this.#events.set(fileName, event);
    }
    this.#loop.enqueue();
  }

  async #scan(): Promise<number> {
    const isFull = this.#isAllDue || this.#clock.now() >= this.#nextRescan;
    const names = isFull ? this.#all() : [...this.#due, ...this.#unsettled.keys()];
    this.#due.clear();
    let sliceEnd = performance.now() + SLICE_MILLISECONDS;
    for (const name of names) {
      await this.#examine(name, isFull);
      if (performance.now() < sliceEnd) continue;
      await untilEventsAreReported();
      sliceEnd = performance.now() + SLICE_MILLISECONDS;
    }
    if (this.#sink !== undefined) this.#tell(this.#sink);
    const rescan = Math.max(0, this.#nextRescan - this.#clock.now());
    return this.#unsettled.size > 0 ? Math.min(SETTLE_MILLISECONDS, rescan) : rescan;
  }

  /** Returns the names of all files that exist or existed; none when the directory is missing. */
  #all(): readonly string[] {
    this.#isAllDue = false;
    // Follow the directory before listing it, so that no change is missed in between.
    const unfollowed = problemOf(() => {
      this.#directory.follow((event, fileName) => this.#onEvent(event, fileName));
    });
    let names: readonly string[] = [];
    const unlisted = problemOf(() => {
      names = [...new Set([...this.#directory.list(), ...this.#files.names()])].sort();
    });
    this.#isListed = unlisted === undefined;
    this.#nextRescan = this.#clock.now() + (this.#isListed ? RESCAN_MILLISECONDS : MISSING_MILLISECONDS);
    if (unlisted !== undefined) this.#problem = `${unlisted}: the objects known from it stay`;
    else if (unfollowed !== undefined)
      this.#problem = `${unfollowed}: it is read every ${RESCAN_MILLISECONDS} ms instead`;
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
      // Whether its writer has finished cannot be determined; the next full scan tries again.
      this.#forget(name);
    }
  }

  /** Whether the writer seems to have finished; otherwise the next scan checks the file again. */
  async #isSettled(name: string, state: FileState): Promise<boolean> {
    const since = this.#unsettled.get(name) ?? this.#clock.now();
    this.#unsettled.set(name, since);
    // inotify queues a write's event before stat can see the write: one turn of the event loop delivers it.
    await untilEventsAreReported();
    const wasRenamed = this.#events.get(name) === "rename" && state.size > 0;
    const isLeftAlone = this.#clock.time() - state.modifiedAt >= SETTLE_MILLISECONDS;
    return wasRenamed || isLeftAlone || this.#clock.now() - since >= LONGEST_SETTLE_MILLISECONDS;
  }

  async #read(name: string, state: FileState): Promise<void> {
    const reading = await this.#attempt(name);
    const isSame = this.#directory.look(name)?.signature === state.signature;
    const since = this.#unsettled.get(name) ?? Number.NEGATIVE_INFINITY;
    // The file changed while it was read: the next scan checks it again, unless that goes on for too long.
    if (!isSame && this.#clock.now() - since < LONGEST_SETTLE_MILLISECONDS) return;
    if (typeof reading === "string") this.#files.keep(name, reading);
    else this.#files.put(name, reading);
    this.#seen.set(name, state.signature);
    this.#forget(name);
  }

  /** Returns the gate's verdicts on the file's objects, or the reason why the file cannot be read. */
  async #attempt(name: string): Promise<readonly Verdict[] | string> {
    const verdicts: Verdict[] = [];
    try {
      const text = this.#directory.read(name, name.endsWith(".json") ? LARGEST_JSON : LARGEST_YAML);
      let sliceEnd = performance.now() + SLICE_MILLISECONDS;
      for (const value of readObjects(text, name)) {
        verdicts.push(judge(value));
        if (performance.now() < sliceEnd) continue;
        await untilEventsAreReported();
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
    for (const [text, kind] of problems) if (!this.#reported.has(text)) sink.problem(text, kind);
    const own = this.#problem === undefined ? [] : [this.#problem];
    for (const text of own) if (!this.#reported.has(text)) sink.sourceProblem(text);
    this.#reported = new Set([...problems.keys(), ...own]);
    if (this.#isSynced || this.#unsettled.size > 0 || !this.#isListed) return;
    this.#isSynced = true;
    sink.synced();
  }
}

/** @throws any error but a DrawbridgeError, which is a bug */
function messageOf(error: unknown): string {
  if (error instanceof DrawbridgeError) return error.message;
  throw error;
}
