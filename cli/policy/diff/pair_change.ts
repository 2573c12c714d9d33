import type { Family } from "../../../kernel/ip/address.ts";
import type { FlowEnd, FlowEnds } from "../../../policyd/policy/evaluate/flow.ts";
import { familiesOf } from "../../../policyd/policy/evaluate/party.ts";
import { ConnectionAlgebra } from "../connections/algebra.ts";
import type { ConnectionSet } from "../connections/connection_set.ts";
import { connectionText, isEmpty } from "../connections/connection_set.ts";
import { ConnectionReader } from "../connections/connections_between.ts";
import type { Sides } from "./end_class.ts";

export type ChangeType = "added" | "removed";

/** Connections from one end to another that one side has and the other has not. */
export interface PairChange {
  readonly type: ChangeType;
  readonly connections: ConnectionSet;
  /** They in words, equal for equal ones alone. */
  readonly text: string;
  /** Undefined: in every family in which packets can go between them. */
  readonly family: Family | undefined;
  /** One in which it is so, for asking further; undefined where neither end has an address. */
  readonly anyFamily: Family | undefined;
}

/** Compares what policies of two sides let one end send to another. */
export class PairComparison {
  readonly #sides: Sides;
  readonly #before: ConnectionReader;
  readonly #after: ConnectionReader;
  readonly #algebra = new ConnectionAlgebra();
  readonly #families = new Map<FlowEnd, readonly [Families, Families]>();
  readonly #texts = new Map<ConnectionSet, string>();

  constructor(sides: Sides) {
    this.#sides = sides;
    this.#before = new ConnectionReader(sides.before);
    this.#after = new ConnectionReader(sides.after);
  }

  /**
   * What changed, in the families in which packets can go between the ends on both sides.
   *
   * @throws DrawbridgeError ERR_OBJECT for a pod or a node that is not on both sides
   */
  changes(ends: Pick<FlowEnds, "source" | "destination">): readonly PairChange[] {
    const [fromBefore, fromAfter] = this.#familiesOf(ends.source);
    const [toBefore, toAfter] = this.#familiesOf(ends.destination);
    const families = inBoth(inBoth(fromBefore, toBefore), inBoth(fromAfter, toAfter)) ?? [undefined];
    const found = families.flatMap((family) => this.#changesIn(ends, family));
    const alike = Map.groupBy(found, ({ type, text }) => `${type} ${text}`);
    return [...alike.values()].flatMap((same) =>
      same.length === families.length ? same.slice(0, 1) : same.map((one) => ({ ...one, family: one.anyFamily })),
    );
  }

  #changesIn(ends: Pick<FlowEnds, "source" | "destination">, family: Family | undefined): readonly PairChange[] {
    const before = this.#before.between({ ...ends, family });
    const after = this.#after.between({ ...ends, family });
    if (before === undefined || after === undefined || before === after) return [];
    return [
      { type: "removed" as const, connections: this.#algebra.difference(before, after) },
      { type: "added" as const, connections: this.#algebra.difference(after, before) },
    ].flatMap(({ type, connections }) =>
      isEmpty(connections)
        ? []
        : [{ type, connections, text: this.#textOf(connections), family: undefined, anyFamily: family }],
    );
  }

  /** On each side. */
  #familiesOf(end: FlowEnd): readonly [Families, Families] {
    const known = this.#families.get(end);
    if (known !== undefined) return known;
    const itself = { source: end, destination: end };
    const { before, after } = this.#sides;
    const families = [familiesOf(before, itself), familiesOf(after, itself)] as const;
    this.#families.set(end, families);
    return families;
  }

  #textOf(set: ConnectionSet): string {
    const known = this.#texts.get(set) ?? connectionText(set);
    this.#texts.set(set, known);
    return known;
  }
}

/** The families of an end's addresses; undefined without an address, which may then be of any. */
type Families = readonly Family[] | undefined;

/** Those in which packets go, the destination's first choice first. */
function inBoth(from: Families, to: Families): Families {
  return to === undefined ? from : to.filter((family) => from?.includes(family) ?? true);
}
