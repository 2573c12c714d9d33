import { keyText } from "../../../kernel/nftables/encode/element.ts";
import type { Element, SetDefinition, Table } from "../../../kernel/nftables/model/object.ts";
import { tableKey } from "../desired/desired_element.ts";
import { isPacked, packElement, type PackedElement } from "../desired/packed_element.ts";
import type { MirroredSet, MirroredTable } from "./mirror.ts";
import { markElements } from "./table_objects.ts";
import type { ReadingSources } from "./table_reading.ts";

/** The number of elements that take as long to read as the rules of a chain; a piece has some hundred elements. */
const ELEMENTS_PER_UNIT = 16;
/** How often a set that changes during the read is read in pieces. */
const ATTEMPTS = 4;

/**
 * Records a set's elements as the kernel lists them, piece by piece, and marks every difference from the desired
 * elements as pending.
 *
 * Anything may be committed between two pieces, and the mirror knows it by the next piece. When one of our batches
 * deletes elements of this set, the list may omit others, and the next piece may still contain the deleted ones
 * (`Nftables.elementsInPieces`). Then all elements are read again, the last time without interruption.
 *
 * @returns the number of wrong elements that were not pending before; it yields the work of each piece
 * @throws NetlinkError, SyscallError when the kernel cannot be read
 */
export function* readElements(
  table: Table,
  set: SetDefinition,
  sources: ReadingSources,
  { sets }: MirroredTable,
): Generator<number, number> {
  const { kernel, objects } = sources;
  const isThere = (): boolean => sets.has(set.name) && objects.set(tableKey(table), set.name) !== undefined;
  for (let attempt = 1; isThere(); attempt++) {
    const comparison = new SetComparison(table, set, sources, sets);
    try {
      if (attempt > ATTEMPTS) {
        comparison.take(kernel.elements(table, set));
        return comparison.wrong();
      }
      for (const piece of kernel.elementsInPieces(table, set)) {
        // The piece may be older than the batch that deleted elements, and contain them. The list goes on to its end in
        // pieces: an abandoned one is read to its end at once, for which others would wait.
        if (!comparison.isDisturbed) comparison.take(piece);
        yield piece.length / ELEMENTS_PER_UNIT;
        if (!isThere() || !comparison.isCurrent) break;
      }
      if (isThere() && comparison.isCurrent && !comparison.isDisturbed) return comparison.wrong();
    } finally {
      comparison.end();
    }
  }
  return 0;
}

/** Compares the elements that the kernel lists for one set with the mirror and with the desired elements. */
class SetComparison {
  readonly #table: Table;
  readonly #set: SetDefinition;
  readonly #sources: ReadingSources;
  readonly #sets: Map<string, MirroredSet>;
  readonly #present: MirroredSet & Required<Pick<MirroredSet, "journal">>;
  /** The mirrored elements that the kernel has not listed yet. */
  readonly #unreported: Set<string>;
  readonly #wrong: string[] = [];
  #isRepeating = false;
  /** Some of its elements have never been listed. */
  #isUnread: boolean;

  constructor(table: Table, set: SetDefinition, sources: ReadingSources, sets: Map<string, MirroredSet>) {
    this.#table = table;
    this.#set = set;
    this.#sources = sources;
    this.#sets = sets;
    const { elements = new Map<string, PackedElement>(), isUnread = false } = sets.get(set.name) ?? {};
    this.#isUnread = isUnread;
    this.#present = { elements, data: set.data, isUnread, journal: { added: new Set(), hasDeletion: false } };
    sets.set(set.name, this.#present);
    this.#unreported = new Set(elements.keys());
  }

  /** Whether the comparison is still about the set in the mirror: a batch may have emptied or replaced the set. */
  get isCurrent(): boolean {
    return this.#sets.get(this.#set.name) === this.#present;
  }

  /** Whether the set may have elements that the kernel has not listed. */
  get isDisturbed(): boolean {
    return this.#isRepeating || this.#present.journal.hasDeletion;
  }

  /** Records the elements of a piece. */
  take(piece: readonly Element[]): void {
    const { elements, journal } = this.#present;
    // The desired elements may change in each turn of the event loop.
    const desired = this.#sources.elements.in(tableKey(this.#table), this.#set.name);
    for (const element of piece) {
      const key = keyText(element.key);
      const isNew = !this.#unreported.delete(key);
      if (isNew && elements.has(key) && !journal.added.has(key)) this.#isRepeating = true;
      const wanted = desired.get(key);
      const isRight = wanted !== undefined && isPacked(wanted, element);
      if (!isRight) this.#wrong.push(key);
      // Stores no second copy of an element that is stored anyway.
      elements.set(desired.own(key), isRight ? wanted : packElement(element));
    }
  }

  /**
   * After the last piece, removes from the mirror what the kernel did not list, and marks wrong elements as pending.
   * This does not happen earlier, since a repair would change the set.
   *
   * @returns the number of wrong elements that were not pending before
   */
  wrong(): number {
    const { elements } = this.#present;
    const key = tableKey(this.#table);
    const wasUnread = this.#isUnread;
    this.#isUnread = false;
    for (const unreported of this.#unreported) elements.delete(unreported);
    for (const wanted of this.#sources.elements.keys(key, this.#set.name)) {
      if (!elements.has(wanted)) this.#wrong.push(wanted);
    }
    if (this.#wrong.length === 0) return 0;
    const wrong = markElements(this.#sources.pending.table(key), this.#set, this.#wrong);
    // The elements of a set that was never read cannot count as changed by another program.
    return wasUnread ? 0 : wrong;
  }

  /** Ends the journal, whether or not all elements were listed. */
  end(): void {
    if (!this.isCurrent) return;
    const { elements, data } = this.#present;
    this.#sets.set(this.#set.name, { elements, data, isUnread: this.#isUnread });
  }
}
