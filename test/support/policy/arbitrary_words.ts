import * as fc from "fast-check";

/** Names. There are few of each kind, so that random objects often share one, whether they should or not. */
export const NAMESPACES = ["n1", "n2", "n3"] as const;
export const NODES = ["node1", "node2"] as const;
export const APPS = ["web", "db"] as const;
export const TIERS = ["front", "back"] as const;
export const NAMES = ["http", "dns", "metrics"] as const;
export const NUMBERS = [80, 8080, 53] as const;

/**
 * Generates one of `special` now and then, `usual` otherwise; integers of fast-check would favour the ends of a range.
 */
export function mostly<T>(usual: T, times: number, ...special: readonly T[]): fc.Arbitrary<T> {
  return fc.constantFrom(...Array.from({ length: times }, () => usual), ...special);
}

const expression = (key: string, values: readonly string[]): fc.Arbitrary<object> =>
  fc.oneof(
    fc.record({
      key: fc.constant(key),
      operator: fc.constantFrom("In", "NotIn"),
      values: fc.subarray([...values], { minLength: 1 }),
    }),
    fc.record({ key: fc.constant(key), operator: fc.constantFrom("Exists", "DoesNotExist") }),
  );

const selector = (words: Readonly<Record<string, readonly string[]>>): fc.Arbitrary<object> => {
  const keys = Object.keys(words);
  const pair = fc
    .constantFrom(...keys)
    .chain((key) => fc.constantFrom(...(words[key] ?? [])).map((value) => ({ [key]: value })));
  const requirement = fc.constantFrom(...keys).chain((key) => expression(key, words[key] ?? []));
  return fc.oneof(
    { weight: 4, arbitrary: fc.constant({}) },
    { weight: 4, arbitrary: pair.map((matchLabels) => ({ matchLabels })) },
    {
      weight: 4,
      arbitrary: fc
        .array(requirement, { minLength: 1, maxLength: 2 })
        .map((matchExpressions) => ({ matchExpressions })),
    },
    {
      weight: 1,
      arbitrary: fc.tuple(pair, requirement).map(([matchLabels, one]) => ({ matchLabels, matchExpressions: [one] })),
    },
  );
};

/** The selector of a policy's subject: mostly all pods, so that few are without a policy. */
export const subjectSelector: fc.Arbitrary<object> = fc.oneof(
  { weight: 2, arbitrary: fc.constant({}) },
  { weight: 1, arbitrary: selector({ app: APPS, tier: TIERS }) },
);

export const podSelector: fc.Arbitrary<object> = selector({ app: APPS, tier: TIERS });

export const namespaceSelector: fc.Arbitrary<object> = selector({
  team: ["a", "b"],
  env: ["prod"],
  "kubernetes.io/metadata.name": NAMESPACES,
});

export const nodeSelector: fc.Arbitrary<object> = fc.oneof(fc.constant({}), selector({ zone: ["a", "b"] }));
