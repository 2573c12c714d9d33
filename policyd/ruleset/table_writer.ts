import type { Change } from "../../kernel/nftables/encode/change.ts";
import { NetlinkError } from "../../kernel/netlink/error.ts";
import type { Element, SetDefinition, Table, TableReference } from "../../kernel/nftables/model/object.ts";
import { type Nftables, removalOf } from "../../kernel/nftables/socket.ts";
import { changesOf, type TableBatch } from "./batch.ts";
import { type Following, nextBatch } from "./batch_slices.ts";
import { tableKey } from "./desired/desired_element.ts";
import type { DesiredElements } from "./desired/desired_elements.ts";
import type { DesiredObjects, ObjectPlace } from "./desired/desired_objects.ts";
import type { SetDifference } from "./difference.ts";
import { type KnownRules, rulesDigest } from "./observed/known_rules.ts";
import { Mirror } from "./observed/mirror.ts";
import { Pending, settle } from "./pending.ts";
import { markElements } from "./observed/table_objects.ts";
import { readTable, type TableFindings } from "./observed/table_reading.ts";

export interface TableWriterParts {
  readonly kernel: Nftables;
  /** Our tables with the versions of their schemas (`withVersion`). */
  readonly tables: readonly Table[];
  /** Tables of ours that must not exist any more once `tables` are in force. */
  readonly obsolete: readonly TableReference[];
  readonly objects: DesiredObjects;
  readonly elements: DesiredElements;
}

/** How often the elements are looked up again when some have expired before their deletion. */
const DELETION_ATTEMPTS = 5;
/** The work of reading between two turns of the event loop ({@link readTable}). */
export const READ_WORK = 64;

/** Tables that are read piece by piece. */
export type Reading = Generator<number, readonly TableFindings[]>;

/** Continues a read until this much work is done. @returns the findings when everything is read */
export function readOn(reading: Reading, work: number): readonly TableFindings[] | undefined {
  for (let done = 0; done < work;) {
    const step = reading.next();
    if (step.done === true) return step.value;
    done += step.value;
  }
  return undefined;
}

/** Chains whose rules were written but not yet read back from the kernel. */
interface Unlearned {
  readonly chains: readonly { readonly table: Table; readonly name: string }[];
  /** The generation of the ruleset that has these rules. */
  readonly generation: number;
}

/** The outcome of a batch. */
export interface Written {
  readonly following: Following;
  /** Whether there was anything to do. */
  readonly isCommitted: boolean;
  /** The changes, except to tables that were written as a whole. */
  readonly differences: readonly SetDifference[];
}

/** Brings the kernel's tables to the desired state, step by step, and records what they contain. */
export class TableWriter {
  readonly #parts: TableWriterParts;
  readonly #known: KnownRules = new Map();
  /** Everything that may differ from the desired state. */
  readonly pending = new Pending();
  #mirror = new Mirror();
  #generation = 0;
  #unlearned: Unlearned | undefined;
  #areObsoleteGone = false;

  constructor(parts: TableWriterParts) {
    this.#parts = parts;
  }

  /** The generation of the ruleset that we know; the kernel's differs when another program has committed. */
  get generation(): number {
    return this.#generation;
  }

  /** Forgets what was read and what is pending: only the kernel knows its state. */
  forget(): void {
    this.#mirror = new Mirror();
    this.pending.clear();
    this.#unlearned = undefined;
    this.#areObsoleteGone = false;
  }

  /** Notes that a set or a chain is desired now, or no longer. */
  markObject(place: ObjectPlace): void {
    this.pending.markObject(place);
    const { table, kind, name } = place;
    const set = kind === "set" ? this.#parts.objects.set(table, name) : undefined;
    if (set === undefined) return;
    // The set may still exist with old elements, which nobody marked for deletion while the set was to be removed.
    markElements(this.pending.table(table), set, this.#mirror.elements(table, name).keys());
  }

  /**
   * Reads tables from the kernel. Marks every difference from the desired state as pending.
   *
   * @returns how each table differs from what it was believed to be; it yields the work of each piece ({@link
   *   readTable})
   * @throws NetlinkError, SyscallError when the kernel cannot be read
   */
  *read(tables: readonly Table[]): Reading {
    this.learn();
    const sources = { ...this.#parts, known: this.#known, mirror: this.#mirror, pending: this.pending };
    // A commit during the read may be missed: with the generation from before, the next check reads again.
    this.#generation = this.#parts.kernel.generation();
    const found: TableFindings[] = [];
    for (const table of tables) found.push(yield* readTable(table, sources));
    return found;
  }

  /**
   * Commits what is pending, or a slice of it. Callers that can wait call {@link learn} afterwards.
   *
   * @param limit the size of a slice ({@link nextBatch})
   * @throws NetlinkError, SyscallError, DrawbridgeError when the kernel refuses the batch or does not answer: then only
   *   the kernel knows its state, and everything has to be read again
   */
  commitNext(limit: number): Written {
    const { kernel, tables, obsolete, objects, elements } = this.#parts;
    const sources = { tables, objects, elements, mirror: this.#mirror, pending: this.pending };
    const batch = nextBatch(sources, limit);
    // In the same batch, so that a process that is killed leaves either these tables or the rules in their place.
    const isRemoval = !this.#areObsoleteGone && batch.tables.every(({ isInForce }) => isInForce);
    const removals = isRemoval ? obsolete.flatMap((table) => removalOf(kernel, table)) : [];
    const changes = [...changesOf(batch.tables), ...removals];
    const hasRules = batch.tables.some(({ writtenChains }) => writtenChains.length > 0);
    // Elements need no known rules. Callers wait for elements that lead to new rules: these only have to be in force.
    if (hasRules || this.#concernsUnlearned(batch.tables)) this.learn();
    const before = hasRules ? kernel.generation() : 0;
    const generation = changes.length > 0 ? this.#commit(changes) : 0;
    for (const table of batch.tables) this.#mirror.apply(table);
    if (batch.following === "nothing") {
      this.pending.clear();
      this.#areObsoleteGone = true;
    } else for (const table of batch.tables) settle(table, sources);
    // Another program that waited for this batch may commit right after it. From then on the rules may be its own.
    const isAlone = generation === before + 1;
    if (changes.length > 0) this.#noteChains(batch.tables, isAlone ? generation : undefined);
    const differences = batch.tables.flatMap((table) => (table.isWhole ? [] : table.differences));
    return { following: batch.following, isCommitted: changes.length > 0, differences };
  }

  /**
   * Commits changes that are not part of the desired state, such as to elements that rules have written.
   *
   * @returns the generation of the ruleset after it
   * @throws as {@link commitNext}
   */
  send(changes: readonly Change[]): number {
    this.learn();
    return this.#commit(changes);
  }

  /**
   * Deletes the elements with these keys, as far as rules have written them.
   *
   * @returns the number of deleted elements
   * @throws DrawbridgeError when the kernel refuses; an element that has expired meanwhile is not an error
   */
  deleteWritten(table: Table, set: SetDefinition, keys: readonly Element["key"][]): number {
    for (let attempt = 1; ; attempt++) {
      const meant = this.#parts.kernel.elements(table, set, keys);
      if (meant.length === 0) return 0;
      try {
        this.send([{ kind: "delete elements", table, set, elements: meant.map(({ key }) => ({ key })) }]);
        return meant.length;
      } catch (error) {
        const hasEnded = error instanceof NetlinkError && error.errnoName === "ENOENT";
        if (!hasEnded || attempt === DELETION_ATTEMPTS) throw error;
      }
    }
  }

  /** Whether {@link learn} has chains to read back. */
  get isLearning(): boolean {
    return this.#unlearned !== undefined;
  }

  /**
   * Records how the kernel shows the rules that were written last. This happens after the batch, since it takes as long
   * as the batch, and before the next batch that concerns rules and before every read of the tables.
   *
   * @throws NetlinkError, SyscallError when the kernel cannot be read
   */
  learn(): void {
    const { kernel } = this.#parts;
    if (this.#unlearned === undefined) return;
    const { chains, generation } = this.#unlearned;
    this.#unlearned = undefined;
    const read = chains.map(({ table, name }) => ({ table, name, digest: rulesDigest(kernel.rulesOf(table, name)) }));
    // If another program has committed, these may be its rules. The next check writes unknown rules again.
    if (kernel.generation() !== generation) return;
    for (const { table, name, digest } of read) this.#known.get(tableKey(table))?.set(name, digest);
  }

  /** Whether a batch changes or deletes a chain whose rules are not known yet. */
  #concernsUnlearned(batches: readonly TableBatch[]): boolean {
    const names = new Set(this.#unlearned?.chains.map(({ name }) => name));
    return batches.some(({ flushedChains, deletedChains }) =>
      [...flushedChains, ...deletedChains].some((name) => names.has(name)),
    );
  }

  /** @returns as {@link send} */
  #commit(changes: readonly Change[]): number {
    const { kernel } = this.#parts;
    const unlearned = this.#unlearned;
    kernel.commit(changes);
    const generation = kernel.generation();
    // A step by more than one means that another program committed meanwhile: the next check reads the tables.
    if (generation === this.#generation + 1) this.#generation = generation;
    if (unlearned !== undefined && generation === unlearned.generation + 1) {
      this.#unlearned = { ...unlearned, generation };
    }
    return generation;
  }

  /** @param generation the generation that the batch made; undefined when another program has committed as well */
  #noteChains(batches: readonly TableBatch[], generation: number | undefined): void {
    const chains: Unlearned["chains"][number][] = [];
    for (const { table, isAdded, writtenChains, deletedChains } of batches) {
      const known = this.#known.get(tableKey(table)) ?? new Map<string, string>();
      if (isAdded) this.#known.set(tableKey(table), known);
      for (const name of deletedChains) known.delete(name);
      for (const { name } of writtenChains) {
        known.delete(name);
        chains.push({ table, name });
      }
    }
    if (chains.length > 0 && generation !== undefined) this.#unlearned = { chains, generation };
  }
}
