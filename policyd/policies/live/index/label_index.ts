import type { Labels, LabelSelector } from "../../../../objects/model.ts";

/**
 * Items that select by labels, indexed by one label that each selector demands. So the items that may select given
 * labels are found without checking each. An item whose selector demands no label is always a candidate.
 */
export class LabelIndex<T> {
  readonly #selectorOf: (item: T) => LabelSelector | undefined;
  readonly #byLabel = new Map<string, Set<T>>();
  readonly #others = new Set<T>();

  /** @param selectorOf must always return the same for an item; undefined selects everything */
  constructor(selectorOf: (item: T) => LabelSelector | undefined) {
    this.#selectorOf = selectorOf;
  }

  get isEmpty(): boolean {
    return this.#others.size + this.#byLabel.size === 0;
  }

  add(item: T): void {
    const labels = demandedBy(this.#selectorOf(item));
    if (labels === undefined) this.#others.add(item);
    for (const label of labels ?? []) {
      const items = this.#byLabel.get(label) ?? new Set();
      this.#byLabel.set(label, items.add(item));
    }
  }

  delete(item: T): void {
    this.#others.delete(item);
    for (const label of demandedBy(this.#selectorOf(item)) ?? []) {
      const items = this.#byLabel.get(label);
      items?.delete(item);
      if (items?.size === 0) this.#byLabel.delete(label);
    }
  }

  /** Yields each item that may select the labels once. */
  *candidates(labels: Labels): Iterable<T> {
    yield* this.#others;
    if (this.#byLabel.size === 0) return;
    for (const key in labels) yield* this.#byLabel.get(textOf(key, labels[key])) ?? [];
  }
}

/** Returns labels with one key, one of which a selector demands; undefined if it demands none. */
function demandedBy(selector: LabelSelector | undefined): readonly string[] | undefined {
  if (selector === undefined) return undefined;
  for (const key in selector.matchLabels) return [textOf(key, selector.matchLabels[key])];
  const listed = selector.matchExpressions.find(({ operator }) => operator === "In");
  return listed && [...new Set(listed.values)].map((value) => textOf(listed.key, value));
}

/** Neither a key nor a value contains a line end. */
function textOf(key: string, value = ""): string {
  return `${key}\n${value}`;
}
