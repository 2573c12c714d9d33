import { Buffer } from "node:buffer";
import * as fc from "fast-check";

/** A change that damages a text or, by chance, leaves it as it is. */
type Change = (text: string) => string | Uint8Array;

type Step = string | number;

/** Values that have made parsers of JSON and YAML fail. */
const HOSTILE: readonly unknown[] = [
  null,
  true,
  0,
  -1,
  1.5,
  1e308,
  70_000,
  "",
  "x",
  "80",
  "\0",
  "\u202e",
  "a\nb",
  "x".repeat(5000),
  [],
  {},
  [null],
  [[]],
  { "": "" },
  { matchLabels: null },
  { podSelector: {} },
  "10.0.0.0/8",
  "Deny",
  JSON.parse('{"__proto__": {"app": "db"}}'),
];

const KEYS = [
  "__proto__",
  "constructor",
  "_from",
  "from",
  "to",
  "ports",
  "podselector",
  "spec",
  "items",
  "kind",
  "",
  "app",
  "action",
  "except",
  "endPort",
  "policyTypes",
];

/** Pieces that mean something in YAML or JSON. */
const PIECES = [
  ..."{ } [ ] : , - # & * ! | > ' \" % @ ` \t \n".split(" "),
  "---\n",
  "...\n",
  "&a ",
  "*a ",
  "<<: *a\n",
  "!!binary ",
  "!!js/function ",
  "%YAML 1.1\n",
  "\ufeff",
  "\0",
  "\u2028",
  "\r\n",
  "null",
  "{{ .Values.x }}",
  "[".repeat(3000),
  "{a: ".repeat(3000),
  "- ".repeat(3000),
  `&a [${"*a, ".repeat(50)}]`,
];

/** A document that would grow to a billion values if its aliases were expanded. */
export const ALIAS_BOMB = [
  "a0: &a0 [x, x, x, x, x, x, x, x, x, x]",
  ...Array.from({ length: 9 }, (_, i) => `a${i + 1}: &a${i + 1} [${Array(10).fill(`*a${i}`).join(", ")}]`),
].join("\n");

const place = fc.double({ min: 0, max: 1, noNaN: true, maxExcluded: true });

const inText: fc.Arbitrary<Change> = fc.oneof(
  place.map(
    (at): Change =>
      (text) =>
        text.slice(0, at * text.length),
  ),
  fc.tuple(place, fc.nat(40)).map(
    ([at, length]): Change =>
      (text) =>
        cut(text, at, length, ""),
  ),
  fc.tuple(place, fc.constantFrom(...PIECES)).map(
    ([at, piece]): Change =>
      (text) =>
        cut(text, at, 0, piece),
  ),
  fc.tuple(place, fc.constantFrom(...PIECES)).map(
    ([at, piece]): Change =>
      (text) =>
        cut(text, at, 1, piece),
  ),
  fc.tuple(place, fc.constantFrom("delete", "double", "indent", "outdent")).map(([at, what]): Change => (text) => {
    const lines = text.split("\n");
    const number = Math.floor(at * lines.length);
    const line = lines[number] ?? "";
    const changed = { delete: [], double: [line, line], indent: [`  ${line}`], outdent: [line.slice(2)] }[what];
    return lines.toSpliced(number, 1, ...(changed ?? [])).join("\n");
  }),
  fc.tuple(place, fc.uint8Array({ minLength: 1, maxLength: 4 })).map(([at, bytes]): Change => (text) => {
    const all = Buffer.from(text);
    all.set(bytes.subarray(0, all.length), Math.floor(at * Math.max(0, all.length - bytes.length)));
    return all;
  }),
);

/** Changes of one value of one object, which keep the text readable. */
const inObjects: fc.Arbitrary<(objects: readonly unknown[]) => readonly unknown[]> = fc
  .record({
    at: place,
    what: fc.constantFrom("delete", "replace", "rename", "nest", "add", "double"),
    value: fc.constantFrom(...HOSTILE),
    key: fc.constantFrom(...KEYS),
  })
  .map(({ at, what, value, key }) => (objects) => {
    const paths = pathsOf(objects);
    const path = paths[Math.floor(at * paths.length)] ?? [];
    const changed = changeAt(objects, path, (entries, last) =>
      entries.flatMap(([name, old]) => {
        if (name !== String(last)) return [[name, old]];
        if (what === "delete") return [];
        if (what === "rename") return [[key, old]];
        if (what === "add")
          return [
            [name, old],
            [key, value],
          ];
        if (what === "double")
          return [
            [name, old],
            [name, old],
          ];
        return [[name, what === "nest" ? [old] : value]];
      }),
    );
    return Array.isArray(changed) ? changed : objects;
  });

/**
 * Generates files of manifests, as YAML or JSON, each with one to three mutations.
 *
 * @param yaml the manifests as people write them
 * @param objects the same manifests as objects
 */
export function mutatedFiles(
  yaml: string,
  objects: readonly unknown[],
): fc.Arbitrary<{ readonly name: string; readonly content: string | Uint8Array }> {
  const list = JSON.stringify({ apiVersion: "v1", kind: "List", items: objects }, undefined, 1);
  const texts = fc
    .tuple(
      fc.constantFrom({ name: "m.yaml", text: yaml }, { name: "m.json", text: list }),
      fc.array(inText, { minLength: 1, maxLength: 2 }),
    )
    .map(([{ name, text }, changes]) => ({
      name,
      content: changes.reduce<string | Uint8Array>(
        (now, change) => (typeof now === "string" ? change(now) : now),
        text,
      ),
    }));
  const trees = fc
    .array(inObjects, { minLength: 1, maxLength: 2 })
    .map((changes) => changes.reduce((now, change) => change(now), objects))
    .map((items) => ({
      name: "m.json",
      content: JSON.stringify({ apiVersion: "v1", kind: "List", items }, undefined, 1),
    }));
  return fc.oneof(texts, trees);
}

/** Returns the paths of all values in a tree except its root. */
export function pathsOf(value: unknown): readonly (readonly Step[])[] {
  if (typeof value !== "object" || value === null) return [];
  const entries: readonly (readonly [Step, unknown])[] = Array.isArray(value)
    ? [...value.entries()]
    : Object.entries(value);
  return entries.flatMap(([step, inner]) => [[step], ...pathsOf(inner).map((rest) => [step, ...rest])]);
}

/** Returns the tree with the value at a path replaced. */
export function replacedAt(value: unknown, path: readonly Step[], replacement: unknown): unknown {
  return changeAt(value, path, (entries, last) =>
    entries.map(([name, old]) => [name, name === String(last) ? replacement : old]),
  );
}

function changeAt(
  value: unknown,
  [step, ...rest]: readonly Step[],
  change: (entries: readonly [string, unknown][], last: Step) => readonly (readonly unknown[])[],
): unknown {
  if (typeof value !== "object" || value === null || step === undefined) return value;
  const entries = Object.entries<unknown>({ ...value });
  const changed: readonly (readonly unknown[])[] =
    rest.length === 0
      ? change(entries, step)
      : entries.map(([name, inner]) => [name, name === String(step) ? changeAt(inner, rest, change) : inner]);
  return Array.isArray(value)
    ? changed.map(([, inner]) => inner)
    : Object.fromEntries(changed.map(([name, inner]) => [String(name), inner]));
}

function cut(text: string, at: number, length: number, instead: string): string {
  const from = Math.floor(at * text.length);
  return text.slice(0, from) + instead + text.slice(from + length);
}
