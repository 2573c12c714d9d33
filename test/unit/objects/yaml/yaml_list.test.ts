import assert from "node:assert/strict";
import fc from "fast-check";
import { DrawbridgeError } from "../../../../kernel/error.ts";
import { type BrokenObject, readYamlObjects } from "../../../../objects/yaml/documents.ts";
import { cutList, headerOf } from "../../../../objects/yaml/yaml_list.ts";
import { readTree } from "../../../../objects/yaml/yaml_tree.ts";
import { countedSeed, roundsFor } from "../../../support/long_form.ts";

interface Read {
  readonly objects: readonly { readonly value: unknown; readonly line: number }[];
  readonly refusal?: string;
}

function read(text: string, passes?: (broken: BrokenObject) => boolean): Read {
  try {
    const objects = [...readYamlObjects(text, passes)].map(({ value, lineOf }) => ({ value, line: lineOf([]) }));
    return { objects: JSON.parse(JSON.stringify(objects)) as Read["objects"] };
  } catch (error) {
    assert.ok(error instanceof DrawbridgeError, String(error));
    return { objects: [], refusal: error.message };
  }
}

/** The items as the library reads them in the tree of the whole list. */
function itemsAsWhole(text: string): Read {
  try {
    const tree = readTree({ text, line: 1 });
    const items = (tree?.value as { items?: unknown } | undefined)?.items ?? [];
    // An object without a list is read like any other.
    if (!Array.isArray(items)) return { objects: [{ value: tree?.value, line: tree?.lineOf([]) ?? 0 }] };
    const objects = items.map((value: unknown, i) => ({ value, line: tree?.lineOf(["items", i]) ?? 0 }));
    return { objects: JSON.parse(JSON.stringify(objects)) as Read["objects"] };
  } catch (error) {
    assert.ok(error instanceof DrawbridgeError, String(error));
    return { objects: [], refusal: error.message };
  }
}

const ITEMS = [
  "- kind: A\n  a: 1\n",
  "- kind: B\n  b:\n  - 1\n  - c: 2\n",
  "- {kind: C, d: [1]}\n",
  "-\n  kind: D\n",
  "- kind: E\n  t: |\n    - x\n    y\n",
  "- kind: F\n  t: 'a\n\n    - b'\n",
  "- kind: F2\n  t: 'a\n- b'\n",
  '- kind: F3\n  t: "a\n  - b"\n',
  "- kind: G\n  x: &x {a: 1}\n",
  "- kind: H\n  x: *x\n",
  "- kind: I\n\n# c\n  y: 1\n",
  "- kind: J\n  a: 1\n  a: 2\n",
  "- # c\n  kind: K\n",
  "-   kind: L\n    z: [1,\n- 2]\n",
  "- kind: M\n  t: >-\n    a\n    b\n",
  "- x\n",
  "-\n",
  "- kind: N\n b: 1\n",
  "  q: 1\n",
  "# -\n",
  "\n",
  "...\n",
];
const list = fc
  .tuple(
    fc.constantFrom("apiVersion: v1\nkind: List\n", "kind: List\n", "# c\nkind: List\n", "x: &x 1\nkind: List\n"),
    fc.constantFrom("items:\n", "items: # c\n", "items:\n\n", "items: \n# c\n"),
    fc.array(fc.constantFrom(...ITEMS), { maxLength: 6 }),
    fc.constantFrom("", "  ", "    "),
    fc.constantFrom("", "metadata: {}\n", "kind: List\n", "...\nx: 1\n", "items: []\n", "*x : 1\n"),
  )
  .map(([before, items, parts, indent, after]) => {
    const indented = parts.map((part) => part.replaceAll(/^(?=.)/gm, indent)).join("");
    return `${before}${items}${indented}${after}`;
  });

describe("objects/yaml/yaml_list", () => {
  it("YAML-04: items of random lists are read as from the whole list, with their lines, or both are refused", () => {
    let cut = 0;
    fc.assert(
      fc.property(list, (text) => {
        if (cutList({ text, line: 1 }) !== undefined) cut++;
        const [one, whole] = [read(text), itemsAsWhole(text)];
        assert.equal(
          one.refusal === undefined,
          whole.refusal === undefined,
          `${text}\n${one.refusal ?? whole.refusal}`,
        );
        assert.deepEqual(one.objects, whole.objects, text);
      }),
      { numRuns: roundsFor("random cases", 400, 10_000), seed: countedSeed() },
    );
    assert.ok(cut > 100, `${cut} lists were cut`);
  });

  it("YAML-04: a broken document or item is skipped only where the caller says so", () => {
    const secret = "apiVersion: v1\nkind: Secret\ndata:\n  a: b\n  a: c\n";
    const policy = "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nspec: {a: 1, a: 2}\n";
    const passed: string[] = [];
    const passes = ({ apiVersion, kind, reason }: BrokenObject): boolean => {
      passed.push(`${apiVersion} ${kind}: ${reason.message}`);
      return kind === "Secret";
    };
    const reported = ["v1 Secret: line 5: a key stands twice in one object"];
    assert.deepEqual(read(`${secret}---\nkind: A\n`, passes).objects, [{ value: { kind: "A" }, line: 7 }]);
    assert.deepEqual(passed.splice(0), reported);
    const asItem = (text: string): string => `- ${text.trimEnd().replaceAll("\n", "\n  ")}\n`;
    const items = `kind: List\nitems:\n- kind: A\n${asItem(secret)}- kind: B\n`;
    assert.deepEqual(
      read(items, passes).objects.map(({ value, line }) => [(value as { kind: string }).kind, line]),
      [
        ["A", 3],
        ["B", 9],
      ],
    );
    assert.deepEqual(passed.splice(0), ["v1 Secret: line 8: a key stands twice in one object"]);
    assert.match(read(`${secret}---\n${policy}`, passes).refusal ?? "", /^line 9: a key stands twice in one object/);
    assert.match(read(`${items}${asItem(policy)}`, passes).refusal ?? "", /a key stands twice in one object/);
    assert.match(read(secret).refusal ?? "", /^line 5: /);
  });

  it("YAML-04: a broken object has a header only if kind and apiVersion stand once, at its own indentation", () => {
    assert.deepEqual(headerOf("# c\n  kind: 'Secret' # x\n  apiVersion: v1\n  data: [\n"), {
      apiVersion: "v1",
      kind: "Secret",
    });
    assert.equal(headerOf("kind: Secret\nkind: Pod\napiVersion: v1\n"), undefined);
    assert.equal(headerOf("kind: Secret\ndata:\n  apiVersion: v1\n"), undefined);
    assert.equal(headerOf("{kind: Secret, apiVersion: v1,\n"), undefined);
  });
});
