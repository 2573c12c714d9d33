import type { LabelRequirement, Labels, LabelSelector } from "../../../objects/model.ts";

/** Returns whether labels meet all requirements of a selector; a missing key meets NotIn and DoesNotExist (POL-10). */
export function isSelected(selector: LabelSelector, labels: Labels): boolean {
  for (const [key, value] of Object.entries(selector.matchLabels)) if (labels[key] !== value) return false;
  for (const requirement of selector.matchExpressions) if (!meets(labels[requirement.key], requirement)) return false;
  return true;
}

function meets(value: string | undefined, { operator, values }: LabelRequirement): boolean {
  const isThere = value !== undefined;
  if (operator === "Exists") return isThere;
  if (operator === "DoesNotExist") return !isThere;
  const isListed = isThere && values.includes(value);
  return operator === "In" ? isListed : !isListed;
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
