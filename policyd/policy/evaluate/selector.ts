import type { LabelRequirement, Labels, LabelSelector } from "../../cluster/model.ts";

/** Whether labels meet everything a selector asks for. NotIn and DoesNotExist are met by what lacks the key. */
export function selects({ matchLabels, matchExpressions }: LabelSelector, labels: Labels): boolean {
  for (const key in matchLabels) if (labels[key] !== matchLabels[key]) return false;
  return matchExpressions.every((requirement) => isMet(requirement, labels));
}

/** What of a selector labels do not meet; a pair of matchLabels reads as In with one value. */
export function unmet({ matchLabels, matchExpressions }: LabelSelector, labels: Labels): readonly LabelRequirement[] {
  const pairs = Object.entries(matchLabels).map(([key, value]): LabelRequirement => ({
    key,
    operator: "In",
    values: [value],
  }));
  return [...pairs, ...matchExpressions].filter((requirement) => !isMet(requirement, labels));
}

/** The keys of labels on which a selector's answer depends. */
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
