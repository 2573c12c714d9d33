import type { Change } from "../../kernel/nftables/change.ts";
import type { Element, Table, TableReference } from "../../kernel/nftables/object.ts";
import type { Nftables } from "../../kernel/nftables/socket.ts";
import type { TableState } from "../../kernel/nftables/state.ts";
import type { Cancel, Clock } from "../clock.ts";
import type { Logger } from "../log/logger.ts";
import type { Claim, TableKey } from "./claim.ts";
import { tableKey } from "./claim.ts";
import type { Commit } from "./commit.ts";
import type { ElementPlace } from "./desired_elements.ts";
import { DesiredElements } from "./desired_elements.ts";
import type { SetDifference } from "./difference.ts";
import { changesOf, countOf, setDifference } from "./difference.ts";
import { Mirror, readInto } from "./mirror.ts";
import { adoptTable, replaceTable } from "./plan.ts";
import { isOurs, isWrittenByRules } from "./schema.ts";
import type { KnownRules } from "./static_difference.ts";
import { knownRules, setDifferences, staticDifferences } from "./static_difference.ts";
import { deleteWritten } from "./written_elements.ts";

/** What the ruleset needs from outside, and when it acts. */
export interface RulesetOptions {
  readonly kernel: Nftables;
  readonly clock: Clock;
  readonly logger: Logger;
  /** Our tables with the versions of their schemas (`withVersion`). */
  readonly tables: readonly Table[];
  /** Milliseconds between two batches of a burst; a change after a pause is committed at once. */
  readonly minSyncPeriod: number;
  /** Milliseconds between two looks at whether anybody else changed the ruleset. */
  readonly syncPeriod: number;
}

/** How the ruleset is doing. */
export interface RulesetStatus {
  /** Whether the kernel has all that is desired. */
  readonly isSynced: boolean;
  readonly elements: number;
  readonly pending: number;
  /** Since when the kernel lacks something that is desired, by the clock; undefined when it lacks nothing. */
  readonly pendingSince: number | undefined;
  readonly commits: number;
  readonly failures: number;
  /** Objects and elements that somebody else had changed and that were put right. */
  readonly repairs: number;
  /** Times a table was written as a whole: at a first start, an upgrade, a repair of its rules. */
  readonly replacements: number;
  readonly lastError: string | undefined;
}

const FIRST_RETRY = 50;
const LAST_RETRY = 5000;

type Phase = "stopped" | "unread" | "synced";

/**
 * Keeps the kernel's tables as they are desired.
 *
 * Changes are collected by key and committed as one batch. What a batch does is the difference between what is desired
 * and a mirror of the kernel, for the changed keys alone. A batch that fails leaves everything pending; the mirror is
 * then thrown away, since the answer and not the batch may have been lost, and read from the kernel before the next.
 */
export class Ruleset {
  readonly #options: RulesetOptions;
  readonly #desired = new DesiredElements();
  readonly #dirty = new Map<TableKey, Map<string, Set<string>>>();
  readonly #known = new Map<TableKey, KnownRules>();
  #mirror = new Mirror();
  #phase: Phase = "stopped";
  #generation = 0;
  #lastCommit = Number.NEGATIVE_INFINITY;
  #retry = FIRST_RETRY;
  #timer: { readonly at: number; readonly cancel: Cancel } | undefined;
  #verification: Cancel | undefined;
  #counts = { commits: 0, failures: 0, repairs: 0, replacements: 0 };
  #lastError: string | undefined;
  #pendingSince: number | undefined;
  readonly #followers: ((commit: Commit) => void)[] = [];

  constructor(options: RulesetOptions) {
    this.#options = options;
  }

  /**
   * Begins to write. What was claimed before is part of the first batch, so a daemon that has read the cluster first
   * never takes away what an earlier one had put there and is still wanted.
   */
  start(): void {
    this.#phase = "unread";
    this.#pendingSince ??= this.#options.clock.now();
    this.#commit();
    this.#verifyLater();
  }

  /** Stops writing; the tables stay. */
  stop(): void {
    this.#phase = "stopped";
    this.#unschedule();
    this.#verification?.();
  }

  /**
   * Sets what an owner claims; an empty list takes all of it away.
   *
   * It is committed with what else changes in the same turn of the event loop or, in a burst, within `minSyncPeriod`;
   * if `isUrgent`, without that wait.
   */
  claim(owner: string, claims: readonly Claim[], isUrgent = false): void {
    const places = this.#desired.replace(owner, claims);
    if (places.length > 0) this.#pendingSince ??= this.#options.clock.now();
    // The start compares everything.
    if (this.#phase !== "stopped") for (const place of places) this.#mark(place);
    // After a failure the time of the next try is set, and a change does not hasten it.
    if (this.#dirty.size > 0 && this.#phase === "synced") this.#schedule(isUrgent ? 0 : this.#wait());
  }

  /**
   * Commits what is pending now.
   *
   * @returns whether the kernel has all that is desired; if not, it is tried again by itself
   */
  flush(): boolean {
    if (this.#phase !== "stopped") this.#commit();
    return this.#isSynced();
  }

  /** Has somebody told, right after it, that the kernel has all that is desired. He may only make a note of it. */
  follow(follower: (commit: Commit) => void): void {
    this.#followers.push(follower);
  }

  /** Deletes elements of a set that rules have written, at once. @returns, @throws as {@link deleteWritten} */
  deleteWritten(reference: TableReference, name: string, isMeant: (element: Element) => boolean): number {
    const table = this.tableNamed(reference.family, reference.name);
    const set = table?.sets.find((definition) => definition.name === name);
    if (table === undefined || set === undefined || this.#phase === "stopped") return 0;
    const { kernel } = this.#options;
    return deleteWritten({ kernel, commit: (changes) => this.#send(changes), table, set }, isMeant);
  }

  /**
   * Puts right what somebody else changed. Called when the kernel tells of a change, and periodically.
   *
   * @param tables the tables the change was about; all when unknown
   */
  verify(tables: readonly Table[] = this.#options.tables): void {
    if (this.#phase !== "synced") return;
    try {
      // What is pending would look like somebody else's doing.
      this.#commitDirty();
      const generation = this.#options.kernel.generation();
      for (const table of tables) this.#verifyTable(table);
      this.#generation = generation;
    } catch (error) {
      this.#failed(error);
    }
  }

  /** Our tables. */
  get tables(): readonly Table[] {
    return this.#options.tables;
  }

  /** Our table of this name, when it is one. */
  tableNamed(family: string, name: string): Table | undefined {
    return this.#options.tables.find((table) => table.family === family && table.name === name);
  }

  status(): RulesetStatus {
    return {
      isSynced: this.#isSynced(),
      elements: this.#desired.size,
      pending: this.#phase === "stopped" ? this.#desired.size : this.#countDirty(),
      pendingSince: this.#pendingSince,
      ...this.#counts,
      lastError: this.#lastError,
    };
  }

  #isSynced(): boolean {
    return this.#phase === "synced" && this.#dirty.size === 0;
  }

  #countDirty(): number {
    return [...this.#dirty.values()].flatMap((sets) => [...sets.values()]).reduce((sum, keys) => sum + keys.size, 0);
  }

  #mark({ table, set, key }: ElementPlace): void {
    const sets = this.#dirty.get(table) ?? new Map<string, Set<string>>();
    this.#dirty.set(table, sets);
    const keys = sets.get(set) ?? new Set<string>();
    sets.set(set, keys);
    keys.add(key);
  }

  #wait(): number {
    return Math.max(0, this.#lastCommit + this.#options.minSyncPeriod - this.#options.clock.now());
  }

  /** Sets the time of the next batch, unless one is due before. */
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

  #commit(): void {
    this.#unschedule();
    try {
      if (this.#phase === "unread") this.#commitAll();
      else this.#commitDirty();
      this.#retry = FIRST_RETRY;
      this.#lastError = undefined;
    } catch (error) {
      this.#failed(error);
    }
  }

  /** Nothing pending is forgotten: what is desired stays, and all of it is compared after the next reading. */
  #failed(error: unknown): void {
    const { logger } = this.#options;
    this.#counts.failures++;
    this.#lastError = error instanceof Error ? error.message : String(error);
    this.#pendingSince ??= this.#options.clock.now();
    logger.error("the kernel refused a batch; it is read again and the rest is tried again", {
      error: this.#lastError,
      retryMilliseconds: this.#retry,
    });
    this.#phase = "unread";
    this.#unschedule();
    this.#schedule(this.#retry);
    this.#retry = Math.min(2 * this.#retry, LAST_RETRY);
  }

  #commitDirty(): void {
    const differences: SetDifference[] = [];
    for (const table of this.#options.tables) {
      for (const [name, keys] of this.#dirty.get(tableKey(table)) ?? []) {
        const set = table.sets.find((definition) => definition.name === name);
        if (set === undefined) throw new Error(`claim for ${tableKey(table)} ${name}, which the schema does not have`);
        const wanted = { get: (key: string) => this.#desired.element({ table: tableKey(table), set: name, key }) };
        differences.push(setDifference(table, set, this.#mirror.elements(table, name), wanted, keys));
      }
    }
    this.#write(changesOf(differences));
    for (const difference of differences) this.#mirror.apply(difference);
    this.#dirty.clear();
    this.#tell({ isWhole: false, differences });
  }

  #tell(commit: Commit): void {
    this.#pendingSince = undefined;
    for (const follower of this.#followers) follower(commit);
  }

  /** Brings all tables in order: at the start, and after a failure, when only the kernel knows what it has. */
  #commitAll(): void {
    const changes: Change[] = [];
    const all: SetDifference[] = [];
    const after: (() => void)[] = [];
    const mirror = new Mirror();
    this.#generation = this.#options.kernel.generation();
    for (const table of this.#options.tables) {
      const state = this.#options.kernel.table(table);
      const known = this.#known.get(tableKey(table));
      const problems = state === undefined ? ["missing"] : staticDifferences(table, state, known);
      if (state !== undefined && problems.length === 0) {
        readInto(mirror, this.#options.kernel, table);
        const differences = this.#wholeDifferences(table, mirror);
        // Rules that we wrote in this process are compared by the verification; those we find are written anew.
        if (known === undefined) changes.push(...adoptTable(table));
        changes.push(...changesOf(differences));
        all.push(...differences);
        after.push(() => {
          for (const difference of differences) mirror.apply(difference);
        });
      } else {
        changes.push(...this.#replacement(table, state));
        after.push(() => this.#loadDesired(table, mirror));
        this.#options.logger.info("a table is written as a whole", { table: tableKey(table), because: problems[0] });
        this.#counts.replacements++;
      }
    }
    this.#write(changes);
    for (const action of after) action();
    this.#mirror = mirror;
    this.#dirty.clear();
    for (const table of this.#options.tables) this.#learn(table);
    this.#phase = "synced";
    this.#tell({ isWhole: true, differences: all });
  }

  #loadDesired(table: Table, mirror: Mirror): void {
    for (const set of table.sets) {
      if (!isWrittenByRules(set)) mirror.loadByKey(table, set.name, this.#desired.elements(table, set.name));
    }
  }

  #wholeDifferences(table: Table, present: Mirror): readonly SetDifference[] {
    return table.sets
      .filter((set) => !isWrittenByRules(set))
      .map((set) => {
        const wanted = this.#desired.elements(table, set.name);
        const here = present.elements(table, set.name);
        return setDifference(table, set, here, wanted, new Set([...here.keys(), ...wanted.keys()]));
      });
  }

  /** Replaces a table, keeping what rules had written into sets of the same name and shape. */
  #replacement(table: Table, state: TableState | undefined): readonly Change[] {
    if (state !== undefined && !isOurs(state.comment)) {
      this.#options.logger.warn("a table of our name had no version of ours and is replaced", {
        table: tableKey(table),
      });
    }
    const elements = new Map<string, readonly Element[]>();
    for (const set of table.sets) {
      const old = state?.sets.get(set.name);
      if (!isWrittenByRules(set)) elements.set(set.name, [...this.#desired.elements(table, set.name).values()]);
      else if (old !== undefined && setDifferences(table, set, old).length === 0) {
        elements.set(set.name, this.#options.kernel.elements(table, set));
      }
    }
    return replaceTable(table, state !== undefined, elements);
  }

  #write(changes: readonly Change[]): void {
    if (changes.length === 0) return;
    this.#lastCommit = this.#options.clock.now();
    this.#send(changes);
  }

  #send(changes: readonly Change[]): void {
    const { kernel } = this.#options;
    kernel.commit(changes);
    this.#counts.commits++;
    const generation = kernel.generation();
    // Any other step than by one means that somebody else committed meanwhile: the next verification looks.
    if (generation === this.#generation + 1) this.#generation = generation;
  }

  #learn(table: Table): void {
    const state = this.#options.kernel.table(table);
    if (state !== undefined) this.#known.set(tableKey(table), knownRules(state));
  }

  #verifyTable(table: Table): void {
    const { kernel, logger } = this.#options;
    const state = kernel.table(table);
    const problems =
      state === undefined ? ["missing"] : staticDifferences(table, state, this.#known.get(tableKey(table)));
    if (problems.length > 0) {
      logger.warn("somebody changed a table of ours; it is written anew", {
        table: tableKey(table),
        found: problems.slice(0, 3).join("; "),
      });
      this.#write(this.#replacement(table, state));
      this.#loadDesired(table, this.#mirror);
      this.#learn(table);
      this.#counts.repairs += problems.length;
      this.#counts.replacements++;
      this.#tell({ isWhole: true, differences: [] });
      return;
    }
    readInto(this.#mirror, kernel, table);
    const differences = this.#wholeDifferences(table, this.#mirror).filter(
      (one) => one.deleted.length + one.added.length > 0,
    );
    if (differences.length === 0) return;
    logger.warn("somebody changed elements of ours; they are put right", {
      table: tableKey(table),
      sets: differences.map(({ set }) => set.name).join(", "),
    });
    this.#write(changesOf(differences));
    for (const difference of differences) this.#mirror.apply(difference);
    this.#counts.repairs += countOf(differences);
    this.#tell({ isWhole: true, differences });
  }

  #verifyLater(): void {
    const { clock, syncPeriod, kernel } = this.#options;
    this.#verification = clock.after(syncPeriod, () => {
      let hasChanged = true;
      try {
        hasChanged = kernel.generation() !== this.#generation;
      } catch (error) {
        this.#failed(error);
      }
      if (hasChanged) this.verify();
      this.#verifyLater();
    });
  }
}
