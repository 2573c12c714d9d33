import assert from "node:assert/strict";
import * as v from "valibot";
import { parseJsonLine } from "../../../../policyd/lib/json_line.ts";

describe("policyd/lib/json_line", () => {
  const schema = v.object({ count: v.number() });

  it("a line of JSON that fits the schema gives its value", () => {
    assert.deepEqual(parseJsonLine('{"count":1}\n', schema, "flow"), { count: 1 });
  });

  for (const [line, expected] of [
    ["{", /^expected a flow as a JSON object on one line$/],
    ["1", /^flow: /],
    ['{"count":"a"}', /^count: .*number/],
    ["{}", /^count: /],
  ] as const) {
    it(`the line ${line} is ERR_INPUT that names what is wrong`, () => {
      assert.throws(() => parseJsonLine(line, schema, "flow"), { code: "ERR_INPUT", message: expected });
    });
  }
});
