import type { LabelRequirement, Labels, LabelSelector } from "../../model.ts";

/** Returns whether labels meet all requirements of a selector. A missing key meets NotIn and DoesNotExist. */
export function selects({ matchLabels, matchExpressions }: LabelSelector, labels: Labels): boolean {
  for (const key in matchLabels) if (labels[key] !== matchLabels[key]) return false;
  return matchExpressions.every((requirement) => isMet(requirement, labels));
}

/** Returns all requirements of a selector; a pair of matchLabels becomes In with one value. */
export function requirementsOf({ matchLabels, matchExpressions }: LabelSelector): readonly LabelRequirement[] {
  const pairs = Object.entries(matchLabels).map(([key, value]): LabelRequirement => ({
    key,
    operator: "In",
    values: [value],
  }));
  return [...pairs, ...matchExpressions];
}

/** Returns the requirements of a selector that labels do not meet. */
export function unmet(selector: LabelSelector, labels: Labels): readonly LabelRequirement[] {
  return requirementsOf(selector).filter((requirement) => !isMet(requirement, labels));
}

/** Returns the keys of labels that a selector depends on. */
export function keysOf({ matchLabels, matchExpressions }: LabelSelector): readonly string[] {
  return [...Object.keys(matchLabels), ...matchExpressions.map(({ key }) => key)];
}

function isMet({ key, operator, values }: LabelRequirement, labels: Labels): boolean {
  const value = labels[key];
  switch (operator) {
    case "In":
      return value !== undefined && values.includes(value);
    case "NotIn":
      return value === undefined || !values.includes(value);
    case "Exists":
      return value !== undefined;
    case "DoesNotExist":
      return value === undefined;
  }
}
