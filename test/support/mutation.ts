import fc from "fast-check";

type Step = string | number;

/** Where a value stands in a tree: the keys and indexes that lead to it. */
export type Path = readonly Step[];

/** A change of one value; undefined removes it. */
export type Change = (value: unknown) => unknown;

/** Texts that have made parsers of names, paths, addresses and YAML fail. */
export const HOSTILE_TEXTS: readonly string[] = [
  ..."/ .. ../../../etc/passwd /../x a/b a:b %s%n eth%d all x 80 Deny é".split(" "),
  ..."10.0.0.0/8 10.244.1.0/24 010.0.0.1 127.1 ::/0 fe80::1%eth0 ::ffff:10.0.0.1 10.244.1.7/33 fd00::/127".split(" "),
  ..."224.0.0.1 ff:ff:ff:ff:ff:ff 0a:58:0a:f4:01:07".split(" "),
  "",
  " ",
  "\0",
  "a\nb",
  "\u202e",
  "\ud800",
  "é".repeat(40),
  "x".repeat(5000),
];

/** Values that have made readers of JSON and YAML fail. */
const HOSTILE: readonly unknown[] = [
  ...HOSTILE_TEXTS,
  null,
  true,
  0,
  -1,
  1.5,
  1e308,
  70_000,
  2 ** 32,
  [],
  {},
  [null],
  [[{}]],
  { "": "" },
  { toString: 1, hasOwnProperty: 1, length: -1 },
  { matchLabels: null },
  [[{ subnet: "10.9.0.0/30" }]],
  JSON.parse('{"__proto__": {"app": "db"}}'),
];

const KEYS =
  "__proto__ constructor _from from to ports podselector spec items kind app action except endPort policyTypes".split(
    " ",
  );

/** Generates changes that keep a tree readable as JSON. */
export const anyChange: fc.Arbitrary<Change> = fc.oneof(
  fc.oneof(fc.constantFrom(...HOSTILE), fc.jsonValue({ maxDepth: 3 })).map((value) => () => value),
  fc.constantFrom<Change>(
    () => undefined,
    (value) => [value],
    (value) => ({ value }),
    (value) => JSON.stringify(value),
    (value) => (Array.isArray(value) ? value.flatMap((one: unknown) => [one, one]) : [value, value]),
  ),
  fc.tuple(fc.constantFrom("", ...KEYS), fc.constantFrom(...HOSTILE)).map(([key, more]) => (value: unknown) => {
    if (typeof value !== "object" || value === null || Array.isArray(value)) return more;
    return Object.fromEntries([...Object.entries(value), [key, more]]);
  }),
  fc
    .tuple(fc.nat(200), fc.string({ minLength: 1, maxLength: 3, unit: "binary" }))
    .map(([at, more]) => (value: unknown) => {
      if (typeof value !== "string") return more;
      return value.slice(0, at % (value.length + 1)) + more + value.slice(at % (value.length + 1));
    }),
);

/** Returns the paths of all values in a tree, beginning with the tree itself. */
export function pathsOf(value: unknown): readonly Path[] {
  if (typeof value !== "object" || value === null) return [[]];
  const entries: readonly (readonly [Step, unknown])[] = Array.isArray(value)
    ? [...value.entries()]
    : Object.entries(value);
  return [[], ...entries.flatMap(([step, inner]) => pathsOf(inner).map((rest) => [step, ...rest]))];
}

/** Returns the tree with the value at a path changed. */
export function changedAt(value: unknown, [step, ...rest]: Path, change: Change): unknown {
  if (step === undefined) return change(value);
  if (typeof value !== "object" || value === null) return value;
  const entries = Object.entries<unknown>({ ...value }).flatMap(([name, inner]) => {
    const changed = name === String(step) ? changedAt(inner, rest, change) : inner;
    return changed === undefined ? [] : [[name, changed] as const];
  });
  return Array.isArray(value) ? entries.map(([, inner]) => inner) : Object.fromEntries(entries);
}
