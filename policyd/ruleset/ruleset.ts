import type { Machine } from "../machine.ts";
import type { Change } from "../../kernel/nftables/encode/change.ts";
import type { Element, Table, TableReference } from "../../kernel/nftables/model/object.ts";
import type { Cancel } from "../lib/clock.ts";
import { ControlLoop } from "../lib/control_loop.ts";
import { Signal } from "../lib/signal.ts";
import { type DesiredElement, tableKey } from "./desired/desired_element.ts";
import type { Commit, SetDifference } from "./difference.ts";
import { DesiredElements } from "./desired/desired_elements.ts";
import { DesiredObjects, type ProvidedObjects } from "./desired/desired_objects.ts";
import { logRepairs, logReplacements } from "./observed/findings.ts";
import { BatchPace, type BatchPaceOptions, type Haste } from "./batch_window.ts";
import { READ_WORK, type Reading, readOn, TableWriter, type TableWriterParts } from "./table_writer.ts";

/** The dependencies of the ruleset, and when it acts. */
export interface RulesetOptions
  extends
    Pick<BatchPaceOptions, "minSyncPeriod">,
    Pick<TableWriterParts, "kernel" | "tables" | "obsolete">,
    Pick<Machine, "clock" | "logger"> {
  /** Milliseconds between two checks for changes by other programs. */
  readonly syncPeriod: number;
}

/** The state of the ruleset. */
export interface RulesetStatus {
  /** Whether the kernel has everything that is desired. */
  readonly isReconciled: boolean;
  readonly elements: number;
  readonly pending: number;
  /** Since when the kernel lacks something that is desired, by the clock; undefined when it lacks nothing. */
  readonly pendingSince: number | undefined;
  readonly commits: number;
  readonly failures: number;
  /** Objects and elements that another program changed and that were repaired. */
  readonly repairs: number;
  /** Times a table was written as a whole: at a first start, an upgrade, a repair of its rules. */
  readonly replacements: number;
  readonly lastError: string | undefined;
}

const FIRST_RETRY = 50;
const LAST_RETRY = 5000;

/** The most work of one batch while more is pending (`nextBatch`): the event loop waits for each batch. */
const SLICE_WORK = 48;

/**
 * Reconciles the kernel's tables with the desired state.
 *
 * Changes are collected by key and committed as one batch: the difference between the desired state and a mirror of the
 * kernel, for the changed keys only. If a batch fails, everything stays pending. The mirror is then read again from the
 * kernel before the next batch, since only the answer of the batch may have been lost.
 *
 * A large number of new objects is committed in slices, with turns of the event loop in between (batch_slices.ts).
 */
export class Ruleset {
  readonly #options: RulesetOptions;
  readonly #objects: DesiredObjects;
  readonly #desired = new DesiredElements();
  readonly #writer: TableWriter;
  #phase: "stopped" | "unread" | "read" = "stopped";
  readonly #pace: BatchPace;
  #retry = FIRST_RETRY;
  #timer: { readonly at: number; readonly cancel: Cancel } | undefined;
  readonly #verification: ControlLoop;
  #counts = { commits: 0, failures: 0, repairs: 0, replacements: 0 };
  #lastError: string | undefined;
  #pendingSince: number | undefined;
  /** The changes of all slices so far. */
  #differences: SetDifference[] = [];
  /** The commit in progress began with a read of the kernel. */
  #isWhole = false;
  /** Slices have been committed, and more follow. */
  #isBuilding = false;
  /** The read in progress. While the phase is "unread" it precedes all writing; otherwise it is a search. */
  #reading: Reading | undefined;
  /** The tables in which to search for changes by other programs next. */
  readonly #unsearched = new Set<Table>();
  #nextSearch: Cancel | undefined;
  /** Emits each time the kernel has just got everything that is desired. Subscribers may only make a note of that. */
  readonly committed = new Signal<Commit>();
  /** Callers that wait for the outcome of the commit in progress. */
  readonly #waiting: ((isInForce: boolean) => void)[] = [];

  constructor(options: RulesetOptions) {
    this.#options = options;
    this.#objects = new DesiredObjects(options.tables);
    this.#pace = new BatchPace(options);
    this.#verification = new ControlLoop({ clock: options.clock, pass: () => this.#verifyAgain() });
    this.#writer = new TableWriter({ ...options, objects: this.#objects, elements: this.#desired });
  }

  /**
   * Begins to write. Everything claimed until now is part of the first batch, so a daemon that has read the cluster
   * first never removes anything of its predecessor that is still desired.
   */
  start(): void {
    this.#phase = "unread";
    this.#pendingSince ??= this.#options.clock.now();
    this.#commit();
    this.#verification.within(this.#options.syncPeriod);
  }

  /** Stops writing; the tables stay. */
  stop(): void {
    this.#phase = "stopped";
    this.#unschedule();
    void this.#verification.stop();
    this.#abandon();
  }

  /**
   * Sets what an owner claims; an empty list removes all its claims.
   *
   * Claims are committed together with the other changes of the same turn of the event loop or, in a burst, within
   * `minSyncPeriod` ({@link BatchPace}). Urgent claims skip that wait. A commit fails while the set of a claim is neither
   * in the schema nor provided.
   */
  claim(owner: string, claims: readonly DesiredElement[], haste: Haste = "usual"): void {
    const places = this.#desired.replace(owner, claims);
    // The read at the start compares everything.
    if (this.#phase !== "stopped") for (const place of places) this.#writer.pending.markElement(place);
    this.#changed(places.length, haste);
  }

  /**
   * Sets which sets and chains an owner provides, all in one table; empty lists remove all of them. Objects with one
   * name are one object, which stays until its last provider gives it up.
   *
   * The change is committed like a claim, together with the claims of the same turn. An owner that removes a set or a
   * chain must also remove the claims of elements in that set, and of elements that jump to that chain, before the next
   * commit. Otherwise the commit fails.
   */
  provide(owner: string, objects: ProvidedObjects, haste: Haste = "usual"): void {
    const places = this.#objects.replace(owner, objects);
    if (this.#phase !== "stopped") for (const place of places) this.#writer.markObject(place);
    this.#changed(places.length, haste);
  }

  /**
   * Commits everything that is pending now, however much it is, or the rest of it when slices are in progress.
   *
   * @returns whether the kernel has everything that is desired; if not, the ruleset retries by itself
   */
  flush(): boolean {
    if (this.#phase !== "stopped") this.#commit(true);
    return this.isReconciled;
  }

  /**
   * Like {@link flush}, but commits a large amount in slices with turns of the event loop in between.
   *
   * @returns settles with whether the kernel has everything that is desired now
   */
  inForce(): Promise<boolean> {
    // Slices continue by themselves. However many callers ask, each slice gets a turn of the event loop.
    if (this.#phase !== "stopped" && !this.#isUnderWay()) this.#commit();
    if (this.isReconciled || !this.#isUnderWay()) return Promise.resolve(this.isReconciled);
    return new Promise((resolve) => this.#waiting.push(resolve));
  }

  /**
   * Deletes the elements with these keys at once, as far as rules have written them into a set.
   *
   * @returns the number of deleted elements
   * @throws DrawbridgeError when the kernel refuses
   */
  deleteWritten(reference: TableReference, name: string, keys: readonly Element["key"][]): number {
    const table = this.tableNamed(reference.family, reference.name);
    const set = table && this.#objects.set(tableKey(table), name);
    if (table === undefined || set === undefined || this.#phase === "stopped") return 0;
    const deleted = this.#writer.deleteWritten(table, set, keys);
    if (deleted > 0) this.#counts.commits++;
    return deleted;
  }

  /**
   * Commits changes outside our tables at once, so that they do not count as another program's change.
   *
   * @throws NetlinkError, SyscallError when the kernel refuses it
   */
  commitBeside(changes: readonly Change[]): void {
    if (changes.length === 0) return;
    this.#writer.send(changes);
    this.#counts.commits++;
  }

  /**
   * Finds and repairs what another program changed. It is called when the kernel reports a change, and periodically. A
   * large table is read piece by piece.
   *
   * @param tables the tables that the change was about; all when unknown
   */
  verify(tables: readonly Table[] = this.#options.tables): void {
    if (this.#phase === "read" && !this.#isBuilding) this.#commit();
    for (const table of tables) this.#unsearched.add(table);
    // Otherwise the read in progress may have passed the part that has changed, and the tables are read after it.
    if (this.#phase === "read" && this.#nextSearch === undefined) this.#search();
  }

  /** Our tables. */
  get tables(): readonly Table[] {
    return this.#options.tables;
  }

  /** Our table with this name, if there is one. */
  tableNamed(family: string, name: string): Table | undefined {
    return this.#options.tables.find((table) => table.family === family && table.name === name);
  }

  /** Whether the kernel has everything that is claimed. */
  get isReconciled(): boolean {
    return this.#phase === "read" && this.#writer.pending.isEmpty;
  }

  status(): RulesetStatus {
    return {
      isReconciled: this.isReconciled,
      elements: this.#desired.size,
      pending: this.#phase === "stopped" ? this.#desired.size + this.#objects.providedCount : this.#writer.pending.size,
      pendingSince: this.#pendingSince,
      ...this.#counts,
      lastError: this.#lastError,
    };
  }

  #isUnderWay(): boolean {
    return this.#isBuilding || (this.#phase === "unread" && this.#reading !== undefined);
  }

  #changed(count: number, haste: Haste): void {
    // An urgent claim of what is claimed already does not end `minSyncPeriod` for others.
    if (count === 0) return;
    this.#pendingSince ??= this.#options.clock.now();
    // After a failure the time of the retry is set, and a change does not bring it forward.
    if (this.#phase === "read" && !this.#writer.pending.isEmpty) this.#schedule(this.#pace.wait(haste));
  }

  /** Sets the time of the next batch, unless one is due earlier. */
  #schedule(milliseconds: number): void {
    const { clock } = this.#options;
    const at = clock.now() + milliseconds;
    if (this.#timer !== undefined && this.#timer.at <= at) return;
    this.#unschedule();
    this.#timer = { at, cancel: clock.after(milliseconds, () => this.#commit()) };
  }

  #unschedule(): void {
    this.#timer?.cancel();
    this.#timer = undefined;
  }

  /** @param isAtOnce slices follow each other without a turn of the event loop */
  #commit(isAtOnce = false): void {
    this.#unschedule();
    try {
      if (this.#phase === "unread" && !this.#readOn(isAtOnce)) return this.#schedule(0);
      this.#commitPending(isAtOnce);
    } catch (error) {
      this.#failed(error);
    }
  }

  /** Schedules a retry. Nothing is lost: the desired state stays, and the next read compares all of it. */
  #failed(error: unknown): void {
    this.#counts.failures++;
    this.#lastError = error instanceof Error ? error.message : String(error);
    this.#pendingSince ??= this.#options.clock.now();
    this.#options.logger.error(
      "the kernel refused a batch or a read; its tables are read again and the pending changes are retried",
      { error: this.#lastError, retryMilliseconds: this.#retry },
    );
    this.#phase = "unread";
    this.#abandon();
    this.#unschedule();
    this.#schedule(this.#retry);
    this.#retry = Math.min(2 * this.#retry, LAST_RETRY);
  }

  #commitPending(isAtOnce: boolean): void {
    for (;;) {
      const start = this.#options.clock.now();
      const { following, isCommitted, differences } = this.#writer.commitNext(SLICE_WORK);
      if (isCommitted) this.#pace.began(start);
      if (isCommitted) this.#counts.commits++;
      for (const difference of differences) this.#differences.push(difference);
      const isAnother = this.#isBuilding || following === "in another turn";
      this.#isBuilding = following !== "nothing";
      if (!this.#isBuilding) return this.#committed();
      if (isAnother && !isAtOnce) return this.#schedule(0);
    }
  }

  #committed(): void {
    // Other programs often change something twice. The second change is counted only if our own rules are known.
    if (this.#isWhole) this.#writer.learn();
    this.#retry = FIRST_RETRY;
    this.#lastError = undefined;
    this.#pendingSince = undefined;
    const commit = { isWhole: this.#isWhole, differences: this.#differences };
    this.#differences = [];
    this.#isWhole = false;
    this.committed.emit(commit);
    this.#pace.ended();
    this.#answer(true);
    if (this.#writer.isLearning) this.#options.clock.after(0, () => this.#learn());
  }

  /** Reads back the written rules, after the answer to callers: they need the rules in force, not known. */
  #learn(): void {
    try {
      if (this.#phase !== "stopped") this.#writer.learn();
    } catch (error) {
      this.#failed(error);
    }
  }

  #answer(isInForce: boolean): void {
    for (const answer of this.#waiting.splice(0)) answer(isInForce);
  }

  /**
   * Reads all tables: at the start, and after a failure, when only the kernel knows its state.
   *
   * @returns whether all of it is read
   */
  #readOn(isAtOnce: boolean): boolean {
    if (this.#reading === undefined) {
      this.#writer.forget();
      this.#differences = [];
      this.#isWhole = true;
      this.#reading = this.#writer.read(this.#options.tables);
    }
    const found = readOn(this.#reading, isAtOnce ? Infinity : READ_WORK);
    if (found === undefined) return false;
    this.#reading = undefined;
    this.#phase = "read";
    this.#searchOn();
    this.#counts.replacements += logReplacements(this.#options.logger, found);
    return true;
  }

  /** Reads a piece of the tables in which other programs may have changed something, and commits repairs. */
  #search(): void {
    this.#nextSearch = undefined;
    const before = this.#writer.pending.size;
    try {
      if (this.#reading === undefined) {
        this.#reading = this.#writer.read([...this.#unsearched]);
        this.#unsearched.clear();
      }
      const found = readOn(this.#reading, READ_WORK);
      if (found !== undefined) {
        this.#reading = undefined;
        const { repairs, replacements } = logRepairs(this.#options.logger, found);
        this.#counts.repairs += repairs;
        this.#counts.replacements += replacements;
      }
    } catch (error) {
      return this.#failed(error);
    }
    if (this.#writer.pending.size > before) {
      this.#isWhole = true;
      this.#pendingSince ??= this.#options.clock.now();
      if (!this.#isBuilding) this.#commit();
    }
    this.#searchOn();
  }

  /** Goes on with the search in another turn of the event loop, if there is anything left to read. */
  #searchOn(): void {
    if (this.#phase !== "read" || (this.#reading === undefined && this.#unsearched.size === 0)) return;
    this.#nextSearch ??= this.#options.clock.after(0, () => this.#search());
  }

  #abandon(): void {
    this.#reading?.return([]);
    this.#reading = undefined;
    this.#isBuilding = false;
    this.#pace.abandoned();
    this.#unsearched.clear();
    this.#nextSearch?.();
    this.#nextSearch = undefined;
    this.#answer(false);
  }

  /** Looks for changes of which the kernel has not notified. */
  #verifyAgain(): number {
    const { syncPeriod, kernel } = this.#options;
    let hasChanged = true;
    try {
      hasChanged = kernel.generation() !== this.#writer.generation;
    } catch (error) {
      this.#failed(error);
    }
    if (hasChanged) this.verify();
    return syncPeriod;
  }
}
