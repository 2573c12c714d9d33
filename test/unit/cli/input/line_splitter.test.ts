import assert from "node:assert/strict";
import { LineSplitter } from "../../../../cli/input/line_splitter.ts";

describe("cli/input/line_splitter", () => {
  it("a text in chunks of any size gives the same lines, also where a chunk ends within a character", () => {
    const bytes = new TextEncoder().encode("é1\n\nü2\nrest");
    for (let size = 1; size <= bytes.length; size++) {
      const splitter = new LineSplitter();
      const lines: string[] = [];
      for (let at = 0; at < bytes.length; at += size) lines.push(...splitter.push(bytes.subarray(at, at + size)));
      assert.deepEqual([...lines, splitter.end()], ["é1", "", "ü2", "rest"], `chunks of ${size}`);
    }
  });

  it("LineSplitter counts the characters of a line as pending until its end arrives", () => {
    const splitter = new LineSplitter();
    assert.deepEqual([...splitter.push(new TextEncoder().encode("a\nbcd"))], ["a"]);
    assert.equal(splitter.pending, 3);
  });
});
