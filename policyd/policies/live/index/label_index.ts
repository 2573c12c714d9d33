import type { Labels, LabelSelector } from "../../../../objects/model.ts";

/**
 * Items that select by labels, indexed by one key or label that each selector demands: of several, the one by which the
 * fewest items are indexed. So the items that may select given labels are found without checking each. An item whose
 * selector demands none is always a candidate.
 */
export class LabelIndex<T> {
  readonly #selectorOf: (item: T) => LabelSelector | undefined;
  /** By a key, or by a key with a value. */
  readonly #byLabel = new Map<string, Set<T>>();
  /** The places in the index of items whose selectors demand more. */
  readonly #chosen = new Map<T, readonly string[]>();
  readonly #others = new Set<T>();

  /** @param selectorOf must always return the same for an item; undefined selects everything */
  constructor(selectorOf: (item: T) => LabelSelector | undefined) {
    this.#selectorOf = selectorOf;
  }

  get isEmpty(): boolean {
    return this.#others.size + this.#byLabel.size === 0;
  }

  /** Adds an item; one that is there already stays where it is. */
  add(item: T): void {
    const demands = demandsOf(this.#selectorOf(item));
    const [first] = demands;
    if (first === undefined) {
      this.#others.add(item);
      return;
    }
    const chosen = this.#chosen.get(item) ?? (demands.length === 1 ? first : this.#rarest(demands));
    if (demands.length > 1) this.#chosen.set(item, chosen);
    for (const label of chosen) {
      const items = this.#byLabel.get(label) ?? new Set();
      this.#byLabel.set(label, items.add(item));
    }
  }

  delete(item: T): void {
    this.#others.delete(item);
    for (const label of this.#chosen.get(item) ?? demandsOf(this.#selectorOf(item))[0] ?? []) {
      const items = this.#byLabel.get(label);
      items?.delete(item);
      if (items?.size === 0) this.#byLabel.delete(label);
    }
    this.#chosen.delete(item);
  }

  #rarest(demands: readonly (readonly string[])[]): readonly string[] {
    let [rarest, fewest]: [readonly string[], number] = [[], Number.POSITIVE_INFINITY];
    for (const labels of demands) {
      const count = labels.reduce((most, label) => Math.max(most, this.#byLabel.get(label)?.size ?? 0), 0);
      if (count < fewest) [rarest, fewest] = [labels, count];
    }
    return rarest;
  }

  /** Yields each item that may select the labels once. */
  *candidates(labels: Labels): Iterable<T> {
    yield* this.#others;
    if (this.#byLabel.size === 0) return;
    for (const key in labels) {
      yield* this.#byLabel.get(key) ?? [];
      yield* this.#byLabel.get(textOf(key, labels[key])) ?? [];
    }
  }
}

/** Returns what a selector demands: for each requirement its key, or the labels with its key one of which must be there. */
function demandsOf(selector: LabelSelector | undefined): readonly (readonly string[])[] {
  if (selector === undefined) return [];
  const { matchLabels, matchExpressions } = selector;
  const demands: (readonly string[])[] = [];
  for (const key in matchLabels) demands.push([textOf(key, matchLabels[key])]);
  for (const { key, operator, values } of matchExpressions) {
    if (operator === "In") demands.push([...new Set(values)].map((value) => textOf(key, value)));
    if (operator === "Exists") demands.push([key]);
  }
  return demands;
}

/** Neither a key nor a value contains a line end. */
function textOf(key: string, value = ""): string {
  return `${key}\n${value}`;
}
