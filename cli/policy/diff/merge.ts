import type { EndGroup } from "./end_class.ts";
import { changeKey, type ExamplePair, type GroupChange, sizeFor } from "./diff.ts";
import type { Cause, PairChange } from "./pair_change.ts";

/** An equal change from each of some groups to each of others. */
export interface MergedChange {
  /** Names of groups, or words for all of a namespace, all nodes or the outside (see {@link namesOf}). */
  readonly from: readonly string[];
  readonly to: readonly string[];
  readonly change: PairChange;
  readonly pairs: number;
  /** The number of all pairs between them; if it is larger than `pairs`, only some of them changed. */
  readonly of: number;
  readonly example: ExamplePair;
}

/**
 * Merges sources with equal changes towards the same destinations, and replaces complete namespaces by one name.
 *
 * @param groups all existing groups
 * @returns the changes sorted by the number of pairs and then by name
 */
export function mergeAlike(changes: readonly GroupChange[], groups: readonly EndGroup[]): readonly MergedChange[] {
  const alike = Map.groupBy(changes, (one) => `${changeKey(one.change)} ${one.pairs < one.of}`);
  const merged = [...alike.values()].flatMap((some) => {
    const cause = some[0]?.change.cause ?? "difference";
    const there = groups.filter((group) => sizeFor(group, cause) > 0);
    const namespaces = Map.groupBy(there, ({ whole }) => whole);
    const bySource = Map.groupBy(some, ({ from }) => from);
    const sources = Map.groupBy(bySource, ([from, to]) =>
      reached(from, to, namespaces.get(from.whole) ?? [], cause).join("\n"),
    );
    return [...sources.values()].map((same) =>
      mergeOne(
        same.map(([, to]) => to),
        there,
      ),
    );
  });
  return merged.sort((a, b) => b.pairs - a.pairs || compare(nameKey(a), nameKey(b)));
}

function mergeOne(bySource: readonly (readonly GroupChange[])[], groups: readonly EndGroup[]): MergedChange {
  const all = bySource.flat();
  const [first] = all;
  if (first === undefined) throw new RangeError("nothing to merge");
  const examples = all.map(({ example }) => example);
  const [from, to] = [new Set(all.map((one) => one.from)), new Set(all.map((one) => one.to))];
  return {
    from: namesOf(from, groups),
    to: namesOf(to, groups),
    change: first.change,
    pairs: all.reduce((sum, { pairs }) => sum + pairs, 0),
    of: all.reduce((sum, { of }) => sum + of, 0),
    example: examples.reduce((a, b) => (compare(exampleKey(b), exampleKey(a)) < 0 ? b : a)),
  };
}

/** Returns a source's destinations. A single pod counts as one if all others of its namespace do. */
function reached(
  from: EndGroup,
  to: readonly GroupChange[],
  siblings: readonly EndGroup[],
  cause: Cause,
): readonly string[] {
  const names = new Set(to.map((one) => one.to.name));
  const others = siblings.filter((one) => one !== from);
  if (sizeFor(from, cause) === 1 && others.length > 0 && others.every(({ name }) => names.has(name)))
    names.add(from.name);
  return [...names].sort();
}

/**
 * Returns the names of some groups: `shop/*` for a complete namespace with several groups; `all pods`, `all nodes` and
 * `outside` for all of those; `outside IPv4` for a complete family.
 */
export function namesOf(some: ReadonlySet<EndGroup>, all: readonly EndGroup[]): readonly string[] {
  const names: string[] = [];
  for (const [kind, members] of Map.groupBy(all, (one) => one.kind)) {
    const chosen = members.filter((one) => some.has(one));
    if (chosen.length === members.length && members.length > 1) names.push(wholeKinds[kind]);
    else {
      for (const [whole, ofOne] of Map.groupBy(members, (one) => one.whole)) {
        const here = ofOne.filter((one) => some.has(one));
        if (here.length === ofOne.length && (here.length > 1 || kind === "outside"))
          names.push(kind === "pods" ? `${whole}/*` : whole);
        else names.push(...here.map(({ name }) => name));
      }
    }
  }
  return names.sort();
}

const wholeKinds: Readonly<Record<EndGroup["kind"], string>> = {
  pods: "all pods",
  nodes: "all nodes",
  outside: "outside",
};

function nameKey({ from, to, change }: MergedChange): string {
  return [...from, "", ...to, "", changeKey(change)].join("\n");
}

function exampleKey({ source, destination }: ExamplePair): string {
  return `${source.group.name}\n${destination.group.name}`;
}

function compare(a: string, b: string): number {
  if (a === b) return 0;
  return a < b ? -1 : 1;
}
