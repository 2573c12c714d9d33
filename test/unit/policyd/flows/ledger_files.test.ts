import assert from "node:assert/strict";
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync, truncateSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { systemFileSystem } from "../../../../ipam/file_system.ts";
import { readTextFile } from "../../../../kernel/file.ts";
import { parseCidr } from "../../../../kernel/ip/cidr.ts";
import { nodeSyscalls } from "../../../../kernel/syscall/koffi.ts";
import { parseRow, rowLine } from "../../../../policyd/flows/journal.ts";
import { readLedger, textOf, writeAll, writeChanges } from "../../../../policyd/flows/ledger_files.ts";
import { atOnce } from "../../../../policyd/lib/sliced_work.ts";
import type { FlowRow } from "../../../../policyd/flows/row.ts";

const ROW: FlowRow = {
  from: { type: "workload", name: "shop/deployment/web" },
  to: { type: "outside", range: parseCidr("203.0.113.0/28") },
  protocol: "TCP",
  port: 443,
  verdict: "denied",
  observedAt: "from",
  firstSeen: Date.UTC(2026, 0, 2, 3, 4, 5, 6),
  lastSeen: Date.UTC(2026, 0, 2, 3, 4, 6),
  count: 3,
  open: 1,
  bytes: 12_345,
  reason: "isolated by shop/web",
};
const PING: FlowRow = {
  ...ROW,
  to: { type: "node", name: "n1" },
  protocol: "ICMP",
  port: undefined,
  reason: undefined,
};

function fileOf(...rows: readonly FlowRow[]): string {
  return atOnce(textOf(rows));
}

describe("policyd/flows files", () => {
  const syscalls = nodeSyscalls();
  let directory = "";
  const place = () => ({
    directory: path.join(directory, "flows"),
    files: systemFileSystem(syscalls),
    read: (file: string, limit: number) => readTextFile(syscalls, file, limit),
  });

  beforeEach(() => {
    directory = mkdtempSync(path.join(tmpdir(), "drawbridge-flows-"));
  });

  afterEach(() => {
    rmSync(directory, { recursive: true });
  });

  it("FLOW-04: a row is read as it was written", () => {
    for (const row of [ROW, PING]) assert.deepEqual({ ...parseRow(rowLine(row)) }, row);
  });

  it("FLOW-04: rows are formatted in slices, between which other work can be done", () => {
    const rows = Array.from({ length: 1000 }, (_, index) => ({ ...ROW, port: index + 1 }));
    assert.ok([...textOf(rows)].length >= 10);
    writeChanges(place(), 1, fileOf(...rows));
    assert.deepEqual(
      atOnce(readLedger(place())).rows.map(({ port }) => port),
      rows.map(({ port }) => port),
    );
  });

  it("FLOW-04: changes apply after all rows, and a file of all rows replaces the files before the previous one", () => {
    assert.deepEqual(atOnce(readLedger(place())), { rows: [], problems: [], last: 0, whole: 0 });
    writeChanges(place(), 1, fileOf(ROW));
    writeChanges(place(), 2, fileOf({ ...ROW, count: 4 }));
    assert.deepEqual(
      atOnce(readLedger(place())).rows.map(({ count }) => count),
      [4],
    );
    writeFileSync(path.join(place().directory, ".changes-9.jsonl"), "left by a crash");
    writeAll(place(), 3, fileOf({ ...ROW, count: 4 }), 0);
    writeChanges(place(), 4, fileOf(PING));
    const names = (): readonly string[] => readdirSync(place().directory).toSorted();
    assert.deepEqual(names(), ["all-3.jsonl", "changes-1.jsonl", "changes-2.jsonl", "changes-4.jsonl"]);
    const { rows, last } = atOnce(readLedger(place()));
    assert.deepEqual([rows.map(({ protocol }) => protocol), last], [["TCP", "ICMP"], 4]);
    assert.equal(statSync(place().directory).mode & 0o777, 0o700);
    writeAll(place(), 5, fileOf(PING), 3);
    assert.deepEqual(names(), ["all-3.jsonl", "all-5.jsonl", "changes-4.jsonl"]);
    assert.equal(atOnce(readLedger(place())).rows.length, 1, "the ledger had no room for the other row");
    writeAll(place(), 6, fileOf(PING), 5);
    assert.deepEqual(names(), ["all-5.jsonl", "all-6.jsonl"]);
  });

  it("FLOW-04: a torn file of all rows is reported by name, and its rows are read from the files before it", () => {
    const [a, b, c, d] = [1, 2, 3, 4].map((port) => ({ ...ROW, port }));
    assert.ok(a !== undefined && b !== undefined && c !== undefined && d !== undefined);
    writeAll(place(), 1, fileOf(a, b), 0);
    writeChanges(place(), 2, fileOf(c));
    writeChanges(place(), 3, fileOf({ ...a, count: 4 }));
    const all = fileOf(b, c, { ...a, count: 4 });
    writeAll(place(), 4, all, 1);
    writeChanges(place(), 5, fileOf(d, { ...c, count: 5 }));
    for (const length of [0, 1, all.length / 2, all.length - 1, all.length]) {
      writeFileSync(path.join(place().directory, "all-4.jsonl"), all.slice(0, length));
      const { rows, problems, last, whole } = atOnce(readLedger(place()));
      assert.deepEqual(
        [rows.map(({ port, count }) => [port, count]), last, whole],
        [
          [
            [2, 3],
            [1, 4],
            [4, 3],
            [3, 5],
          ],
          5,
          length === all.length ? 4 : 1,
        ],
        `${length} characters`,
      );
      assert.equal(problems.length, length === all.length ? 0 : 1);
      for (const problem of problems) assert.match(problem, /\/all-4\.jsonl: it is torn: /);
    }
  });

  it("FLOW-04: a torn file is reported by name, at whatever byte it ends, and only its rows are missing", () => {
    writeChanges(place(), 1, fileOf(ROW));
    writeChanges(place(), 2, fileOf({ ...ROW, port: 1 }, { ...ROW, port: 2 }));
    writeChanges(place(), 3, fileOf(ROW, PING));
    const torn = path.join(place().directory, "changes-2.jsonl");
    const whole = readFileSync(torn);
    for (let length = 0; length < whole.length; length++) {
      writeFileSync(torn, whole);
      truncateSync(torn, length);
      const { rows, problems, last } = atOnce(readLedger(place()));
      assert.deepEqual(
        rows.map(({ port }) => port),
        [443, undefined],
        `${length} bytes`,
      );
      assert.match(
        problems.join("\n"),
        /^.*\/changes-2\.jsonl: it is torn: .*; its flows are omitted$/,
        `${length} bytes`,
      );
      assert.equal(last, 3);
    }
  });

  it("FLOW-09: invalid lines are refused with the field and the expectation", () => {
    const line = (change: object): string => JSON.stringify({ ...JSON.parse(rowLine(ROW)), ...change });
    for (const [text, words] of [
      ["{", /expected a flow as a JSON object on one line/],
      ["[]", /^/],
      [line({ port: 65_536 }), /^port: /],
      [line({ port: -1 }), /^port: /],
      [line({ count: 1.5 }), /^count: /],
      [line({ bytes: 2 ** 60 }), /^bytes: /],
      [line({ verdict: "maybe" }), /^verdict: /],
      [line({ protocol: "TCP\u001b[2J" }), /^protocol: /],
      [line({ from: { workload: "a/b", node: "n" } }), /^from: /],
      [line({ to: { outside: "203.0.113.1/28" } }), /host bits/],
      [line({ to: { outside: "010.0.0.1/32" } }), /not a prefix/],
      [line({ firstSeen: "yesterday" }), /^firstSeen: /],
      [line({ from: { workload: "n".repeat(5000) } }), /^from/],
    ] as const) {
      assert.throws(
        () => parseRow(text),
        (error: Error) => words.test(error.message),
        text,
      );
    }
  });
});
