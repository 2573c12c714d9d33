import assert from "node:assert/strict";
import { mutable } from "../../mutants/mutations.ts";
import { switchOn, takeReached } from "../../mutants/switch.ts";
import { switched } from "../../mutants/switched.ts";

const SWITCH = new URL("../../mutants/switch.ts", import.meta.url).href;

const SOURCE = `export function f(list: readonly number[], least: number): readonly number[] {
  if (list.length === 0) return [least];
  return list.filter((n) => n >= least && n !== 7);
}`;

interface Module {
  readonly f: (list: readonly number[], least: number) => readonly number[];
}

function isModule(module: unknown): module is Module {
  return typeof module === "object" && module !== null && "f" in module;
}

describe("mutants: code with a switch for each mutation", () => {
  const code = mutable(SOURCE);
  const ids = code.mutations.map(({ id }) => id.replace(/^\d+:\d+:/, ""));
  let f: Module["f"];

  before(async () => {
    const numbered = code.mutations.map((mutation, number) => ({ number, mutation }));
    const module: unknown = await import(
      `data:text/javascript,${encodeURIComponent(switched(code, numbered, SWITCH))}`
    );
    assert.ok(isModule(module));
    ({ f } = module);
  });

  afterEach(() => switchOn(undefined));

  it("behaves as before while none is on, and notes which places are reached", () => {
    takeReached();
    assert.deepEqual(f([], 3), [3]);
    const few = takeReached();
    assert.deepEqual(f([2, 3, 4, 7], 3), [3, 4]);
    const more = takeReached();
    assert.ok(few.length < code.mutations.length);
    assert.equal(new Set([...few, ...more]).size, code.mutations.length);
  });

  it("behaves as the one mutation that is on", () => {
    const results = new Map(
      ids.map((id, number) => {
        switchOn(number);
        return [id, [f([], 3), f([2, 3, 4, 7], 3)]];
      }),
    );
    assert.deepEqual(results.get("statement"), [[], [3, 4]]);
    assert.deepEqual(results.get("element"), [[], [3, 4]]);
    assert.deepEqual(results.get("call"), [[3], [2, 3, 4, 7]]);
  });
});
