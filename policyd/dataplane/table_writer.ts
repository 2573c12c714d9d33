import type { Change } from "../../kernel/nftables/change.ts";
import type { Table } from "../../kernel/nftables/object.ts";
import type { Nftables } from "../../kernel/nftables/socket.ts";
import type { TableBatch } from "./batch.ts";
import { changesOf } from "./batch.ts";
import type { Following } from "./batch_plan.ts";
import { nextBatch } from "./batch_plan.ts";
import { tableKey } from "./claim.ts";
import type { DesiredElements } from "./desired_elements.ts";
import type { DesiredObjects, ObjectPlace } from "./desired_objects.ts";
import type { SetDifference } from "./difference.ts";
import { KnownRules, rulesDigest } from "./known_rules.ts";
import { Mirror } from "./mirror.ts";
import { Pending, settle } from "./pending.ts";
import { markElements } from "./table_objects.ts";
import type { TableFindings } from "./table_reading.ts";
import { readTable } from "./table_reading.ts";

export interface TableWriterParts {
  readonly kernel: Nftables;
  readonly tables: readonly Table[];
  readonly objects: DesiredObjects;
  readonly elements: DesiredElements;
}

/** The work of reading between two turns of the event loop ({@link readTable}). */
export const READ_WORK = 64;

/** Tables that are read bit by bit. */
export type Reading = Generator<number, readonly TableFindings[]>;

/** Reads on until so much work is done. @returns the findings when all is read */
export function readOn(reading: Reading, work: number): readonly TableFindings[] | undefined {
  for (let done = 0; done < work;) {
    const step = reading.next();
    if (step.done === true) return step.value;
    done += step.value;
  }
  return undefined;
}

/** Chains whose rules were written, and are not known yet as the kernel shows them. */
interface Unlearned {
  readonly chains: readonly { readonly table: Table; readonly name: string }[];
  /** The number of the ruleset that has these rules. */
  readonly generation: number;
}

/** What a batch did. */
export interface Written {
  readonly following: Following;
  /** Whether there was anything to do. */
  readonly isCommitted: boolean;
  /** What was changed, but for tables that were written as a whole. */
  readonly differences: readonly SetDifference[];
}

/** Brings tables of the kernel, step by step, to what is desired, and keeps account of what they have. */
export class TableWriter {
  readonly #parts: TableWriterParts;
  readonly #known = new KnownRules();
  /** What may differ from what is desired. */
  readonly pending = new Pending();
  #mirror = new Mirror();
  #generation = 0;
  #unlearned: Unlearned | undefined;

  constructor(parts: TableWriterParts) {
    this.#parts = parts;
  }

  /** The number of the ruleset as far as we know what was changed; the kernel's is another one when somebody else did. */
  get generation(): number {
    return this.#generation;
  }

  /** Forgets what was read and what is pending: only the kernel knows what it has. */
  forget(): void {
    this.#mirror = new Mirror();
    this.pending.clear();
    this.#unlearned = undefined;
  }

  /** A set or a chain is wanted that was not, or no longer. */
  markObject(place: ObjectPlace): void {
    this.pending.markObject(place);
    const { table, kind, name } = place;
    const set = kind === "set" ? this.#parts.objects.set(table, name) : undefined;
    if (set === undefined) return;
    // It may still be there and have elements of before, which nobody was to take out of a set that goes.
    markElements(this.pending.table(table), set, this.#mirror.elements(table, name).keys());
  }

  /**
   * Reads tables from the kernel. In what they differ from what is desired is pending behind it.
   *
   * @returns in what they are not as they were taken to be, a table each; it yields the work of each piece
   *   ({@link readTable})
   * @throws NetlinkError, SyscallError when the kernel cannot be read
   */
  *read(tables: readonly Table[]): Reading {
    this.learn();
    const sources = { ...this.#parts, known: this.#known, mirror: this.#mirror, pending: this.pending };
    // What somebody commits while we read may be seen or not: the next verification looks.
    this.#generation = this.#parts.kernel.generation();
    const found: TableFindings[] = [];
    for (const table of tables) found.push(yield* readTable(table, sources));
    return found;
  }

  /**
   * Commits what is pending, or a slice of it. Who has no haste calls {@link learn} behind it.
   *
   * @param limit how much makes a slice ({@link nextBatch})
   * @throws NetlinkError, SyscallError, DrawbridgeError when the kernel refuses or does not answer: only it knows then
   *   what it has, and all has to be read again
   */
  commitNext(limit: number): Written {
    const { tables, objects, elements } = this.#parts;
    const sources = { tables, objects, elements, mirror: this.#mirror, pending: this.pending };
    const batch = nextBatch(sources, limit);
    const changes = changesOf(batch.tables);
    const hasRules = batch.tables.some(({ writtenChains }) => writtenChains.length > 0);
    // Who waits for elements that lead to rules that were just written needs those in force, not known.
    if (hasRules || this.#concernsUnlearned(batch.tables)) this.learn();
    const before = hasRules ? this.#parts.kernel.generation() : 0;
    const generation = changes.length > 0 ? this.#commit(changes) : 0;
    for (const table of batch.tables) this.#mirror.apply(table);
    if (batch.following === "nothing") this.pending.clear();
    else for (const table of batch.tables) settle(table, sources);
    // Somebody else who waited for this batch comes right behind it: from his commit on the rules may be his.
    const isAlone = generation === before + 1;
    if (changes.length > 0) this.#noteChains(batch.tables, isAlone ? generation : undefined);
    const differences = batch.tables.flatMap((table) => (table.isWhole ? [] : table.differences));
    return { following: batch.following, isCommitted: changes.length > 0, differences };
  }

  /**
   * Commits changes: also of what nobody desires, since rules have written it.
   *
   * @returns the number of the ruleset after it
   * @throws as {@link commitNext}
   */
  send(changes: readonly Change[]): number {
    this.learn();
    return this.#commit(changes);
  }

  /** Whether there are chains to {@link learn}. */
  get isLearning(): boolean {
    return this.#unlearned !== undefined;
  }

  /**
   * Notes how the kernel shows the rules that were written last: behind the batch, since it takes as long, and before the
   * next one that has to do with rules and every look at the tables.
   *
   * @throws NetlinkError, SyscallError when the kernel cannot be read
   */
  learn(): void {
    const { kernel } = this.#parts;
    if (this.#unlearned === undefined) return;
    const { chains, generation } = this.#unlearned;
    this.#unlearned = undefined;
    const digests = chains.map(({ table, name }) => rulesDigest(kernel.rulesOf(table, name)));
    // When somebody else has committed, these may be his rules: unknown ones are written anew by the verification.
    if (kernel.generation() !== generation) return;
    for (const [index, { table, name }] of chains.entries()) this.#known.set(tableKey(table), name, digests[index]);
  }

  /** Whether a batch does anything to a chain whose rules are not known yet. */
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
    // Any other step than by one means that somebody else committed meanwhile: the next verification looks.
    if (generation === this.#generation + 1) this.#generation = generation;
    if (unlearned !== undefined && generation === unlearned.generation + 1) {
      this.#unlearned = { ...unlearned, generation };
    }
    return generation;
  }

  /** @param generation the number of the ruleset that the batch made; undefined where somebody else has committed as well */
  #noteChains(batches: readonly TableBatch[], generation: number | undefined): void {
    const chains: Unlearned["chains"][number][] = [];
    for (const { table, isAdded, writtenChains, deletedChains } of batches) {
      if (isAdded) this.#known.begin(tableKey(table));
      for (const name of deletedChains) this.#known.set(tableKey(table), name, undefined);
      for (const { name } of writtenChains) {
        this.#known.set(tableKey(table), name, undefined);
        chains.push({ table, name });
      }
    }
    if (chains.length > 0 && generation !== undefined) this.#unlearned = { chains, generation };
  }
}
