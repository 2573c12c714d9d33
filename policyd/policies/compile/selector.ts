import type { LabelRequirement, Labels, LabelSelector } from "../../../objects/model.ts";

/** The requirements of a selector for one key. */
interface Demand {
  /** The value must be one of these; undefined for any. */
  allowed: ReadonlySet<string> | undefined;
  /** The value must be none of these. A set takes 0.2 kB, which most of the many selectors do not need. */
  denied: Set<string> | undefined;
  mustExist: boolean;
  mustNotExist: boolean;
}

/** The requirements of a selector by key, and how many keys it demands. */
interface Demands {
  readonly byKey: ReadonlyMap<string, Demand>;
  readonly required: number;
}

const known = new WeakMap<LabelSelector, Demands>();
const labelCounts = new WeakMap<Labels, number>();

/** The number of keys of nearly all selectors, for which labels are not counted. */
const FEW_KEYS = 8;

/**
 * Returns whether labels meet all requirements of a selector; a missing key meets NotIn and DoesNotExist (POL-10).
 *
 * It costs as much as there are labels or keys of the selector, whatever is fewer: it is asked for each pod.
 */
export function isSelected(selector: LabelSelector, labels: Labels): boolean {
  const { byKey, required } = demandsOf(selector);
  if (byKey.size <= FEW_KEYS || byKey.size <= countOf(labels)) {
    for (const [key, demand] of byKey) if (!isMet(demand, labels[key])) return false;
    return true;
  }
  let met = 0;
  for (const key in labels) {
    const demand = byKey.get(key);
    if (demand === undefined) continue;
    if (!isMet(demand, labels[key])) return false;
    if (demand.mustExist) met++;
  }
  return met === required;
}

function isMet({ mustExist, mustNotExist, allowed, denied }: Demand, value: string | undefined): boolean {
  if (value === undefined) return !mustExist;
  return !mustNotExist && denied?.has(value) !== true && allowed?.has(value) !== false;
}

function countOf(labels: Labels): number {
  const count = labelCounts.get(labels) ?? Object.keys(labels).length;
  labelCounts.set(labels, count);
  return count;
}

function demandsOf(selector: LabelSelector): Demands {
  const before = known.get(selector);
  if (before !== undefined) return before;
  const byKey = new Map<string, Demand>();
  for (const [key, value] of Object.entries(selector.matchLabels)) {
    merge(byKey, { key, operator: "In", values: [value] });
  }
  for (const requirement of selector.matchExpressions) merge(byKey, requirement);
  let required = 0;
  for (const { mustExist } of byKey.values()) if (mustExist) required++;
  const demands = { byKey, required };
  known.set(selector, demands);
  return demands;
}

function merge(byKey: Map<string, Demand>, { key, operator, values }: LabelRequirement): void {
  const all = byKey.get(key) ?? { allowed: undefined, denied: undefined, mustExist: false, mustNotExist: false };
  byKey.set(key, all);
  if (operator === "DoesNotExist") all.mustNotExist = true;
  else if (operator === "NotIn") for (const value of values) (all.denied ??= new Set()).add(value);
  else all.mustExist = true;
  if (operator !== "In") return;
  const { allowed } = all;
  all.allowed = new Set(allowed === undefined ? values : values.filter((value) => allowed.has(value)));
}

/** Returns whether a selector selects everything. */
export function isEmptySelector({ matchLabels, matchExpressions }: LabelSelector): boolean {
  return matchExpressions.length === 0 && Object.keys(matchLabels).length === 0;
}

/** Returns the same value for selectors that differ only in the order in which they were written. */
export function selectorIdentity({ matchLabels, matchExpressions }: LabelSelector): unknown {
  const pairs = Object.entries(matchLabels).map(([key, value]) => [key, "In", value]);
  const requirements = matchExpressions.map(({ key, operator, values }) => [
    key,
    operator,
    ...[...new Set(values)].toSorted(),
  ]);
  return [...new Set([...pairs, ...requirements].map((one) => JSON.stringify(one)))].toSorted();
}
