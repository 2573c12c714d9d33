import type { Labels, LabelSelector } from "../../../objects/model.ts";
import { requirementText } from "../../../objects/semantics/policies/print.ts";
import { unmet } from "../../../objects/semantics/policies/selector.ts";
import { nearestNames } from "../../../objects/nearest_names.ts";

/** A label that was probably meant. */
export interface Suggestion {
  readonly asked: string;
  readonly nearest: string;
}

/**
 * Returns a suggestion for a selector that selects nothing with these labels: a requirement that none of them meets,
 * and the existing label most like it. Undefined where none is alike.
 */
export function nearestLabel(selector: LabelSelector, all: Iterable<Labels>): Suggestion | undefined {
  const labels = [...all];
  const keys = new Set(labels.flatMap((one) => Object.keys(one)));
  const missing = labels.map((one) => unmet(selector, one));
  const [first = [], ...others] = missing;
  for (const requirement of first) {
    if (!others.every((one) => one.some((other) => requirementText(other) === requirementText(requirement)))) continue;
    const { key, operator, values } = requirement;
    if (operator === "Exists") {
      const [nearest] = nearestNames(key, keys);
      if (nearest !== undefined) return { asked: key, nearest };
    }
    for (const value of operator === "In" ? values : []) {
      const nearest = nearestPair(key, value, labels);
      if (nearest !== undefined) return { asked: `${key}=${value}`, nearest };
    }
  }
  return undefined;
}

/** Returns a value among several of a requirement that no label has, and the existing value most like it. */
export function unknownValue({ matchExpressions }: LabelSelector, all: Iterable<Labels>): Suggestion | undefined {
  const labels = [...all];
  for (const { key, operator, values } of matchExpressions) {
    const known = new Set(labels.flatMap((one) => one[key] ?? []));
    // A value that the requirement lists as well is not its correction.
    const others = [...known].filter((one) => !values.includes(one));
    for (const value of operator === "In" ? values.filter((one) => !known.has(one)) : []) {
      const [nearest] = nearestNames(
        value,
        others.filter((other) => looksAlike(value, other)),
      );
      if (nearest !== undefined) return { asked: `${key}=${value}`, nearest: `${key}=${nearest}` };
    }
  }
  return undefined;
}

/** Returns the remedy; undefined where nothing looks alike. */
export function suggestionText(suggestion: Suggestion | undefined): string | undefined {
  return suggestion && `there is no ${suggestion.asked}; probably ${suggestion.nearest} is meant`;
}

/** Returns the most similar pair: one with another value of the key, or else with another key of the value. */
function nearestPair(key: string, value: string, labels: readonly Labels[]): string | undefined {
  const values = new Set(labels.flatMap((one) => one[key] ?? []));
  const [otherValue] = nearestNames(
    value,
    [...values].filter((other) => looksAlike(value, other)),
  );
  if (otherValue !== undefined) return `${key}=${otherValue}`;
  const keys = labels.flatMap((one) => Object.keys(one).filter((other) => one[other] === value));
  const [otherKey] = nearestNames(key, new Set(keys));
  return otherKey && `${otherKey}=${value}`;
}

/** Returns whether a typing error may separate two words: it leaves the first or the last character as it is. */
function looksAlike(a: string, b: string): boolean {
  return a[0] === b[0] || a.at(-1) === b.at(-1);
}
