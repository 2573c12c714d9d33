import type { Family } from "../../../kernel/ip/address.ts";
import type { FlowEnd, FlowEnds } from "../../../objects/semantics/policies/flow.ts";
import { familiesOf } from "../../../objects/semantics/policies/party.ts";
import { ConnectionAlgebra } from "../connections/algebra.ts";
import { type ConnectionSet, connectionText, isEmpty, NOTHING } from "../connections/connection_set.ts";
import { ConnectionReader } from "../connections/connections_between.ts";
import type { End, Sides } from "./end_class.ts";

export type ChangeType = "added" | "removed";

/** The words for a change of each type, in every form for people. */
export const EFFECTS = { added: "opens", removed: "closes" } as const;

/** Why connections exist on one side only: policies or ends differ, or an end is on that side only. */
export type Cause = "difference" | "appeared" | "gone";

/** Connections between two ends that only one side allows. */
export interface PairChange {
  readonly type: ChangeType;
  readonly cause: Cause;
  readonly connections: ConnectionSet;
  /** The connections as a text that only equal ones share. */
  readonly text: string;
  /** Undefined stands for every family in which packets can go between the ends. */
  readonly family: Family | undefined;
  /** One family with the change, for further questions; undefined where neither end has an address. */
  readonly anyFamily: Family | undefined;
}

/** Returns a text that equal changes share. */
export function changeKey({ type, cause, text, family }: PairChange): string {
  return `${type} ${cause} ${text} ${family ?? ""}`;
}

/** Compares what policies of two sides let one end send to another. */
export class PairComparison {
  readonly #sides: Sides;
  readonly #before: ConnectionReader;
  readonly #after: ConnectionReader;
  readonly #algebra = new ConnectionAlgebra();
  readonly #families = { before: new Map<FlowEnd, Families>(), after: new Map<FlowEnd, Families>() };
  readonly #texts = new Map<ConnectionSet, string>();

  constructor(sides: Sides) {
    this.#sides = sides;
    this.#before = new ConnectionReader(sides.before);
    this.#after = new ConnectionReader(sides.after);
  }

  /**
   * Returns the changes in the families in which packets can go between the ends on every side that has both. Where
   * only one side does, nothing is allowed on the other.
   *
   * @throws DrawbridgeError ERR_OBJECT for a pod or a node that the side does not have
   */
  changes(source: End, destination: End): readonly PairChange[] {
    const before = flowOf(source.before, destination.before);
    const after = flowOf(source.after, destination.after);
    const onEach = [this.#familiesBetween("before", before), this.#familiesBetween("after", after)] as const;
    const families = inBoth(...onEach) ?? [undefined];
    const found = families.flatMap((family) => this.#changesIn(before, after, family));
    const alike = Map.groupBy(found, ({ type, text }) => `${type} ${text}`);
    return [...alike.values()].flatMap((same) =>
      same.length === families.length ? same.slice(0, 1) : same.map((one) => ({ ...one, family: one.anyFamily })),
    );
  }

  #changesIn(old: Flow, young: Flow, family: Family | undefined): readonly PairChange[] {
    const before = old === undefined ? NOTHING : this.#before.between({ ...old, family });
    const after = young === undefined ? NOTHING : this.#after.between({ ...young, family });
    if (before === undefined || after === undefined || before === after) return [];
    const cause: Cause = old === undefined ? "appeared" : young === undefined ? "gone" : "difference";
    return [
      { type: "removed" as const, connections: this.#algebra.difference(before, after) },
      { type: "added" as const, connections: this.#algebra.difference(after, before) },
    ].flatMap(({ type, connections }) =>
      isEmpty(connections)
        ? []
        : [{ type, cause, connections, text: this.#textOf(connections), family: undefined, anyFamily: family }],
    );
  }

  #familiesBetween(side: keyof Sides, flow: Flow): Families {
    return flow === undefined
      ? undefined
      : inBoth(this.#familiesOf(side, flow.source), this.#familiesOf(side, flow.destination));
  }

  #familiesOf(side: keyof Sides, end: FlowEnd): Families {
    const ofSide = this.#families[side];
    if (!ofSide.has(end)) ofSide.set(end, familiesOf(this.#sides[side], { source: end, destination: end }));
    return ofSide.get(end);
  }

  #textOf(set: ConnectionSet): string {
    const known = this.#texts.get(set) ?? connectionText(set);
    this.#texts.set(set, known);
    return known;
  }
}

/** Two ends of one side; undefined where one of them is absent. */
type Flow = Pick<FlowEnds, "source" | "destination"> | undefined;

function flowOf(source: FlowEnd | undefined, destination: FlowEnd | undefined): Flow {
  return source === undefined || destination === undefined ? undefined : { source, destination };
}

/** The families of an end's addresses; undefined for an end without an address, which may get any. */
type Families = readonly Family[] | undefined;

/** Returns the families that both ends have, in the destination's order of preference. */
function inBoth(from: Families, to: Families): Families {
  return to === undefined ? from : to.filter((family) => from?.includes(family) ?? true);
}
