import assert from "node:assert/strict";
import { FakeClock } from "../../../../policyd/clock.ts";
import type { Line } from "../../../../policyd/log/line.ts";
import { PacedLines } from "../../../../policyd/log/paced_lines.ts";

const MINUTE = 60_000;

describe("policyd/log/paced_lines", () => {
  let clock: FakeClock;
  let written: Line[];
  let lines: PacedLines;

  beforeEach(() => {
    clock = new FakeClock();
    written = [];
    lines = new PacedLines(clock, (line) => written.push(line));
  });

  const say = (reason: string, message = "object not used as it is"): void =>
    lines.add({ time: new Date(clock.time()), level: "warn", message, fields: { reason } });
  const reasons = (): readonly unknown[] => written.map(({ fields }) => fields["reason"]);
  const suppressed = (): readonly unknown[] => written.flatMap(({ fields }) => fields["suppressed"] ?? []);
  const numbered = (count: number): readonly string[] => Array.from({ length: count }, (_, i) => `object ${i}`);

  it("DAEMON-08 BAD-01: of a burst each line comes once, in its order and with its time, the later ones one a second", () => {
    const all = numbered(100);
    for (const reason of all) say(reason);
    assert.deepEqual(reasons(), all.slice(0, 20));
    clock.pass(5000);
    assert.deepEqual(reasons(), all.slice(0, 25));
    clock.pass(75_000);
    assert.deepEqual(reasons(), all);
    assert.equal(new Set(written.map(({ time }) => time.getTime())).size, 1);
    assert.deepEqual(suppressed(), []);
  });

  it("DAEMON-08: one message does not hold up another", () => {
    for (const reason of numbered(100)) say(reason);
    say("the kernel", "refused");
    assert.equal(reasons().at(-1), "the kernel");
  });

  it("DAEMON-08: what waits and is said again is written once, with how often it was not", () => {
    for (let i = 0; i < 50; i++) say("the same");
    clock.pass(MINUTE);
    assert.equal(written.length, 21);
    assert.deepEqual(suppressed(), [29]);
  });

  it("DAEMON-08: beyond 1000 that wait, the next line says how many are left out", () => {
    for (const reason of numbered(5000)) say(reason);
    clock.pass(20 * MINUTE);
    assert.deepEqual(reasons(), numbered(1020));
    assert.deepEqual(suppressed(), [3980]);
    assert.equal(written[20]?.fields["suppressed"], 3980);
  });

  it("DAEMON-08: who floods for an hour gets a line a second", () => {
    for (let second = 0; second < 3600; second++) {
      for (const reason of numbered(10)) say(`${second} ${reason}`);
      clock.pass(1000);
    }
    assert.ok(written.length <= 20 + 3600, `${written.length} lines`);
  });

  it("DAEMON-08: after a pause a burst is written at once again, and nothing goes on meanwhile", () => {
    for (const reason of numbered(30)) say(reason);
    clock.pass(MINUTE);
    assert.equal(clock.pending, 0);
    for (const reason of numbered(20)) say(reason);
    assert.equal(written.length, 50);
  });
});
