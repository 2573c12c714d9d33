import assert from "node:assert/strict";
import { Buffer } from "node:buffer";
import { readFileSync } from "node:fs";
import * as fc from "fast-check";
import { parseAllDocuments } from "yaml";
import type { ManifestFileSystem } from "../../../cli/input/manifest_files.ts";
import { type Outcome, runCli } from "../../support/cli/cli.ts";
import { countedSeed, roundsFor } from "../../support/long_form.ts";
import { anyChange, changedAt, pathsOf } from "../../support/mutation.ts";

const FILES = roundsFor("changed files", 50, 10_000);

const YAML = readFileSync("test/fixtures/cli/mutated.yaml", "utf8");
const OBJECTS = objectsIn(YAML);
/** Manifests with a case for each rule of lint, without the two that cannot be read even unchanged. */
const LINTED = ["policies.yaml", "shop.yaml"]
  .flatMap((name) => readFileSync(`test/fixtures/cli/lint/${name}`, "utf8").split(/^---\n/m))
  .filter((text) => !/name: broken|kind: AdminNetworkPolicy/.test(text))
  .join("---\n");

function objectsIn(yaml: string): readonly unknown[] {
  return parseAllDocuments(yaml).map((document) => {
    const object: unknown = document.toJS();
    return object;
  });
}

const COMMANDS = {
  matrix: ["policy", "matrix", "-o", "json"],
  explain: ["policy", "explain", "--from", "shop/web", "--to", "service/shop/db", "--port", "5432", "-o", "json"],
  lint: ["policy", "lint", "-o", "json"],
} as const;

type CommandName = keyof typeof COMMANDS;

function oneFile(name: string, content: string | Uint8Array): ManifestFileSystem {
  return {
    typeOf: (path) => (path === name ? "file" : undefined),
    isLink: () => false,
    namesIn: () => [],
    *read() {
      yield Buffer.from(content);
    },
  };
}

function run(command: CommandName, name: string, content: string | Uint8Array): Promise<Outcome> {
  return runCli([...COMMANDS[command], "-f", name], oneFile(name, content));
}

/** A change that damages a text or, by chance, leaves it as it is. */
type Damage = (text: string) => string | Uint8Array;

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
const ALIAS_BOMB = [
  "a0: &a0 [x, x, x, x, x, x, x, x, x, x]",
  ...Array.from({ length: 9 }, (_, i) => `a${i + 1}: &a${i + 1} [${Array(10).fill(`*a${i}`).join(", ")}]`),
].join("\n");

const place = fc.double({ min: 0, max: 1, noNaN: true, maxExcluded: true });

const inText: fc.Arbitrary<Damage> = fc.oneof(
  place.map(
    (at): Damage =>
      (text) =>
        text.slice(0, at * text.length),
  ),
  fc.tuple(place, fc.nat(40)).map(
    ([at, length]): Damage =>
      (text) =>
        cut(text, at, length, ""),
  ),
  fc.tuple(place, fc.constantFrom(...PIECES)).map(
    ([at, piece]): Damage =>
      (text) =>
        cut(text, at, 0, piece),
  ),
  fc.tuple(place, fc.constantFrom(...PIECES)).map(
    ([at, piece]): Damage =>
      (text) =>
        cut(text, at, 1, piece),
  ),
  fc.tuple(place, fc.constantFrom("delete", "double", "indent", "outdent")).map(([at, what]): Damage => (text) => {
    const lines = text.split("\n");
    const number = Math.floor(at * lines.length);
    const line = lines[number] ?? "";
    const changed = { delete: [], double: [line, line], indent: [`  ${line}`], outdent: [line.slice(2)] }[what];
    return lines.toSpliced(number, 1, ...(changed ?? [])).join("\n");
  }),
  fc.tuple(place, fc.uint8Array({ minLength: 1, maxLength: 4 })).map(([at, bytes]): Damage => (text) => {
    const all = Buffer.from(text);
    all.set(bytes.subarray(0, all.length), Math.floor(at * Math.max(0, all.length - bytes.length)));
    return all;
  }),
);

/**
 * Generates files of manifests, as YAML or JSON, each with one to three mutations.
 *
 * @param yaml the manifests as people write them
 * @param objects the same manifests as objects
 */
function mutatedFiles(
  yaml: string,
  objects: readonly unknown[],
): fc.Arbitrary<{ readonly name: string; readonly content: string | Uint8Array }> {
  const list = JSON.stringify({ apiVersion: "v1", kind: "List", items: objects }, undefined, 1);
  const texts = fc
    .tuple(
      fc.constantFrom({ name: "m.yaml", text: yaml }, { name: "m.json", text: list }),
      fc.array(inText, { minLength: 1, maxLength: 2 }),
    )
    .map(([{ name, text }, damages]) => ({
      name,
      content: damages.reduce<string | Uint8Array>(
        (now, damage) => (typeof now === "string" ? damage(now) : now),
        text,
      ),
    }));
  const inTree = fc.record({ at: place, change: anyChange });
  const trees = fc
    .array(inTree, { minLength: 1, maxLength: 2 })
    .map((mutations) =>
      mutations.reduce<unknown>((now, { at, change }) => {
        // The list itself stays a list, and every other value can change.
        const [, ...paths] = pathsOf(now);
        return changedAt(now, paths[Math.floor(at * paths.length)] ?? [0], change);
      }, objects),
    )
    .map((items) => ({
      name: "m.json",
      content: JSON.stringify({ apiVersion: "v1", kind: "List", items }, undefined, 1),
    }));
  return fc.oneof(texts, trees);
}

function cut(text: string, at: number, length: number, instead: string): string {
  const from = Math.floor(at * text.length);
  return text.slice(0, from) + instead + text.slice(from + length);
}

describe("cli: invalid files", function () {
  this.timeout(1_800_000);

  it(`CLI-02: ${FILES} mutated files give an answer or an error with file and line, never a bug`, async () => {
    const seen = new Map<string, number>();
    await fc.assert(
      fc.asyncProperty(mutatedFiles(YAML, OBJECTS), async ({ name, content }) => {
        for (const command of ["matrix", "explain"] as const) {
          const outcome = await run(command, name, content);
          checkOutcome(command, name, Buffer.from(content).toString(), outcome);
          seen.set(`${command} ${outcome.code}`, (seen.get(`${command} ${outcome.code}`) ?? 0) + 1);
        }
      }),
      { numRuns: FILES, seed: countedSeed() },
    );
    const counts = JSON.stringify(Object.fromEntries(seen));
    for (const answer of ["matrix 0", "matrix 3", "explain 0", "explain 3"]) {
      assert.ok((seen.get(answer) ?? 0) > FILES / 50, counts);
    }
  });

  it(`LINT-05: ${FILES} mutated files with a case for each rule give findings or an error, and are never clean if part is unread`, async () => {
    const count = { read: 0, unread: 0 };
    await fc.assert(
      fc.asyncProperty(mutatedFiles(LINTED, objectsIn(LINTED)), async ({ name, content }) => {
        const outcome = await run("lint", name, content);
        checkOutcome("lint", name, Buffer.from(content).toString(), outcome);
        const isUnread = outcome.code === 3 || outcome.err.includes("not everything could be read");
        count[isUnread ? "unread" : "read"]++;
        if (isUnread) assert.notEqual(outcome.code, 0);
        if (outcome.code === 3) return;
        const found = JSON.parse(outcome.out) as readonly { readonly line: number }[];
        assert.ok(found.every(({ line }) => Number.isInteger(line) && line >= 1));
      }),
      { numRuns: FILES, seed: countedSeed() },
    );
    assert.ok(Math.min(count.read, count.unread) > FILES / 20, JSON.stringify(count));
  });

  it("CLI-05: a value of a wrong type anywhere in a policy is an error, never a policy that is omitted", async () => {
    let count = 0;
    for (const [number, object] of OBJECTS.entries()) {
      if (!/Policy"/.test(JSON.stringify(object))) continue;
      for (const path of pathsOf(object)) {
        const old = path.reduce<unknown>((value, step) => memberOf(value, step), object);
        if (path[0] !== "spec" || typeof old !== "object") continue;
        for (const wrong of [5, "x", true, Array.isArray(old) ? {} : [["x"]]]) {
          const items = OBJECTS.with(
            number,
            changedAt(object, path, () => wrong),
          );
          const text = items.map((item) => JSON.stringify(item)).join("\n");
          const { code, out, err } = await run("matrix", "m.json", text);
          assert.equal(code, 3, `${path.join(".")} = ${JSON.stringify(wrong)}: ${out}`);
          assert.match(err, new RegExp(`^m\\.json:${number + 1}: `));
          count++;
        }
      }
    }
    assert.ok(count > 150, String(count));
  });

  it("CLI-05: an invalid value in a policy, or a policy of unknown kind or version, is an error", async () => {
    const changes: readonly (readonly [from: string, to: string])[] = [
      ["protocol: TCP, port: sql", "protocol: tcp, port: sql"],
      ["port: 9000, endPort: 9010", "port: 9010, endPort: 9000"],
      ["port: 9000, endPort: 9010", "port: 0"],
      ["port: 9000, endPort: 9010", "port: 70000"],
      ["port: 9000, endPort: 9010", "port: sql, endPort: 9010"],
      ["operator: In", "operator: in"],
      ["values: [web]", "values: []"],
      ["cidr: 192.0.2.0/24", "cidr: 192.0.2.0/33"],
      ["cidr: 192.0.2.0/24", "cidr: 192.0.2.0"],
      ["except: [192.0.2.128/25]", "except: [198.51.100.0/25]"],
      ["policyTypes: [Ingress, Egress]", "policyTypes: [Ingres, Egress]"],
      ["tier: Admin", "tier: Admins"],
      ["priority: 10", "priority: 10.5"],
      ["action: Deny", "action: Reject"],
      ["name: default-deny, namespace: shop", "name: db, namespace: shop"],
    ];
    for (const [from, to] of changes) {
      const text = YAML.replace(from, to);
      assert.notEqual(text, YAML, from);
      const { code, out, err } = await run("matrix", "m.yaml", text);
      assert.equal(code, 3, `${to}: ${out}`);
      assert.match(err, /^m\.yaml:\d+: /, to);
    }
  });

  it("CLI-02: aliases that would fill the memory, and ten thousand brackets, are handled like any invalid file", async () => {
    for (const text of [
      ALIAS_BOMB,
      `${YAML}\n---\n${ALIAS_BOMB}`,
      "[".repeat(10_000),
      "{a: ".repeat(10_000),
      "- ".repeat(10_000) + YAML,
    ]) {
      checkOutcome("matrix", "m.yaml", text, await run("matrix", "m.yaml", text));
    }
    const deep = '{"a":'.repeat(100_000);
    checkOutcome("matrix", "m.json", deep, await run("matrix", "m.json", deep));
  });
});

function memberOf(value: unknown, step: string | number): unknown {
  return new Map(Object.entries<unknown>({ ...(typeof value === "object" ? value : {}) })).get(String(step));
}

/** Matches notes about all objects (READ-13 to READ-13) followed by an error about the question. */
const ONLY_MISSING =
  /^(?:[^\n]*(?:nothing was read on|no pods and no workloads|none of the pods that were read|contradict each other)[^\n]*\n)*drawbridge: /;

function checkOutcome(command: CommandName, name: string, text: string, { code, out, err }: Outcome): void {
  assert.doesNotMatch(out + err, /^ +at .*:\d+:\d+\)?$/m, "a stack trace");
  if (code !== 3) {
    assert.ok(code === 0 || code === 1, `${code}: ${err}`);
    JSON.parse(out);
    return;
  }
  // The change may have removed one of the ends.
  if (command === "explain" && ONLY_MISSING.test(err)) return;
  // The change may leave nothing that looks like a manifest.
  if (err.startsWith(`drawbridge: no manifest in what was given; expected one: ${name} (`)) return;
  const [, file, line] = /^(?:drawbridge: )?([\w.]+):(\d+): /.exec(err) ?? [];
  assert.equal(file, name, err);
  assert.ok(Number(line) >= 1 && Number(line) <= text.split("\n").length, err);
  if (command !== "lint") assert.equal(out, "", "half an answer");
}
