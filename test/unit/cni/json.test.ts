import assert from "node:assert/strict";
import fc from "fast-check";
import type { KeyShape } from "../../../cni/json.ts";
import { foldKeys, isNestedDeeper, showValue } from "../../../cni/json.ts";
import { configurationOf, ipamInput } from "../../support/cni.ts";

const shape: KeyShape = {
  hostPort: true,
  inner: { deepKey: true },
  list: [{ itemKey: true }],
  lists: [[{ itemKey: true }]],
};

describe("cni/json", () => {
  it("folds keys of any case to the declared spelling, also inside objects and lists (P12)", () => {
    assert.deepEqual(
      foldKeys(
        { HOSTPORT: 1, Inner: { DEEPKEY: 2 }, LIST: [{ ItemKey: 3 }, { itemkey: 4 }], lists: [[{ ITEMKEY: 5 }], []] },
        shape,
      ),
      { hostPort: 1, inner: { deepKey: 2 }, list: [{ itemKey: 3 }, { itemKey: 4 }], lists: [[{ itemKey: 5 }], []] },
    );
  });

  it("takes the last of several spellings, as Go does (P12)", () => {
    assert.deepEqual(foldKeys({ hostPort: 1, HostPort: 2 }, shape), { hostPort: 2 });
    assert.deepEqual(foldKeys({ HostPort: 2, hostPort: 1, HOSTPORT: 3 }, shape), { hostPort: 3 });
    assert.deepEqual(foldKeys({ HostPort: 2, HOSTPORT: 3 }, shape), { hostPort: 3 });
    assert.deepEqual(foldKeys(JSON.parse('{"hostPort":1,"hostPort":2}'), shape), { hostPort: 2 });
  });

  it("takes null for an absent key, so that it does not hide another spelling", () => {
    assert.deepEqual(foldKeys({ hostPort: null, HostPort: 2 }, shape), { hostPort: 2 });
    assert.deepEqual(foldKeys({ hostPort: null, inner: { deepKey: null }, list: null }, shape), { inner: {} });
  });

  it("drops what is not declared and keeps undeclared values inside as they are (P12)", () => {
    assert.deepEqual(foldKeys({ other: 1, hostPort: { AnyCase: [1] } }, shape), { hostPort: { AnyCase: [1] } });
  });

  it("leaves values of another type to the schema", () => {
    for (const value of [1, "x", true, null, [1]]) assert.deepEqual(foldKeys(value, { hostPort: true }), value);
    assert.deepEqual(foldKeys({ list: "x", inner: [1] }, shape), { list: "x", inner: [1] });
  });

  it("reaches no prototype by a hostile key", () => {
    const hostile =
      '{"__proto__":{"hostPort":1},"constructor":{"prototype":{"hostPort":1}},"__PROTO__":1,"toString":1,"inner":{"__proto__":{"deepKey":1}}}';
    const folded = foldKeys(JSON.parse(hostile), shape);
    assert.deepEqual(folded, { inner: {} });
    assert.ok(folded !== null && typeof folded === "object");
    assert.equal(Object.getPrototypeOf(folded), Object.prototype);
    assert.equal("hostPort" in folded, false);
  });

  it("takes no prototype's member for a declared key", () => {
    assert.deepEqual(foldKeys({ hasownproperty: 1, VALUEOF: 2 }, shape), {});
  });

  it("goes only as deep as the shape, and through long lists at once", () => {
    const nested: unknown = JSON.parse(`{"hostPort":${"[".repeat(100_000)}${"]".repeat(100_000)}}`);
    assert.ok(foldKeys(nested, shape) !== undefined);
    const items = Array.from({ length: 100_000 }, (_, itemKey) => ({ ITEMKEY: itemKey }));
    const started = performance.now();
    const folded = foldKeys({ LIST: items }, shape);
    assert.ok(performance.now() - started < 2000);
    assert.deepEqual(folded, { list: items.map(({ ITEMKEY }) => ({ itemKey: ITEMKEY })) });
  });

  it("decodes a configuration equally in any case of all its keys (P12)", () => {
    const full = {
      ...ipamInput({ routes: [{ dst: "0.0.0.0/0", gw: "10.244.1.1" }], dataDir: "/d", resolvConf: "/r" }),
      bridge: "br7",
      isGateway: true,
      hairpinMode: true,
      mtu: 1400,
      runDir: "/run/x",
      dns: { nameservers: ["10.0.0.1"], domain: "d", search: ["s"], options: ["o"] },
      args: { cni: { ips: ["10.244.1.7"], mac: "0a:58:00:00:00:01" } },
      runtimeConfig: { mac: "0a:58:00:00:00:02", ips: ["fd00:244:1::7"], portMappings: [] },
    };
    const expected = configurationOf(full);
    fc.assert(
      fc.property(fc.infiniteStream(fc.boolean()), (coins) => {
        assert.deepEqual(configurationOf(permuteCase(full, coins)), expected);
      }),
    );
  });
});

describe("cni/json limits", () => {
  it("counts levels of objects and lists, not of values", () => {
    assert.equal(isNestedDeeper(1, 0), false);
    assert.equal(isNestedDeeper([], 0), true);
    assert.equal(isNestedDeeper({ a: [1] }, 2), false);
    assert.equal(isNestedDeeper({ a: [1, {}] }, 2), true);
  });

  it("stops counting at the limit, however deep the value", () => {
    const deep: unknown = JSON.parse(`${'{"a":['.repeat(200_000)}${"]}".repeat(200_000)}`);
    assert.equal(isNestedDeeper(deep, 64), true);
  });

  it("shows values as JSON, long ones cut", () => {
    assert.equal(showValue(undefined), "missing");
    assert.equal(showValue("a\n"), '"a\\n"');
    assert.equal(showValue({ a: [1] }), '{"a":[1]}');
    assert.equal(showValue("x".repeat(1_000_000)).length, 201);
  });
});

/** The same data with each letter of each key in the case the next coin says. */
function permuteCase(value: unknown, coins: Iterator<boolean>): unknown {
  if (Array.isArray(value)) return value.map((element: unknown) => permuteCase(element, coins));
  if (value === null || typeof value !== "object") return value;
  const spell = (key: string): string =>
    Array.from(key, (letter) => (coins.next().value === true ? letter.toUpperCase() : letter.toLowerCase())).join("");
  return Object.fromEntries(Object.entries(value).map(([key, element]) => [spell(key), permuteCase(element, coins)]));
}
