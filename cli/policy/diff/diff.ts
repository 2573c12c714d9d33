import type { FlowEnd } from "../../../objects/semantics/policies/flow.ts";
import { compareTexts } from "../../output/text.ts";
import type { Grouping } from "../../cluster/group.ts";
import { type ClassChange, classChanges } from "./class_change.ts";
import { type End, type EndClass, type EndGroup, type Ends, endsOf, type Sides } from "./end_class.ts";
import { type Cause, changeKey, type PairChange, PairComparison } from "./pair_change.ts";
import type { StandIns } from "../stand_ins.ts";
import { toldChanges } from "./told_changes.ts";
import { type ConnectionSet, NOTHING } from "../connections/connection_set.ts";
import type { ClassifiedPod } from "../connections/pair_table.ts";
import { UnnamedPairs } from "../connections/unnamed_pairs.ts";

/** A pair of ends whose connections changed. */
export interface ExamplePair {
  readonly source: End;
  readonly destination: End;
}

/** A change that is equal for some pairs of ends of two groups. */
export interface GroupChange {
  readonly from: EndGroup;
  readonly to: EndGroup;
  readonly change: PairChange;
  /** The number of pairs of ends with the change, and of all pairs between the groups; if larger, only some changed. */
  readonly pairs: number;
  readonly of: number;
  /** The first pair with the change. */
  readonly example: ExamplePair;
}

/** The differences in the connections of two clusters. */
export interface PolicyDiff extends Omit<Ends, "classes"> {
  /** Each group and change once, sorted by the number of pairs and then by name. */
  readonly changes: readonly GroupChange[];
}

/**
 * Returns the connections that one side allows and the other does not, exactly, for each pair of ends. An end on one
 * side only has no connections on the other. Connections of a pod to itself through a Service are omitted.
 *
 * @param standIns the names of the pods and nodes on both sides that are in no file
 */
export function diffPolicies(sides: Sides, by: Grouping, standIns?: StandIns["names"]): PolicyDiff {
  const { classes, ...ends } = endsOf(sides, by, standIns);
  const found = new Found();
  const comparison = new PairComparison(sides);
  const unnamed = new UnnamedEnds(sides);
  const describe = classChanges(sides);
  const described = classes.map((one) => ({ one, change: describe(one) }));
  const mayDiffer: PairTest<Described> = {
    isSource: ({ change }) => change.egress || change.self || change.isMoved,
    isDestination: ({ change }) => change.ingress || change.self || change.isMoved,
    passes: ({ one: from, change: sent }, { one: to, change: received }) => {
      // A name is of a server.
      if ((!from.isSubject && !to.isSubject) || from.ends[0].group.kind === "domain names") return false;
      if (from.isNode || to.isNode) return true;
      const isTouched = sent.egress || sent.self || received.ingress || received.self;
      return isTouched && !unnamed.areAlike(from.ends[0], to.ends[0]);
    },
  };
  for (const [from, to] of pairsThat(mayDiffer, described)) {
    const add = from.one.isNode || to.one.isNode ? addByNodes : addAll;
    add(found, comparison, from.one, to.one);
  }
  return { ...ends, changes: toldChanges(found.inOrder(), standIns) };
}

/** A class and what differs of it between the two sides. */
interface Described {
  readonly one: EndClass;
  readonly change: ClassChange;
}

/** As many sources are tested with one destination before the next, since each destination has rules of its own. */
const SOURCES_AT_ONCE = 64;

/** Which pairs are wanted: those of which one end is wanted in its place, if the two pass. */
export interface PairTest<T> {
  readonly isSource: (one: T) => boolean;
  readonly isDestination: (one: T) => boolean;
  readonly passes: (from: T, to: T) => boolean;
}

/** Yields the wanted pairs, by source and then by destination. */
export function* pairsThat<T>(test: PairTest<T>, all: readonly T[]): Generator<readonly [T, T]> {
  for (let first = 0; first < all.length; first += SOURCES_AT_ONCE) {
    const some = all.slice(first, first + SOURCES_AT_ONCE).map((from) => ({ from, to: [] as T[] }));
    const wanted = some.filter(({ from }) => test.isSource(from));
    for (const to of all) {
      for (const one of test.isDestination(to) ? some : wanted) if (test.passes(one.from, to)) one.to.push(to);
    }
    for (const { from, to } of some) for (const one of to) yield [from, one];
  }
}

/** Adds the changes between two classes without nodes, where one pair represents all. */
function addAll(found: Found, comparison: PairComparison, from: EndClass, to: EndClass): void {
  const pair = firstPair(from.ends, to.ends);
  if (pair === undefined) return;
  const changes = comparison.changes(pair.source, pair.destination);
  if (changes.length === 0) return;
  const [bySource, byDestination] = [from, to].map(({ ends }) => Map.groupBy(ends, ({ group }) => group));
  for (const [group, some] of bySource ?? []) {
    for (const [otherGroup, others] of byDestination ?? []) {
      const example = firstPair(some, others);
      if (example === undefined) continue;
      const pairs = some.length * others.length - (from === to && group === otherGroup ? some.length : 0);
      for (const change of changes) found.add(group, otherGroup, { change, pairs, example });
    }
  }
}

function firstPair(sources: readonly End[], destinations: readonly End[]): ExamplePair | undefined {
  const tried = new Set<string>();
  for (const source of sources) {
    const key = source.before?.type === "pod" ? source.before.key : undefined;
    if (key !== undefined && tried.has(key)) continue;
    const destination = destinations.find((one) => areTwo(source, one));
    if (destination !== undefined) return { source, destination };
    if (key !== undefined) tried.add(key);
  }
  return undefined;
}

/** Returns whether they differ on each side: several pods of a workload that grew are compared with one pod. */
function areTwo(a: End, b: End): boolean {
  return a !== b && !isSame(a.before, b.before) && !isSame(a.after, b.after);
}

function isSame(a: FlowEnd | undefined, b: FlowEnd | undefined): boolean {
  return a?.type === "pod" && b?.type === "pod" && a.key === b.key;
}

/** Adds the changes of all pairs of two classes by whether one is on the other's node on each side. */
function addByNodes(found: Found, comparison: PairComparison, from: EndClass, to: EndClass): void {
  const known: (readonly PairChange[] | undefined)[] = [];
  for (const source of from.ends) {
    for (const destination of to.ends) {
      if (!areTwo(source, destination)) continue;
      const wasOwn = isOnOne(source.nodeBefore, destination.nodeBefore);
      const isOwn = isOnOne(source.nodeAfter, destination.nodeAfter);
      const relation = (wasOwn ? 1 : 0) + (isOwn ? 2 : 0);
      const isAlone = source.isShared !== true && destination.isShared !== true;
      const changes = (isAlone ? known[relation] : undefined) ?? comparison.changes(source, destination);
      if (isAlone) known[relation] = changes;
      for (const change of changes) {
        found.add(source.group, destination.group, { change, pairs: 1, example: { source, destination } });
      }
    }
  }
}

function isOnOne(a: string | undefined, b: string | undefined): boolean {
  return a !== undefined && a === b;
}

/** Sums equal changes between two groups. */
class Found {
  readonly #all = new Map<EndGroup, Map<EndGroup, Map<string, { sum: GroupChange }>>>();

  add(
    from: EndGroup,
    to: EndGroup,
    { change, pairs, example }: Pick<GroupChange, "change" | "pairs" | "example">,
  ): void {
    const fromOne = this.#all.get(from) ?? new Map<EndGroup, Map<string, { sum: GroupChange }>>();
    this.#all.set(from, fromOne);
    const between = fromOne.get(to) ?? new Map<string, { sum: GroupChange }>();
    fromOne.set(to, between);
    const key = changeKey(change);
    const known = between.get(key);
    if (known !== undefined) known.sum = { ...known.sum, pairs: known.sum.pairs + pairs };
    else {
      const of = pairsBetween(from, to, change.cause);
      between.set(key, { sum: { from, to, change, pairs, of, example } });
    }
  }

  inOrder(): readonly GroupChange[] {
    const all = [...this.#all.values()].flatMap((to) => [...to.values()].flatMap((some) => [...some.values()]));
    return all
      .map(({ sum }) => sum)
      .sort(
        (a, b) =>
          b.pairs - a.pairs ||
          compareTexts(a.from.name, b.from.name) ||
          compareTexts(a.to.name, b.to.name) ||
          compareTexts(changeKey(a.change), changeKey(b.change)),
      );
  }
}

/** Returns how many ends of a group can have connections with this cause. */
export function sizeFor({ sizes }: EndGroup, cause: Cause): number {
  return cause === "difference" ? sizes.both : cause === "appeared" ? sizes.after : sizes.before;
}

/** Returns the number of pairs of ends with this cause; for ends on one side only, without the pairs of both sides. */
function pairsBetween(from: EndGroup, to: EndGroup, cause: Cause): number {
  const count = (of: Cause): number => sizeFor(from, of) * sizeFor(to, of) - (from === to ? sizeFor(from, of) : 0);
  return cause === "difference" ? count(cause) : count(cause) - count("difference");
}

/** Recognizes pairs of pods whose connections are equal on both sides, without evaluating a rule. */
export class UnnamedEnds {
  readonly #before: UnnamedPairs;
  readonly #after: UnnamedPairs;

  constructor(sides: Sides) {
    this.#before = new UnnamedPairs(sides.before);
    this.#after = new UnnamedPairs(sides.after);
  }

  /**
   * Returns whether no rule of one pod names the other on either side, and both are as isolated as they were. Returns
   * false where rules have to be evaluated, and for nodes and addresses.
   */
  areAlike(source: End, destination: End): boolean {
    if (!isPod(source) || !isPod(destination)) return false;
    const before = connectionsOn(this.#before, source.podBefore, destination.podBefore);
    return before !== undefined && before === connectionsOn(this.#after, source.podAfter, destination.podAfter);
  }
}

function isPod({ podBefore, podAfter }: End): boolean {
  return podBefore !== undefined || podAfter !== undefined;
}

/** Returns the connections on one side, on which an absent pod has none; undefined if rules must be evaluated. */
function connectionsOn(
  pairs: UnnamedPairs,
  source: ClassifiedPod | undefined,
  destination: ClassifiedPod | undefined,
): ConnectionSet | undefined {
  return source === undefined || destination === undefined ? NOTHING : pairs.between(source, destination);
}
