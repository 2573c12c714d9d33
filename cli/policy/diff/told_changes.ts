import type { Labels } from "../../../objects/model.ts";
import { NO_STAND_INS, type StandIns } from "../stand_ins.ts";
import type { GroupChange } from "./diff.ts";
import type { EndGroup } from "./end_class.ts";
import { changeKey, type PairChange } from "./pair_change.ts";

/** A change between two groups. */
type Change = Pick<GroupChange, "from" | "to" | "change">;

/**
 * Returns the changes that are worth telling: all of what is in files and, of the stand-ins, those that say more. Left
 * out are what pods of the same namespace show already; what holds for fewer labels, too; and, where their namespaces are
 * in another change, changes between two ends that are in no file and those of minor stand-ins.
 */
export function toldChanges<T extends Change>(changes: readonly T[], standIns = NO_STAND_INS.names): readonly T[] {
  if (standIns.size === 0) return changes;
  const isOfFiles = ({ from, to }: Change): boolean => from.kind !== "new pods" && to.kind !== "new pods";
  const minor = new Set([...standIns.values()].flatMap(({ text, isMinor }) => (isMinor ? [text] : [])));
  const isBeside = ({ from, to }: Change): boolean =>
    [from, to].some(({ kind }) => kind === "pods") && ![from, to].some(({ name }) => minor.has(name));
  const ofFiles = changes.filter(isOfFiles);
  const shown = new Set(ofFiles.flatMap(({ from, to, change }) => keysOf(placesOf(from), placesOf(to), change)));
  const others = changes.filter((one) => {
    if (isOfFiles(one)) return false;
    return !keysOf([placeOf(one.from)], [placeOf(one.to)], one.change).some((key) => shown.has(key));
  });
  const beside = withFewestLabels(others.filter(isBeside), standIns);
  const scopeOf = scopesOf(standIns);
  const told = new Set([...ofFiles, ...beside].flatMap(({ from, to }) => [from, to].map(scopeOf)));
  const isTold = ({ from, to }: Change): boolean => {
    const scopes = [from, to].filter(({ kind }) => kind === "new pods").map(scopeOf);
    const ofNamespaces = scopes.filter((scope) => scope !== ELSEWHERE);
    return (ofNamespaces.length > 0 ? ofNamespaces : scopes).some((scope) => told.has(scope));
  };
  const rest = others.filter((one) => !isBeside(one) && !isTold(one));
  const kept = new Set([...ofFiles, ...beside, ...withFewestLabels(rest, standIns)]);
  return changes.filter((one) => kept.has(one));
}

function keysOf(from: readonly string[], to: readonly string[], change: PairChange): readonly string[] {
  return from.flatMap((source) => to.map((place) => `${source} > ${place} ${changeKey(change)}`));
}

/** Returns an end's own name or, for a stand-in, that of all pods of its namespace. */
function placeOf({ kind, name, whole }: EndGroup): string {
  return kind === "new pods" ? `in ${whole}` : name;
}

function placesOf(group: EndGroup): readonly string[] {
  return group.kind === "pods" ? [group.name, `in ${group.whole}`] : [group.name];
}

/** The scope of all namespaces that no file has. */
const ELSEWHERE = "elsewhere";

/** Returns a function that names an end's namespace: all that no file has are one. */
function scopesOf(standIns: StandIns["names"]): (end: EndGroup) => string {
  const elsewhere = new Set([...standIns.values()].flatMap((one) => (one.isInFiles ? [] : [one.namespace])));
  return ({ kind, whole }) => (kind === "new pods" && elsewhere.has(whole) ? ELSEWHERE : `in ${whole}`);
}

/** Returns the changes without those of ends that another end with fewer labels has, too. */
function withFewestLabels<T extends Change>(changes: readonly T[], standIns: StandIns["names"]): readonly T[] {
  const labels = new Map([...standIns.values()].map((one) => [one.text, one.labels]));
  const scope = scopesOf(standIns);
  const scopeOf = (end: EndGroup): string => (end.kind === "new pods" ? scope(end) : end.name);
  const labelsOf = ({ name }: EndGroup): Labels => labels.get(name) ?? {};
  const isMore = (one: EndGroup, than: EndGroup): boolean => isWithin(labelsOf(than), labelsOf(one));
  const alike = Map.groupBy(
    changes,
    ({ from, to, change }) => `${scopeOf(from)} > ${scopeOf(to)} ${changeKey(change)}`,
  );
  return [...alike.values()].flatMap((some) => {
    const kept: T[] = [];
    const count = ({ from, to }: Change): number =>
      Object.keys(labelsOf(from)).length + Object.keys(labelsOf(to)).length;
    for (const one of some.toSorted((a, b) => count(a) - count(b))) {
      if (!kept.some(({ from, to }) => isMore(one.from, from) && isMore(one.to, to))) kept.push(one);
    }
    return kept;
  });
}

/** Returns whether all of some labels are among others. */
export function isWithin(some: Labels, all: Labels): boolean {
  return Object.entries(some).every(([key, value]) => all[key] === value);
}
