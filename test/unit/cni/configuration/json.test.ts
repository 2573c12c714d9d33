import assert from "node:assert/strict";
import { showValue } from "../../../../cni/error.ts";
import { decode, isNestedDeeper } from "../../../../cni/json.ts";
import { assertRefusal } from "../../../support/cni/cni.ts";

const shape = {
  hostPort: "number",
  text: "string",
  flag: "boolean",
  whole: "object",
  anything: "any",
  inner: { deepKey: "number" },
  list: [{ itemKey: "number" }],
  lists: [[{ itemKey: "number" }]],
} as const;

describe("cni/json", () => {
  it("keys in any case get the declared spelling, also inside objects and lists (P12)", () => {
    const input = {
      HOSTPORT: 1,
      Inner: { DEEPKEY: 2 },
      LIST: [{ ItemKey: 3 }, { itemkey: 4 }],
      lists: [[{ ITEMKEY: 5 }], []],
    };
    assert.deepEqual(decode(input, shape), {
      hostPort: 1,
      inner: { deepKey: 2 },
      list: [{ itemKey: 3 }, { itemKey: 4 }],
      lists: [[{ itemKey: 5 }], []],
    });
  });

  it("the last of several spellings of a key counts, as in Go (P12)", () => {
    assert.deepEqual(decode({ hostPort: 1, HostPort: 2 }, shape), { hostPort: 2 });
    assert.deepEqual(decode({ HostPort: 2, hostPort: 1, HOSTPORT: 3 }, shape), { hostPort: 3 });
    assert.deepEqual(decode({ HostPort: 2, HOSTPORT: 3 }, shape), { hostPort: 3 });
    assert.deepEqual(decode(JSON.parse('{"hostPort":1,"hostPort":2}'), shape), { hostPort: 2 });
  });

  it("undeclared keys are dropped, and values that are only passed on stay as they are (P12)", () => {
    const passed = { AnyCase: [1, null], x: { Y: "z" } };
    assert.deepEqual(decode({ other: 1, WHOLE: passed, anything: [passed, null] }, shape), {
      whole: passed,
      anything: [passed, null],
    });
  });

  const wrong: readonly (readonly [path: string, input: unknown, shown: string, expected: string])[] = [
    ["hostPort", { HOSTPORT: "1" }, '"1"', "number"],
    ["text", { text: 1 }, "1", "string"],
    ["flag", { flag: "true" }, '"true"', "boolean"],
    ["whole", { whole: [] }, "[]", "object"],
    ["inner", { inner: [] }, "[]", "object"],
    ["inner.deepKey", { INNER: { DEEPKEY: [1] } }, "[1]", "number"],
    ["list", { list: {} }, "{}", "list"],
    ["list[1]", { list: [{}, []] }, "[]", "object"],
    ["list[0]", { list: [null] }, "null", "object"],
    ["list[1].itemKey", { list: [{}, { itemKey: true }] }, "true", "number"],
    ["lists[0][2].itemKey", { lists: [[{}, {}, { ITEMKEY: "5" }]] }, '"5"', "number"],
    ["configuration", "x", '"x"', "object"],
  ];
  for (const [path, input, shown, expected] of wrong) {
    it(`refuses ${JSON.stringify(input)}, naming path, value and type`, () => {
      assertRefusal(() => decode(input, shape), { code: 7, says: [`${path}: ${shown}; expected ${expected}`] });
    });
  }

  it("a hostile key does not reach a prototype, and the name of a prototype's member is not a declared key", () => {
    const hostile =
      '{"__proto__":{"hostPort":1},"constructor":{"prototype":{"hostPort":1}},"__PROTO__":1,"toString":1,"hasownproperty":1,"VALUEOF":2,"inner":{"__proto__":{"deepKey":1}}}';
    const decoded = decode(JSON.parse(hostile), shape);
    assert.deepEqual(decoded, { inner: {} });
    assert.equal(Object.getPrototypeOf(decoded), Object.prototype);
    assert.equal("hostPort" in decoded, false);
  });
});

describe("cni/json limits", () => {
  it("isNestedDeeper counts levels of objects and lists, not of values", () => {
    assert.equal(isNestedDeeper(1, 0), false);
    assert.equal(isNestedDeeper([], 0), true);
    assert.equal(isNestedDeeper({ a: [1] }, 2), false);
    assert.equal(isNestedDeeper({ a: [1, {}] }, 2), true);
  });

  it("showValue prints values as JSON and cuts long ones", () => {
    assert.equal(showValue(undefined), "missing");
    assert.equal(showValue("a\n"), '"a\\n"');
    assert.equal(showValue({ a: [1] }), '{"a":[1]}');
    assert.equal(showValue("x".repeat(1_000_000)).length, 201);
  });
});
