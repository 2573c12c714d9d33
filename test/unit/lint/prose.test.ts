import assert from "node:assert/strict";
import fc from "fast-check";
import { compareCounts, countOccurrences, findInFile, lowerCounts } from "../../support/lint/prose_counts.ts";
import { findConstructions } from "../../support/lint/prose_rules.ts";
import { readProse } from "../../support/lint/prose_text.ts";

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

  describe("reading", () => {
    it("joins the lines of a block comment to one paragraph and starts a new one at an empty line", () => {
      const source = "const a = 1;\n/**\n * Returns the\n * pods.\n *\n * Fails never.\n */\n";
      assert.deepEqual(readProse("a.ts", source), [
        { text: "Returns the pods.", line: 3 },
        { text: "Fails never.", line: 6 },
      ]);
    });

    it("joins line comments that follow each other, and separates those with code between", () => {
      const source = "// First line\n// and second.\ncode();\n// Third.\n";
      assert.deepEqual(readProse("a.ts", source), [
        { text: "First line and second.", line: 1 },
        { text: "Third.", line: 4 },
      ]);
    });

    it("reads messages of three words or more without their values, and ignores names", () => {
      const source = 'fail(`the pod ${name} is told`); open("pod name"); it("drops the packet", f);\n';
      assert.deepEqual(
        readProse("a.ts", source).map(({ text }) => text),
        ["the pod … is told", "drops the packet"],
      );
    });

    it("does not take quotes within a regular expression for the start of a message", () => {
      const source = 'const quoted = /"[^"]*/g;\n// The pods go.\n';
      assert.deepEqual(readProse("a.ts", source), [{ text: "The pods go.", line: 2 }]);
    });

    it("leaves code blocks and code spans of Markdown out", () => {
      const source = "# Title\n\nText with `told of` in it.\n\n```\ntold of\n```\n* What it is\n";
      assert.deepEqual(readProse("a.md", source), [
        { text: "Title", line: 1 },
        { text: "Text with code in it.", line: 3 },
        { text: "What it is", line: 8 },
      ]);
    });

    it("reads comments of YAML and of shell scripts", () => {
      assert.deepEqual(readProse("a.yaml", "a: 1\n# Read by the\n# daemon.\n"), [
        { text: "Read by the daemon.", line: 2 },
      ]);
      assert.deepEqual(readProse(".ci/run", "# Runs all.\n"), [{ text: "Runs all.", line: 1 }]);
    });
  });

  describe("counts", () => {
    const occurrences = [
      ...findInFile("policyd/a.ts", "// The daemon alone.\n// It is made anew.\n"),
      ...findInFile("README.md", "The plugin alone.\n"),
    ];

    it("are kept for each top-level folder, and for the files beside them", () => {
      const counts = countOccurrences(occurrences);
      assert.deepEqual(Object.keys(counts), [".", "policyd"]);
      assert.equal(counts["policyd"]?.["alone"], 1);
      assert.equal(counts["policyd"]?.["anew"], 1);
      assert.equal(counts["."]?.["alone"], 1);
      assert.equal(counts["."]?.["anew"], 0);
    });

    it("name the file, the line and the words of each occurrence", () => {
      assert.equal(occurrences[0]?.place, "policyd/a.ts:1: …The daemon alone. It is made anew.…");
    });

    it("differ where a number rose, fell, or was never recorded", () => {
      const counts = countOccurrences(occurrences);
      assert.deepEqual(compareCounts(counts, counts), []);
      assert.deepEqual(compareCounts({ policyd: { alone: 1, anew: 2 } }, counts), [
        { folder: ".", construction: "alone", recorded: 0, counted: 1 },
        { folder: "policyd", construction: "anew", recorded: 2, counted: 1 },
      ]);
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
