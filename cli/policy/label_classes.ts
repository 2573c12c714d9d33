import type { Labels, LabelSelector } from "../../objects/model.ts";
import { frozenLabels } from "../../objects/name.ts";
import { keysOf, selects } from "../../objects/semantics/policies/selector.ts";

/** Restrictions of labels. */
interface Given {
  /** The values that a key cannot have, by key. */
  readonly taken?: ReadonlyMap<string, ReadonlySet<string>>;
  /** The keys that always have a value. */
  readonly always?: readonly string[];
}

/**
 * Returns labels for each class of objects that some selectors tell apart: no two select the same of them. The first has
 * the fewest labels. Undefined for more than `most` classes.
 */
export function labelClasses(
  selectors: readonly LabelSelector[],
  most: number,
  { taken = new Map<string, ReadonlySet<string>>(), always = [] }: Given = {},
): readonly Labels[] | undefined {
  const keys = [...new Set([...always, ...selectors.flatMap(keysOf)])];
  let found: ReadonlyMap<string, Labels> = new Map([["1".repeat(selectors.length), {}]]);
  for (const key of keys) {
    const asked = selectors.map((selector) => partOf(selector, key));
    const meets = valuesOf(asked, key, taken.get(key), always.includes(key)).map((value) => {
      const labels = frozenLabels(value === undefined ? [] : [[key, value]]);
      return { labels, met: asked.map((part) => part === undefined || selects(part, labels)) };
    });
    const next = new Map<string, Labels>();
    for (const [before, labels] of found) {
      for (const { labels: more, met } of meets) {
        const after = met.map((isMet, i) => (isMet ? before[i] : "0")).join("");
        if (!next.has(after)) next.set(after, { ...labels, ...more });
      }
    }
    if (next.size > most) return undefined;
    found = next;
  }
  return [...found.values()];
}

/** Returns the requirements of a selector for one key; undefined for none. */
function partOf({ matchLabels, matchExpressions }: LabelSelector, key: string): LabelSelector | undefined {
  const value = Object.hasOwn(matchLabels, key) ? matchLabels[key] : undefined;
  const requirements = matchExpressions.filter((one) => one.key === key);
  if (value === undefined && requirements.length === 0) return undefined;
  return { matchLabels: frozenLabels(value === undefined ? [] : [[key, value]]), matchExpressions: requirements };
}

/** Returns the values of a key that selectors tell apart: none, each that they name, and any other. */
function valuesOf(
  asked: readonly (LabelSelector | undefined)[],
  key: string,
  taken: ReadonlySet<string> | undefined,
  isAlways: boolean,
): readonly (string | undefined)[] {
  const named = new Set(
    asked
      .flatMap((part) => [part?.matchLabels[key] ?? [], ...(part?.matchExpressions ?? []).map((one) => one.values)])
      .flat(),
  );
  let other = "any";
  while (named.has(other) || taken?.has(other) === true) other += "-other";
  const possible = [...named].filter((value) => taken?.has(value) !== true);
  return isAlways ? [other, ...possible] : [undefined, ...possible, other];
}
