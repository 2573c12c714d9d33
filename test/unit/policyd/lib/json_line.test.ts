import assert from "node:assert/strict";
import * as v from "valibot";
import { parseJsonLine } from "../../../../policyd/lib/json_line.ts";

describe("policyd/lib/json_line", () => {
  const schema = v.object({ count: v.number() });
  const whole = v.strictObject({
    count: v.pipe(v.number(), v.safeInteger(), v.minValue(1), v.maxValue(9)),
    end: v.union([v.strictObject({ node: v.string() }), v.strictObject({ pod: v.string() })], "one of node and pod"),
    when: v.optional(v.pipe(v.string(), v.isoTimestamp())),
    names: v.optional(v.pipe(v.array(v.pipe(v.string(), v.maxLength(3))), v.minLength(1))),
    verdict: v.optional(v.picklist(["allowed", "denied"])),
    kind: v.optional(v.literal("X")),
  });

  it("a line of JSON that fits the schema gives its value", () => {
    assert.deepEqual(parseJsonLine('{"count":1}\n', schema, "flow"), { count: 1 });
  });

  for (const [line, expected] of [
    ["{", /^expected a flow as a JSON object on one line$/],
    ["1", /^flow: 1; expected an object$/],
    ['{"count":"a"}', /^count: "a"; expected a number$/],
    ["{}", /^count is missing$/],
  ] as const) {
    it(`the line ${line} is ERR_INPUT that names what is wrong`, () => {
      assert.throws(() => parseJsonLine(line, schema, "flow"), { code: "ERR_INPUT", message: expected });
    });
  }

  for (const [fields, expected] of [
    [{ count: 0 }, "count: 0; expected at least 1"],
    [{ count: 10 }, "count: 10; expected at most 9"],
    [{ count: 1.5 }, "count: 1.5; expected an integer"],
    [{ count: [] }, "count: a list; expected a number"],
    [{ end: { name: "a" } }, "end: an object; expected one of node and pod"],
    [{ when: "now" }, 'when: "now"; expected a moment such as 2026-01-02T03:04:05Z'],
    [{ names: [] }, "names: a list; expected a length of at least 1"],
    [{ names: ["abcd"] }, 'names.0: "abcd"; expected a length of at most 3'],
    [{ names: null }, "names: null; expected a list"],
    [{ verdict: "x" }, 'verdict: "x"; expected one of allowed, denied'],
    [{ kind: "Y" }, 'kind: "Y"; expected X'],
  ] as const) {
    it(`the line ${JSON.stringify(fields)} is refused in our own words, and not in those of the library`, () => {
      const line = JSON.stringify({ count: 1, end: { node: "n" }, ...fields });
      assert.throws(() => parseJsonLine(line, whole, "flow"), { code: "ERR_INPUT", message: expected });
    });
  }
});
