import assert from "node:assert/strict";
import { parseDuration } from "../../../../policyd/lib/duration.ts";

describe("policyd/lib/duration", () => {
  const durations: readonly (readonly [string, number | undefined])[] = [
    ["1s", 1000],
    ["500ms", 500],
    ["1m30s", 90_000],
    ["1.5h", 5_400_000],
    [".5s", 500],
    ["0", 0],
    ["0s", 0],
    ["1500us", 2],
    ["1", undefined],
    ["", undefined],
    ["-1s", undefined],
    ["1 s", undefined],
    ["s", undefined],
    ["1h1m1s1ms", 3_661_001],
    ["1ns", undefined],
    ["1sx", undefined],
    ["1d", undefined],
    ["9999999999999h", undefined],
  ];
  for (const [text, milliseconds] of durations) {
    it(`${JSON.stringify(text)} is ${milliseconds ?? "no"} duration`, () => {
      assert.equal(parseDuration(text), milliseconds);
    });
  }
});
