import assert from "node:assert/strict";
import fc from "fast-check";
import { findInFile, lowerCounts } from "../../support/lint/prose_counts.ts";
import { findConstructions } from "../../support/lint/prose_rules.ts";

function names(text: string): readonly string[] {
  return findConstructions(text).map(({ construction }) => construction.name);
}

describe("prose lint", () => {
  describe("constructions", () => {
    for (const [text, expected] of [
      ["What is left goes to the next batch.", ["headless what"]],
      ["The batch ends. What is left waits.", ["headless what"]],
      ["Who waits for it calls learn.", ["headless who"]],
      ["A pod without a record is no pod of ours.", ["is no, is none"]],
      ["The daemon is told of it.", ["is told"]],
      ["The plugin alone writes it.", ["alone"]],
      ["The rules come behind the chains.", ["behind"]],
      ["The table is made anew for so many pods.", ["anew", "so many"]],
      ["The addresses are others now.", ["are others"]],
      ["He may only make a note of his own.", ["he, his, him", "he, his, him"]],
    ] as const) {
      it(`finds ${expected.join(" and ")} in "${text}"`, () => assert.deepEqual(names(text), expected));
    }

    for (const text of [
      "What does a node load?",
      "Who reaches whom, and why?",
      "There is no route to the pod.",
      "A client behind a router keeps its address.",
      "The kernel says what it has.",
      "The address belongs to another pod.",
    ]) {
      it(`accepts "${text}"`, () => assert.deepEqual(names(text), []));
    }
  });

  describe("counts", () => {
    it("name the file, the line and the words of an occurrence in a comment of several lines", () => {
      const [found] = findInFile("policyd/a.ts", "code();\n/**\n * The daemon\n * alone.\n */\n");
      assert.equal(found?.folder, "policyd");
      assert.match(found.place, /^policyd\/a\.ts:3: …The daemon \w+\.…$/);
    });

    it("are never raised by recording them", () => {
      const numbers = fc.record({ alone: fc.nat(9), anew: fc.nat(9) });
      fc.assert(
        fc.property(numbers, numbers, (recorded, counted) => {
          const lowered = lowerCounts({ policyd: recorded }, { policyd: counted })["policyd"];
          assert.equal(lowered?.["alone"], Math.min(recorded.alone, counted.alone));
          assert.equal(lowered["anew"], Math.min(recorded.anew, counted.anew));
        }),
      );
    });
  });
});
