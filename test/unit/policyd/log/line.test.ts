import assert from "node:assert/strict";
import fc from "fast-check";
import { printable } from "../../../../objects/printable.ts";
import { jsonLine, textLine } from "../../../../policyd/log/line.ts";

const time = new Date("2026-05-04T03:02:01.000Z");

describe("policyd/log/line", () => {
  it("a text line has its fields, quoted where necessary", () => {
    const fields = { count: 3, ok: true, absent: undefined, name: "web", words: 'two "words"', empty: "" };
    assert.equal(
      textLine({ time, level: "warn", message: "a message", fields }),
      '2026-05-04T03:02:01.000Z warn  a message count=3 ok=true name=web words="two \\"words\\"" empty=""',
    );
  });

  it("DAEMON-08: no value can end its own quotes and look like another field", () => {
    const values = [
      "ends in \\",
      'a \\" pod=kube-system/dns "',
      `x: ${JSON.stringify('" level=error')}`,
      "plain\\ ",
      "\n\\ ",
    ];
    for (const value of values) {
      const line = textLine({ time, level: "warn", message: "m", fields: { reason: value, last: "z" } });
      const [, quoted = ""] = /^\S+ warn  m reason="((?:[^"\\]|\\["\\u])*)" last=z$/.exec(line) ?? [];
      assert.equal(quoted.replaceAll(/\\(["\\])/g, "$1"), printable(value), line);
    }
  });

  it("a JSON line keeps its level, time and message whatever its fields are called", () => {
    const line: unknown = JSON.parse(
      jsonLine({ time, level: "info", message: "m", fields: { msg: "forged", level: "error", a: 1 } }),
    );
    assert.deepEqual(line, { ts: "2026-05-04T03:02:01.000Z", level: "info", msg: "m", a: 1 });
  });

  it("DAEMON-08: no value ends the line, moves the cursor or turns the reading direction", () => {
    assert.equal(printable("a\nb\u001b[2J\u202e\u2028é✓"), "a\\u{a}b\\u{1b}[2J\\u{202e}\\u{2028}é✓");
    const hostile = fc.string({
      unit: fc.constantFrom("a", "\n", "\r", "\u0000", "\u0085", "\u009b", "\u202e", "\u2029", "\ud800", '"', "=", " "),
    });
    fc.assert(
      fc.property(hostile, hostile, (name, value) => {
        for (const line of [textLine, jsonLine].map((print) =>
          print({ time, level: "info", message: value, fields: { [name]: value } }),
        )) {
          assert.match(line, /^[^\p{C}\p{Zl}\p{Zp}]*$/u);
        }
      }),
    );
  });

  it("DAEMON-08: a long value is shortened", () => {
    assert.ok(printable("x".repeat(100_000)).length < 2100);
  });
});
