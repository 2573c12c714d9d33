import {
  type ConnectionSet,
  connectionText,
  difference,
  EVERYTHING,
  intersection,
  NOTHING,
  union,
} from "./connection_set.ts";

type Operation = (a: ConnectionSet, b: ConnectionSet) => ConnectionSet;

/**
 * Operations on sets of connections, computed once each: a cluster has many pairs but few sets. Equal sets are one
 * object, operands included.
 */
export class ConnectionAlgebra {
  readonly #known = new Map([EVERYTHING, NOTHING].map((set) => [connectionText(set), set]));
  readonly #union = this.#remembered(union);
  readonly #intersection = this.#remembered(intersection);
  readonly #difference = this.#remembered(difference);

  union(a: ConnectionSet, b: ConnectionSet): ConnectionSet {
    return a === b || b === NOTHING ? a : a === NOTHING ? b : this.#union(a, b);
  }

  intersection(a: ConnectionSet, b: ConnectionSet): ConnectionSet {
    return a === b || b === EVERYTHING ? a : a === EVERYTHING ? b : this.#intersection(a, b);
  }

  difference(a: ConnectionSet, b: ConnectionSet): ConnectionSet {
    return b === NOTHING ? a : this.#difference(a, b);
  }

  /** Returns the one object for this set and its equals. */
  same(set: ConnectionSet): ConnectionSet {
    const text = connectionText(set);
    const known = this.#known.get(text);
    if (known !== undefined) return known;
    this.#known.set(text, set);
    return set;
  }

  #remembered(operation: Operation): Operation {
    const results = new Map<ConnectionSet, Map<ConnectionSet, ConnectionSet>>();
    return (a, b) => {
      const ofFirst = results.get(a) ?? new Map<ConnectionSet, ConnectionSet>();
      const before = ofFirst.get(b);
      if (before !== undefined) return before;
      const result = this.same(operation(a, b));
      ofFirst.set(b, result);
      results.set(a, ofFirst);
      return result;
    };
  }
}
