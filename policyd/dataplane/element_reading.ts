import { keyText } from "../../kernel/nftables/element.ts";
import type { Element, SetDefinition, Table } from "../../kernel/nftables/object.ts";
import { tableKey } from "./claim.ts";
import type { KeptElement } from "./kept_element.ts";
import { isKept, kept } from "./kept_element.ts";
import type { MirroredSet, MirroredTable } from "./mirror.ts";
import { markElements } from "./table_objects.ts";
import type { ReadingSources } from "./table_reading.ts";

/** So many elements take as long to read as the rules of a chain; there are some hundred in a piece. */
const ELEMENTS_PER_UNIT = 16;
/** How often a set that changes meanwhile is read in pieces. */
const ATTEMPTS = 4;

/**
 * Takes over a set's elements as the kernel tells them, piece by piece, and has pending what of them is not as desired.
 *
 * Between two pieces anything may be committed, which the mirror knows by the next. Where a batch of ours has deleted elements
 * of this set, others may be hidden, and the next piece may still have these (`Nftables.elementsInPieces`); so all are read
 * again, in the end without letting anything in between.
 *
 * @returns how many are wrong and were not known to be; it yields the work of each piece
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
        // It may have been made before the batch that took from the set, and have what is gone.
        if (comparison.isDisturbed) break;
        comparison.take(piece);
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

/** Compares what the kernel tells of one set with its account and with what is desired. */
class SetComparison {
  readonly #table: Table;
  readonly #set: SetDefinition;
  readonly #sources: ReadingSources;
  readonly #sets: Map<string, MirroredSet>;
  readonly #present: MirroredSet & Required<Pick<MirroredSet, "journal">>;
  /** What the kernel has not told yet of what it was believed to have. */
  readonly #untold: Set<string>;
  readonly #wrong: string[] = [];
  #isRepeating = false;
  /** Some of its elements have never been told. */
  #isUnread: boolean;

  constructor(table: Table, set: SetDefinition, sources: ReadingSources, sets: Map<string, MirroredSet>) {
    this.#table = table;
    this.#set = set;
    this.#sources = sources;
    this.#sets = sets;
    const { elements = new Map<string, KeptElement>(), isUnread = false } = sets.get(set.name) ?? {};
    this.#isUnread = isUnread;
    this.#present = { elements, data: set.data, isUnread, journal: { added: new Set(), hasDeletion: false } };
    sets.set(set.name, this.#present);
    this.#untold = new Set(elements.keys());
  }

  /** Whether it is still about the set that is there: a batch may have emptied or replaced it. */
  get isCurrent(): boolean {
    return this.#sets.get(this.#set.name) === this.#present;
  }

  /** Whether elements may be there that the kernel has not told. */
  get isDisturbed(): boolean {
    return this.#isRepeating || this.#present.journal.hasDeletion;
  }

  /** Takes over what was told. */
  take(piece: readonly Element[]): void {
    const { elements, journal } = this.#present;
    // Others may be desired in each turn of the event loop.
    const desired = this.#sources.elements.in(tableKey(this.#table), this.#set.name);
    for (const element of piece) {
      const key = keyText(element.key);
      const isNew = !this.#untold.delete(key);
      if (isNew && elements.has(key) && !journal.added.has(key)) this.#isRepeating = true;
      const wanted = desired.get(key);
      const isRight = wanted !== undefined && isKept(wanted, element);
      if (!isRight) this.#wrong.push(key);
      // What is kept anyway is not kept twice.
      elements.set(desired.own(key), isRight ? wanted : kept(element));
    }
  }

  /**
   * When all was told, takes over what is missing, and has pending what is wrong: no sooner, as its repair would change the
   * set.
   *
   * @returns how many are wrong and were not known to be
   */
  wrong(): number {
    const { elements } = this.#present;
    const key = tableKey(this.#table);
    const wasUnread = this.#isUnread;
    this.#isUnread = false;
    for (const untold of this.#untold) elements.delete(untold);
    for (const wanted of this.#sources.elements.keys(key, this.#set.name)) {
      if (!elements.has(wanted)) this.#wrong.push(wanted);
    }
    if (this.#wrong.length === 0) return 0;
    const wrong = markElements(this.#sources.pending.table(key), this.#set, this.#wrong);
    // What nobody wanted nobody has harmed.
    return wasUnread ? 0 : wrong;
  }

  /** Has the journal end, whether all was told or not. */
  end(): void {
    if (!this.isCurrent) return;
    const { elements, data } = this.#present;
    this.#sets.set(this.#set.name, { elements, data, isUnread: this.#isUnread });
  }
}
