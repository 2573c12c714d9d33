import assert from "node:assert/strict";
import { parse } from "acorn";
import { readFileSync } from "node:fs";
import { mutable, type Mutation } from "../../mutants/mutations.ts";

function apply(code: string, { start, end, replacement }: Mutation): string {
  return code.slice(0, start) + replacement + code.slice(end);
}

/** Returns the operators of a text's mutations, each with the text that it makes. */
function mutantsOf(source: string): readonly string[] {
  const { code, mutations } = mutable(source);
  return mutations.map((mutation) => `${mutation.id.split(":")[2]}: ${apply(code, mutation)}`);
}

describe("mutants: operators", () => {
  const rows: readonly (readonly [source: string, ...mutants: string[]])[] = [
    ["x = a < b;", "statement: ;", "operator: x = a <= b;"],
    ["x = a === b;", "statement: ;", "operator: x = a !== b;"],
    [
      "x = (a ?? b) + c;",
      "statement: ;",
      "operator: x = (a ?? b) - c;",
      "operand: x = ( b) + c;",
      "operand: x = (a ) + c;",
    ],
    ["x = `a${b}` + c;", "statement: ;", 'literal: x = "" + c;'],
    ["x = !a;", "statement: ;", "operator: x = !!a;"],
    ["x += 1;", "statement: ;", "operator: x -= 1;", "literal: x += 2;"],
    ["const x = a && b;", "operand: const x =  b;", "operand: const x = a ;"],
    ["const x = a ?? [];", "operand: const x =  [];"],
    ["const x = [a, ...b];", "element: const x = [...b];", "element: const x = [(a)];"],
    [
      'const x = { a: 1n, b, "c": "" };',
      'property: const x = {a: 1n, "c": ""};',
      'literal: const x = { a: 2n, b, "c": "" };',
      'literal: const x = { a: 1n, b, "c": "mutant" };',
    ],
    ["const x = a.filter(b).length;", "call: const x = a.length;"],
    ["const x = a?.b.filter(c);"],
    ["const x = a.some(b);", "call: const x = a.every(b);"],
    ["const f = () => g(a, b);", "body: const f = () => undefined;", "call: const f = () => a;"],
    ["const x = a ? b : c;", "condition: const x = !(a) ? b : c;"],
    ['const x = a === "b" ? c : d;', 'operator: const x = a !== "b" ? c : d;'],
    ["for (; i < n; i++) f();", "operator: for (; i <= n; i++) f();", "statement: for (; i < n; i++) ;"],
    ["while (a) continue;", "condition: while (false) continue;", "statement: while (a) ;"],
    [
      "function f() { if (a) return b; return c; }",
      "condition: function f() { if (!(a)) return b; return c; }",
      "statement: function f() { if (a) ; return c; }",
    ],
    [
      'if (a < 1) throw new Error(`a is ${a}` + "!");',
      'condition: if (!(a < 1)) throw new Error(`a is ${a}` + "!");',
      'operator: if (a <= 1) throw new Error(`a is ${a}` + "!");',
      'literal: if (a < 2) throw new Error(`a is ${a}` + "!");',
      "statement: if (a < 1) ;",
    ],
    [
      'import a from "b"; export { c } from "d"; "use strict";',
      'statement: import a from "b"; export { c } from "d"; ;',
    ],
  ];
  for (const [source, ...expected] of rows)
    it(`${source} has ${expected.length}`, () => assert.deepEqual([...mutantsOf(source)].sort(), expected.sort()));

  it("leave types and positions as they are", () => {
    const [mutation] = mutable("const a: string | undefined =\n  b as string ? c : d;").mutations;
    assert.equal(mutation?.id, "2:3:condition");
  });

  it("make of a source of ours only texts that can be read, that differ from it and each other, with ids of their own", () => {
    const source = readFileSync(new URL("../../../ipam/owner.ts", import.meta.url), "utf8");
    const { code, mutations } = mutable(source);
    const texts = mutations.map((mutation) => apply(code, mutation));
    for (const text of texts) parse(text, { ecmaVersion: "latest", sourceType: "module" });
    assert.ok(texts.length > 30 && !texts.includes(code));
    assert.equal(new Set(texts).size, texts.length);
    assert.equal(new Set(mutations.map(({ id }) => id)).size, mutations.length);
  });
});
