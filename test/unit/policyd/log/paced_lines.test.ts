import assert from "node:assert/strict";
import { FakeClock } from "../../../support/fake_clock.ts";
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

  const say = (reason: string, message = "object not used as it is", namespace = ""): void =>
    lines.add({ time: new Date(clock.time()), level: "warn", message, fields: { reason } }, namespace);
  const reasons = (): readonly unknown[] => written.map(({ fields }) => fields["reason"]);
  const suppressed = (): readonly unknown[] => written.flatMap(({ fields }) => fields["suppressed"] ?? []);
  const numbered = (count: number): readonly string[] => Array.from({ length: count }, (_, i) => `object ${i}`);

  it("DAEMON-08 BAD-01: each line of a burst is written once, in order and with its time, the later ones one per second", () => {
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

  it("DAEMON-08: a waiting line that is logged again is written once, with the number of repetitions omitted", () => {
    for (let i = 0; i < 50; i++) say("the same");
    clock.pass(MINUTE);
    assert.equal(written.length, 21);
    assert.deepEqual(suppressed(), [29]);
  });

  it("DAEMON-08: when more than 1000 lines wait, the oldest are omitted and the next line gives their number", () => {
    const all = numbered(5000);
    for (const reason of all) say(reason);
    clock.pass(20 * MINUTE);
    assert.deepEqual(reasons(), [...all.slice(0, 20), ...all.slice(-1000)]);
    assert.deepEqual(suppressed(), [3980]);
    assert.equal(written[20]?.fields["suppressed"], 3980);
  });

  it("SHARE-06: a namespace that floods the log delays and loses only its own lines", () => {
    const after = (namespaces: readonly [string, string]): readonly unknown[] => {
      clock = new FakeClock();
      written = [];
      lines = new PacedLines(clock, (line) => written.push(line));
      for (const reason of numbered(5000)) say(reason, undefined, namespaces[0]);
      for (const reason of ["a", "b", "c"]) say(reason, undefined, namespaces[1]);
      for (const reason of numbered(5000)) say(`again ${reason}`, undefined, namespaces[0]);
      clock.pass(7000);
      return reasons().filter((reason) => ["a", "b", "c"].includes(String(reason)));
    };
    // Without namespaces the three lines are lost among the rest.
    assert.deepEqual(after(["", ""]), []);
    assert.deepEqual(after(["greedy", "shop"]), ["a", "b", "c"]);
    clock.pass(30 * MINUTE);
    assert.equal(new Set(reasons()).size, reasons().length);
  });

  it("SHARE-06: a namespace gets 600 lines and then one in ten seconds over all messages, while others are not delayed", () => {
    let others = 0;
    for (let second = 0; second < 3600; second++) {
      for (let message = 0; message < 40; message++) say(`${second}`, `message ${message}`, "greedy");
      if (second % 60 === 0) say(`other ${second}`, "message 7", "shop");
      clock.pass(1000);
      others = reasons().filter((reason) => String(reason).startsWith("other")).length;
      assert.ok(others >= Math.floor(second / 60), `${others} of others after ${second} s`);
    }
    const own = written.length - others;
    assert.ok(own >= 600 && own <= 600 + 360 + 1, `${own} lines`);
  });

  it("DAEMON-08: after a pause a burst is written at once again, and no timer runs during the pause", () => {
    for (const reason of numbered(30)) say(reason);
    clock.pass(MINUTE);
    assert.equal(clock.pending, 0);
    for (const reason of numbered(20)) say(reason);
    assert.equal(written.length, 50);
  });
});
