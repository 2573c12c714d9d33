import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import path from "node:path";
import { anotherSchema } from "../../cluster/daily_life/another_build.ts";
import {
  countSteps,
  formatFailures,
  formatSteps,
  isGood,
  readRecords,
  type StepWindow,
} from "../../cluster/daily_life/records.ts";
import { PROJECT } from "../../cluster/place.ts";

const FAILED = { kind: "failed", address: "10.96.0.9:8080", stage: "connect", error: "ECONNREFUSED" };
const LOST = { kind: "lost", address: "10.96.0.9:8080", stage: "exchange", error: "ECONNRESET" };

function lines(...records: readonly object[]): string {
  return records.map((one) => `${JSON.stringify(one)}\n`).join("");
}

function count(window: Partial<StepWindow>, ...records: readonly object[]) {
  const whole: StepWindow = { name: "pods deleted", from: 1000, to: 5000, ...window };
  const [step] = countSteps([whole], readRecords("node1 pod", lines(...records)));
  assert.ok(step !== undefined);
  return step;
}

describe("test/cluster/daily_life", () => {
  it("each record counts in the step in which it began", () => {
    const windows = [
      { name: "first", from: 1000, to: 2000 },
      { name: "second", from: 2000, to: 3000 },
    ];
    const records = readRecords(
      "node1 pod",
      lines(
        { kind: "second", time: 999, attempts: 40 },
        { kind: "second", time: 1999, attempts: 41, exchanges: 20, moved: 1 },
        { kind: "second", time: 2000, attempts: 42 },
        { ...FAILED, time: 2999 },
        { kind: "late", time: 2500, address: "10.96.0.9:8080", stage: "connect", took: 1010 },
      ),
    );
    assert.deepEqual(
      countSteps(windows, records).map((one) => [one.attempts, one.exchanges, one.moved, one.failures.length]),
      [
        [41, 20, 1, 0],
        [42, 0, 0, 1],
      ],
    );
  });

  it("a line that a generator has not finished is ignored", () => {
    assert.equal(readRecords("node1", `${lines({ kind: "second", time: 1, attempts: 2 })}{"kind":"sec`).length, 1);
  });

  it("an unknown record is refused", () => {
    assert.throws(() => readRecords("node1", lines({ kind: "minute", time: 1 })));
  });

  it("a failure is excused only while the API is outdated, and a lost connection only while its server is killed", () => {
    const window = { unknown: { from: 1000, to: 2000 }, killed: { from: 1000, to: 3000 } };
    const second = { kind: "second", time: 1000, attempts: 40 };
    const early = count(window, second, { ...FAILED, time: 1999 }, { ...LOST, time: 2999 });
    assert.deepEqual([early.excused.length, early.failures.length, isGood(early)], [2, 0, true]);
    const late = count(window, second, { ...FAILED, time: 2000 }, { ...LOST, time: 3000 });
    assert.deepEqual([late.excused.length, late.failures.length, isGood(late)], [0, 2, false]);
  });

  it("a step without connections, or which could not be done, is not good", () => {
    assert.equal(isGood(count({})), false);
    assert.equal(isGood(count({ error: "kubectl ended with 1" }, { kind: "second", time: 1000, attempts: 40 })), false);
  });

  it("a step with expected failures is good, and its table names the reason", () => {
    const step = count(
      { isExpected: "no network" },
      { kind: "second", time: 1000, attempts: 40 },
      { ...FAILED, time: 1500 },
    );
    assert.equal(isGood(step), true);
    assert.match(formatSteps([step]), /^\| pods deleted \| 4 \| 40 \| 1 \(no network\) \| 0 \|/m);
  });

  it("failures of one kind are listed in one line, with the seconds of the step", () => {
    const step = count({}, { ...FAILED, time: 1500 }, { ...FAILED, time: 2500 }, { ...LOST, time: 2500 });
    assert.deepEqual(formatFailures(step), [
      "2 × node1 pod to 10.96.0.9:8080: failed, connect, ECONNREFUSED, from second 0.5 to 1.5",
      "1 × node1 pod to 10.96.0.9:8080: lost, exchange, ECONNRESET, from second 1.5 to 1.5",
    ]);
  });

  it("anotherSchema changes the tables' version in the source, or fails", () => {
    const source = readFileSync(path.join(PROJECT, "policyd/ruleset/schema.ts"), "utf8");
    assert.match(anotherSchema(source), /another_build/);
    assert.throws(() => anotherSchema("export const nothing = 1;"), /has no line/);
  });
});
