import assert from "node:assert/strict";
import { existsSync, readFileSync } from "node:fs";
import { stringify } from "yaml";
import {
  applyMutant,
  type Mutant,
  MutantListError,
  parseMutants,
  runsExecutable,
  selectMutants,
} from "../../mutants/mutant.ts";

const mutant: Mutant = {
  id: "no-hairpin",
  breaks: "hairpin is not set",
  file: "cni/wiring/wiring.ts",
  line: "hairpin: true",
  replacement: "hairpin: false",
  test: "test/unit/cni/wiring/wiring.test.ts",
  title: "hairpin as configured",
};

function refusal(yaml: string): string {
  try {
    parseMutants(yaml);
  } catch (error) {
    assert.ok(error instanceof MutantListError);
    return error.message;
  }
  return "accepted";
}

describe("mutants: the list", () => {
  it("reads entries as they are", () => {
    assert.deepEqual(parseMutants(stringify([mutant])), [mutant]);
    assert.deepEqual(parseMutants(stringify([{ ...mutant, replacement: "" }]))[0]?.replacement, "");
  });

  const bad: readonly (readonly [Readonly<Record<string, unknown>>, string])[] = [
    [{ id: "No Hairpin" }, "entry 1 (No Hairpin): id: "],
    [{ id: undefined }, 'entry 1: id: undefined; expected "id"'],
    [{ file: "test/x.ts" }, 'file: "test/x.ts"; expected'],
    [{ file: "cni/../../x.ts" }, 'file: "cni/../../x.ts"; expected'],
    [{ file: "/cni/wiring.ts" }, 'file: "/cni/wiring.ts"; expected'],
    [{ test: "test/lab/lab.ts" }, 'test: "test/lab/lab.ts"; expected'],
    [{ line: "" }, "line: 0; expected !0"],
    [{ title: "" }, "title: "],
    [{ replacement: mutant.line }, "replacement: equals line"],
    [{ lines: "x" }, "lines: "],
  ];
  for (const [changes, message] of bad) {
    it(`refuses ${JSON.stringify(changes)}, naming entry and field`, () => {
      const found = refusal(stringify([{ ...mutant, ...changes }]));
      assert.ok(found.includes(message) && found.startsWith("entry 1"), found);
    });
  }

  it("refuses a repeated id, and text that is not a list", () => {
    assert.match(
      refusal(stringify([mutant, { ...mutant, line: "x" }])),
      /entry 2: id: "no-hairpin" is that of entry 1 too/,
    );
    for (const yaml of ["", "a: 1", "[]", "- 1"]) assert.match(refusal(yaml), /expected/);
    assert.match(refusal("- ["), /not YAML/);
  });

  it("selects by id, in the list's order, and refuses an unknown id", () => {
    const list = [mutant, { ...mutant, id: "b" }];
    assert.deepEqual(selectMutants(list, []), list);
    assert.deepEqual(
      selectMutants(list, ["b"]).map(({ id }) => id),
      ["b"],
    );
    assert.throws(() => selectMutants(list, ["c"]), /no mutant c; expected some of no-hairpin, b/);
  });
});

describe("mutants: a breakage", () => {
  it("replaces exactly one place, with special characters of the replacement taken literally", () => {
    assert.equal(applyMutant("a\n  hairpin: true,\n", mutant), "a\n  hairpin: false,\n");
    assert.equal(applyMutant("x hairpin: true y", { ...mutant, replacement: "$& $1 $$" }), "x $& $1 $$ y");
  });

  it("is refused where its line is missing or not unique", () => {
    assert.throws(
      () => applyMutant("", mutant),
      /no-hairpin: line: occurs 0 times in cni\/wiring\/wiring.ts; expected once/,
    );
    assert.throws(() => applyMutant("hairpin: true hairpin: true", mutant), /occurs 2 times/);
  });

  it("needs a new executable unless its test is a unit test", () => {
    assert.equal(runsExecutable(mutant), false);
    assert.equal(runsExecutable({ test: "test/integration/wiring/wiring.test.ts" }), true);
  });
});

describe("mutants: test/mutants.yaml", () => {
  const list = parseMutants(readFileSync(new URL("../../mutants.yaml", import.meta.url), "utf8"));

  for (const entry of list) {
    it(`${entry.id} still fits the code and names a test that exists`, () => {
      const root = new URL("../../../", import.meta.url);
      applyMutant(readFileSync(new URL(entry.file, root), "utf8"), entry);
      assert.ok(existsSync(new URL(entry.test, root)), entry.test);
    });
  }
});
