import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import process from "node:process";
import fc from "fast-check";
import { parseAllDocuments } from "yaml";
import { memoryFiles, runCli } from "../../../support/cli/cli.ts";

const RUNS = process.env["DRAWBRIDGE_FULL"] === "1" ? 10_000 : 500;

const DOCUMENTS = ["policies.yaml", "shop.yaml"].flatMap((name) =>
  readFileSync(`test/fixtures/cli/lint/${name}`, "utf8").split(/^---\n/m),
);
/** Excludes two documents that cannot be read even without changes. */
const READABLE = DOCUMENTS.filter((text) => !/name: broken|kind: AdminNetworkPolicy/.test(text));

/** Words that are meaningful in some places, and words that are meaningful nowhere. */
const TEXTS = "web shop Deny TCP UDP ::/0 10.0.0.0/8 0.0.0.0/0 127.0.0.0/8 __proto__ In Exists node-1 Service".split(
  " ",
);
const SELECTORS = [{ matchLabels: {} }, { matchExpressions: [{}] }];
const PEERS = [{ podSelector: {} }, { namespaceSelector: {} }, { ipBlock: { cidr: "10.0.0.0/8" } }];
const OTHERS = [null, true, 0, -1, 65_536, Number.MAX_VALUE, "", "\u{202e}\u{1b}[2J", [], {}, [{}], [null]];
const WORDS: readonly unknown[] = [...TEXTS, ...SELECTORS, ...PEERS, ...OTHERS];
const KEYS = [
  "from",
  "to",
  "ports",
  "podSelector",
  "namespaceSelector",
  "ipBlock",
  "except",
  "cidr",
  "port",
  "endPort",
];
const MORE_KEYS = [
  "protocol",
  "policyTypes",
  "egress",
  "ingress",
  "spec",
  "metadata",
  "annotations",
  "action",
  "kind",
  "__proto__",
];

interface Change {
  readonly place: number;
  readonly kind: "delete" | "replace" | "add" | "double";
  readonly key: string;
  readonly word: unknown;
}

const change: fc.Arbitrary<Change> = fc.record({
  place: fc.nat(),
  kind: fc.constantFrom("delete", "replace", "add", "double"),
  key: fc.constantFrom(...KEYS, ...MORE_KEYS),
  word: fc.constantFrom(...WORDS),
});

/** Applies the changes at places that are counted through all objects. @returns JSON values one after the other */
function changedObjects(documents: readonly string[], changes: readonly Change[]): string {
  const objects = parseAllDocuments(documents.join("---\n")).map((document) => {
    const value: unknown = document.toJS();
    return value;
  });
  for (const one of changes) {
    const places = objects.flatMap(containersOf);
    const container = places[one.place % places.length];
    if (container !== undefined) apply(one, container);
  }
  return objects.map((object) => JSON.stringify(object)).join("\n");
}

type Container = Record<string, unknown> | unknown[];

function containersOf(value: unknown): readonly Container[] {
  if (typeof value !== "object" || value === null) return [];
  const container = value as Container;
  return [container, ...Object.values(container).flatMap(containersOf)];
}

function apply({ kind, key, word, place }: Change, container: Container): void {
  const keys = Object.keys(container);
  const chosen = keys[place % Math.max(1, keys.length)];
  const value: unknown = structuredClone(word);
  if (Array.isArray(container)) {
    if (kind === "delete") container.splice(place % Math.max(1, container.length), 1);
    else container.push(kind === "double" ? structuredClone(container[0]) : value);
  } else if (kind === "delete" && chosen !== undefined) delete container[chosen];
  else if (kind === "replace" && chosen !== undefined) container[chosen] = value;
  else Object.defineProperty(container, key, { value, enumerable: true, configurable: true, writable: true });
}

/** Returns the text with lines removed, moved, indented or replaced. */
function changedText(documents: readonly string[], changes: readonly Change[]): string {
  const lines = documents.join("---\n").split("\n");
  for (const { kind, place, word } of changes) {
    const i = place % lines.length;
    const line = lines[i] ?? "";
    if (kind === "delete") lines.splice(i, 1);
    else if (kind === "double") lines.splice((i * 7) % lines.length, 0, line);
    else lines[i] = kind === "replace" ? line.replace(/[^ :-]+$/, String(word)) : ` ${line}`;
  }
  return lines.join("\n");
}

describe("policy lint of random files", () => {
  it(`LINT-29: ${RUNS} mutated files give findings or an error, never an exception, and are never clean if part is unread`, async function () {
    this.timeout(RUNS * 400);
    const count = { read: 0, unread: 0 };
    const seed = Math.floor(Math.random() * 2 ** 31);
    await fc.assert(
      fc.asyncProperty(
        fc.array(change, { maxLength: 4 }),
        fc.boolean(),
        fc.boolean(),
        async (changes, isText, isAll) => {
          const documents = isAll ? DOCUMENTS : READABLE;
          const file = isText ? changedText(documents, changes) : changedObjects(documents, changes);
          const { code, out, err } = await runCli(
            ["policy", "lint", "-f", "-", "-o", "json"],
            memoryFiles({ "-": file }),
          );
          const found = JSON.parse(out) as readonly { readonly id: string; readonly line: number }[];
          assert.ok(found.every(({ line }) => Number.isInteger(line) && line >= 1));
          const isUnread = err !== "";
          count[isUnread ? "unread" : "read"]++;
          if (isUnread) assert.equal(code, 1);
        },
      ),
      { numRuns: RUNS, seed },
    );
    const reported = `read ${count.read}, unread ${count.unread}, seed ${seed}`;
    assert.ok(count.unread > RUNS / 10 && count.read > RUNS / 10, reported);
  });
});
