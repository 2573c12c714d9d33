import { compareTexts } from "../../output/text.ts";
import type { EndGroup } from "./end_class.ts";
import { type ExamplePair, type GroupChange, sizeFor } from "./diff.ts";
import { type Cause, changeKey } from "./pair_change.ts";
import { jointNames } from "../joint_names.ts";

/** An equal change from each of some groups to each of others. */
export interface MergedChange extends Omit<GroupChange, "from" | "to"> {
  /** Names of groups, or words for all of a namespace, all nodes or the outside (see {@link groupNames}). */
  readonly from: readonly string[];
  readonly to: readonly string[];
  /** Whether all of one end is in no file. */
  readonly isOfStandIns: boolean;
}

/**
 * Merges sources with equal changes towards the same destinations, and replaces complete namespaces by one name.
 *
 * @param groups all existing groups
 * @returns the changes sorted by the number of pairs and then by name, those with what is in no file last
 */
export function mergeAlike(changes: readonly GroupChange[], groups: readonly EndGroup[]): readonly MergedChange[] {
  const possible: Readonly<Record<Cause, PossibleGroups>> = {
    difference: possibleGroups(groups, "difference"),
    appeared: possibleGroups(groups, "appeared"),
    gone: possibleGroups(groups, "gone"),
  };
  const alike = Map.groupBy(changes, (one) => `${changeKey(one.change)} ${one.pairs < one.of}`);
  const merged = [...alike.values()].flatMap((some) => {
    const cause = some[0]?.change.cause ?? "difference";
    const { names, byWhole } = possible[cause];
    const bySource = Map.groupBy(some, ({ from }) => from);
    const sources = Map.groupBy(bySource, ([from, to]) =>
      reached(from, to, byWhole.get(from.whole) ?? [], cause).join("\n"),
    );
    return [...sources.values()].map((same) =>
      mergeOne(
        same.flatMap(([, to]) => to),
        names,
      ),
    );
  });
  return merged.sort(
    (a, b) =>
      Number(a.isOfStandIns) - Number(b.isOfStandIns) || b.pairs - a.pairs || compareTexts(nameKey(a), nameKey(b)),
  );
}

/** The groups that can have changes of one cause. */
interface PossibleGroups {
  readonly names: GroupNames;
  readonly byWhole: ReadonlyMap<string, readonly EndGroup[]>;
}

function possibleGroups(groups: readonly EndGroup[], cause: Cause): PossibleGroups {
  const possible = groups.filter((group) => sizeFor(group, cause) > 0);
  return { names: groupNames(possible), byWhole: Map.groupBy(possible, ({ whole }) => whole) };
}

function mergeOne(all: readonly GroupChange[], names: GroupNames): MergedChange {
  const [first] = all;
  if (first === undefined) throw new RangeError("nothing to merge");
  const examples = all.map(({ example }) => example);
  const [from, to] = [new Set(all.map((one) => one.from)), new Set(all.map((one) => one.to))];
  const areNew = (groups: ReadonlySet<EndGroup>): boolean => [...groups].every(({ kind }) => kind === "new pods");
  return {
    isOfStandIns: areNew(from) || areNew(to),
    from: names(from),
    to: names(to),
    change: first.change,
    pairs: all.reduce((sum, { pairs }) => sum + pairs, 0),
    of: all.reduce((sum, { of }) => sum + of, 0),
    example: examples.reduce((a, b) => (compareTexts(exampleKey(b), exampleKey(a)) < 0 ? b : a)),
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

function nameKey({ from, to, change }: MergedChange): string {
  return [...from, "", ...to, "", changeKey(change)].join("\n");
}

function exampleKey({ source, destination }: ExamplePair): string {
  return `${source.group.name}\n${destination.group.name}`;
}

/** The names of the larger units of a group. */
const UNITS: Readonly<Record<EndGroup["kind"], (whole: string) => readonly string[]>> = {
  pods: (whole) => ["all pods", `${whole}/*`],
  "new pods": (whole) => ["any new pod", `any new pod in ${whole}`],
  nodes: () => ["all nodes"],
  outside: (whole) => ["outside", whole],
  "domain names": (whole) => ["all domain names", whole],
};

/** Names some groups in the order of their names. */
type GroupNames = (some: ReadonlySet<EndGroup>) => readonly string[];

/** Returns the function that names some of all existing groups as {@link jointNames} does. */
export function groupNames(all: readonly EndGroup[]): GroupNames {
  const namesOf = jointNames(all, ({ kind, whole }: EndGroup) => UNITS[kind](whole));
  return (some) => namesOf(some).toSorted();
}
