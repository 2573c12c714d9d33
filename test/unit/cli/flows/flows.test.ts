import assert from "node:assert/strict";
import { Buffer } from "node:buffer";
import { endFilter, isWanted, momentOf } from "../../../../cli/flows/filter.ts";
import { mergedRows } from "../../../../cli/flows/merge.ts";
import { readFlowFile } from "../../../../cli/flows/read_file.ts";
import type { ProgramResult } from "../../../../cli/input/programs/programs.ts";
import { systemPrograms } from "../../../../cli/input/programs/system_programs.ts";
import type { NodeMachine } from "../../../../cli/node/machine/machine.ts";
import { DrawbridgeError } from "../../../../kernel/error.ts";
import { parseCidr } from "../../../../kernel/ip/cidr.ts";
import { parseRow, rowLine } from "../../../../policyd/flows/journal.ts";
import { endText, type RowEnd, type FlowRow } from "../../../../policyd/flows/row.ts";
import { ScriptedPrograms } from "../../../support/cli/scripted_programs.ts";
import { memoryFiles, nodeOf, runCli, runOnNode } from "../../../support/cli/cli.ts";

const NOON = Date.UTC(2026, 0, 2, 12);
const HOUR = 3_600_000;
const WEB: RowEnd = { type: "workload", name: "shop/deployment/web" };
const DB: RowEnd = { type: "workload", name: "shop/statefulset/db" };
const NODE: RowEnd = { type: "node", name: "n1" };

function outside(text: string): Extract<RowEnd, { type: "outside" }> {
  return { type: "outside", range: parseCidr(text) };
}

function row(fields: Partial<FlowRow> = {}): FlowRow {
  return {
    from: WEB,
    to: DB,
    protocol: "TCP",
    port: 5432,
    verdict: "allowed",
    observedAt: "from",
    firstSeen: NOON - HOUR,
    lastSeen: NOON,
    count: 3,
    open: 0,
    bytes: 2048,
    reason: undefined,
    ...fields,
  };
}

const DENIED = row({
  verdict: "denied",
  to: outside("203.0.113.7/32"),
  port: 443,
  reason: "isolated by shop/web; nearest: none",
});

/** Runs the command on a node whose ledger gives these readings. */
async function onNode(args: readonly string[], ...readings: readonly ReturnType<NodeMachine["readFlows"]>[]) {
  const left = [...readings];
  const places: unknown[] = [];
  const readFlows: NodeMachine["readFlows"] = (place) => {
    places.push(place);
    return left.shift() ?? assert.fail("read once too often");
  };
  const sleep = async (): Promise<void> => {
    if (left.length === 0) throw new DrawbridgeError("ERR_INPUT", "stopped by the test");
  };
  const outcome = await runOnNode(args, nodeOf({ readFlows }, sleep));
  return { ...outcome, places };
}

/** Runs the command on a cluster whose kubectl answers `get pods`, `get nodes` and, by the Pod's name, `exec`. */
async function onCluster(args: readonly string[], answers: Readonly<Record<string, ProgramResult | string>>) {
  const programs = new ScriptedPrograms(answers);
  const outcome = await runCli(args, memoryFiles({}), undefined, undefined, { programs });
  return { ...outcome, calls: programs.called };
}

const CLUSTER = { pods: "drawbridge-a n1 Running\ndrawbridge-b n2 Running\n", nodes: "n1\nn2\n" };

describe("cli/flows: the command", () => {
  it("FLOW-10: node flows prints the ledger as a table, the latest flows first, and reads the paths of the configuration", async () => {
    const rows = [
      row(),
      DENIED,
      row({ to: NODE, protocol: "ICMP", port: undefined, lastSeen: NOON + HOUR, bytes: 5_000_000 }),
    ];
    const { code, out, places } = await onNode(["node", "flows"], { rows, problems: [] });
    assert.deepEqual(out.split("\n"), [
      "FROM                  TO                    PORT       VERDICT   COUNT   OPEN   BYTES     FIRST SEEN            LAST SEEN             BECAUSE",
      "shop/deployment/web   node/n1               ICMP       allowed   3       0      4.8 MiB   2026-01-02 11:00:00   2026-01-02 13:00:00",
      "shop/deployment/web   shop/statefulset/db   5432/TCP   allowed   3       0      2.0 KiB   2026-01-02 11:00:00   2026-01-02 12:00:00",
      "shop/deployment/web   203.0.113.7/32        443/TCP    denied    3       0      2.0 KiB   2026-01-02 11:00:00   2026-01-02 12:00:00   isolated by shop/web; nearest: none",
      "",
    ]);
    assert.equal(code, 0);
    assert.deepEqual(places, [{ socket: "/run/drawbridge/policyd.sock", directory: "/var/lib/cni/drawbridge-flows" }]);
    const named = await onNode(["node", "flows", "--socket", "/s", "--flow-directory", "/d"], { rows, problems: [] });
    assert.deepEqual(named.places, [{ socket: "/s", directory: "/d" }]);
  });

  it("FLOW-10: --from, --to, --denied and --since filter flows, and an invalid time or prefix is refused", async () => {
    const rows = [row(), DENIED, row({ from: NODE, lastSeen: Date.now(), open: 1 })];
    const asked = async (...args: readonly string[]) =>
      (await onNode(["node", "flows", "-o", "jsonl", ...args], { rows, problems: [] })).out
        .trim()
        .split("\n")
        .filter(Boolean).length;
    assert.equal(await asked("--denied"), 1);
    assert.equal(await asked("--from", "shop/web"), 2);
    assert.equal(await asked("--from", "node/n1", "--to", "shop"), 1);
    assert.equal(await asked("--to", "203.0.113.0/24"), 1);
    assert.equal(await asked("--since", "1h"), 1);
    for (const [args, words] of [
      [["--since", "soon"], /--since: "soon"; expected a time before now/],
      [["--to", "203.0.113.0/33"], /is not a prefix/],
    ] as const) {
      const { code, err } = await onNode(["node", "flows", ...args], { rows, problems: [] });
      assert.equal(code, 3);
      assert.match(err, words);
    }
  });

  it("FLOW-10: missing data are a note, and an error when there are no flows", async () => {
    const problems = ["what was seen last may be missing: policyd is away\u001b[2J"];
    const some = await onNode(["node", "flows"], { rows: [row()], problems });
    assert.equal(some.err, "note: what was seen last may be missing: policyd is away\\u{1b}[2J\n");
    const none = await onNode(["node", "flows"], { rows: [], problems });
    assert.equal(none.code, 3);
    assert.match(none.err, /\/var\/lib\/cni\/drawbridge-flows: no flows: what was seen last .*\\u\{1b\}/);
    const quiet = await onNode(["node", "flows"], { rows: [], problems: [] });
    assert.deepEqual([quiet.code, quiet.err], [0, ""]);
  });

  it("FLOW-10: node flows --follow prints only new connections, with their number and the policy that decided", async () => {
    const readings = [
      { rows: [row(), DENIED], problems: [] },
      { rows: [row({ count: 5, lastSeen: NOON + 1000 }), DENIED], problems: [] },
      { rows: [row({ count: 5 }), { ...DENIED, count: 4 }, row({ to: NODE, count: 1 })], problems: [] },
    ];
    const { out } = await onNode(["node", "flows", "--follow"], ...readings);
    assert.deepEqual(out.split("\n"), [
      "2026-01-02 12:00:01 allowed shop/deployment/web > shop/statefulset/db 5432/TCP +2",
      "2026-01-02 12:00:00 denied shop/deployment/web > 203.0.113.7/32 443/TCP +1: isolated by shop/web; nearest: none",
      "2026-01-02 12:00:00 allowed shop/deployment/web > node/n1 5432/TCP +1",
      "",
    ]);
  });

  it("FLOW-10: node flows --follow ends when nobody reads what it prints any more", async () => {
    let count = 1;
    const readFlows = () => ({ rows: [row({ count: count++ })], problems: [] });
    const node = nodeOf({ readFlows }, () => Promise.resolve());
    const { code } = await runCli(["node", "flows", "--follow"], memoryFiles({}), undefined, undefined, {
      node,
      isRead: () => count < 5,
    });
    assert.deepEqual([code, count], [0, 5]);
  });

  it("FLOW-10: flows reads the ledgers of all nodes with kubectl, and a connection between two nodes counts once", async () => {
    const answers = {
      ...CLUSTER,
      "drawbridge-a": rowLine(row({ count: 7 })) + rowLine(DENIED),
      "drawbridge-b":
        rowLine(row({ count: 5, observedAt: "to", bytes: 4096 })) + rowLine({ ...DENIED, observedAt: "to" }),
    };
    const { out, calls } = await onCluster(["flows", "-o", "jsonl", "--context", "c"], answers);
    const rows = readFlowFile([Buffer.from(out)], "out");
    assert.deepEqual(
      rows.map(({ verdict, count, bytes }) => [verdict, count, bytes]),
      [
        ["allowed", 7, 4096],
        ["denied", 6, 4096],
      ],
    );
    assert.match(
      calls[2] ?? "",
      /^kubectl --context=c exec --namespace=kube-system drawbridge-a -- node cli\/drawbridge.js node flows --output=jsonl --config=\/etc\/drawbridge\/policyd.yaml$/,
    );
    const one = await onCluster(["flows", "--node", "n2"], { ...CLUSTER, "drawbridge-b": rowLine(row()) });
    assert.equal(one.calls.length, 2);
    const none = await onCluster(["flows", "--node", "n9"], { ...CLUSTER });
    assert.deepEqual([none.code, /no daemon runs: n9 \(no daemon\)/.test(none.err)], [3, true]);
    for (const follow of [[], ["--follow"]]) {
      const some = {
        ...answers,
        pods: "drawbridge-a n1 Running\ndrawbridge-b n2 Pending\nc  Pending\n",
        nodes: "n1\nn3\n",
      };
      const { err } = await onCluster(["flows", ...follow], some);
      assert.match(err, /^note: not asked: n3 \(no daemon\), n2 \(Pod kube-system\/drawbridge-b is Pending\)\n/);
    }
    const broken = await onCluster(["flows", "--node", "n1"], { ...CLUSTER, "drawbridge-a": "hello\n" });
    assert.match(broken.err, /node n1:1: expected a flow as a JSON object/);
  });

  it("FLOW-10: flows without the right to list Nodes prints the flows, with a note", async () => {
    const nodes = { type: "failed", how: "exit code 1", words: "Forbidden\n" } as const;
    const answers = { pods: "drawbridge-a n1 Running\n", nodes, "drawbridge-a": rowLine(row()) };
    const { code, out, err } = await onCluster(["flows", "-o", "jsonl"], answers);
    assert.equal(code, 0);
    assert.equal(readFlowFile([Buffer.from(out)], "out").length, 1);
    assert.match(err, /^note: nodes without a daemon are not known: kubectl get nodes .*exit code 1\n +Forbidden\n$/);
  });

  it("FLOW-10: flows --follow prints new connections of all nodes, and ends with the first command that ends", async () => {
    const news = (one: FlowRow, count: number): string =>
      `${JSON.stringify({ ...JSON.parse(rowLine(one)), new: count })}\n`;
    const answers = {
      ...CLUSTER,
      "drawbridge-a": news(row(), 2) + news(DENIED, 1),
      "drawbridge-b": news(row({ from: DB }), 4),
    };
    const { code, out, err } = await onCluster(["flows", "--follow", "--denied"], answers);
    assert.match(
      out,
      /^\S+ \S+ denied shop\/deployment\/web > 203\.0\.113\.7\/32 443\/TCP \+1: isolated by shop\/web; nearest: none\n$/,
    );
    assert.equal(code, 3);
    assert.match(err, /it ended with exit code 1\n {4}connection lost/);
    const bad = await onCluster(["flows", "--follow"], { ...answers, "drawbridge-a": rowLine(row()) });
    assert.match(bad.err, /new is missing; expected the number of new connections/);
  });

  it("FLOW-10: a program's lines are followed in any chunks, and it ends when a line is too long or the reader throws", async () => {
    const lines: string[] = [];
    const script = "printf 'a\\nb'; printf 'c\\n\\303'; printf '\\244\\n'; exit 3";
    const result = await systemPrograms.follow("sh", ["-c", script], (line) => lines.push(line));
    assert.deepEqual([lines, result.type === "failed" && result.how], [["a", "bc", "ä"], "exit code 3"]);
    const long = await systemPrograms.follow("sh", ["-c", "yes | tr -d '\\n'"], () => {});
    assert.equal(long.type, "too much");
    const refuse = (): never => {
      throw new Error("not taken");
    };
    await assert.rejects(systemPrograms.follow("sh", ["-c", "echo a; sleep 60"], refuse), /not taken/);
    assert.deepEqual(await systemPrograms.follow("no-such-program-here", [], () => {}), { type: "missing" });
  });

  it("FLOW-09: a file of flows is read in chunks, and refused with the line for invalid flows or too many", () => {
    const text = rowLine(row()) + rowLine(DENIED);
    assert.equal(
      readFlowFile(
        Array.from(text, (character) => Buffer.from(character)),
        "f",
      ).length,
      2,
    );
    assert.throws(() => readFlowFile([Buffer.from(`${text}{}\n`)], "f"), { code: "ERR_INPUT", message: /^f:3: / });
    assert.throws(() => readFlowFile([Buffer.from(text)], "f", 1), { message: "f:2: expected at most 1 flows" });
    function* endless(): Generator<Uint8Array> {
      for (;;) yield Buffer.alloc(65_536, 0x20);
    }
    assert.throws(() => readFlowFile(endless(), "f"), { message: /^f:1: a line of more than/ });
  });

  it("FLOW-09: terminal escapes in names are printed as text", async () => {
    const from: RowEnd = { type: "workload", name: "shop/deployment/\u001b[2Jweb" };
    assert.deepEqual(parseRow(rowLine(row({ from }))).from, from);
    const named = { ...outside("203.0.113.8/32"), name: "api.example.com" };
    assert.deepEqual(parseRow(rowLine(row({ to: named }))).to, named);
    const wrong = rowLine(row({ to: { ...named, name: "a\u001b[2J.example.com" } }));
    assert.throws(() => parseRow(wrong), { code: "ERR_INPUT" });
    const { out } = await onNode(["node", "flows"], { rows: [row({ from })], problems: [] });
    assert.ok(!out.includes("\u001b"), out);
    assert.match(out, /shop\/deployment\/\\u\{1b\}\[2Jweb/);
  });
});

describe("cli/flows: ends, times and nodes", () => {
  it("FLOW-10: a filter names a namespace, a workload, a pod, a node, an address, a prefix or a domain name", () => {
    const pod: RowEnd = { type: "workload", name: "shop/cache" };
    const ends: RowEnd[] = [WEB, DB, pod, NODE, outside("203.0.113.0/28"), outside("2001:db8::1/128")];
    const chosen = (text: string): readonly string[] => ends.filter(endFilter(text)).map(endText);
    assert.deepEqual(chosen("shop"), ["shop/deployment/web", "shop/statefulset/db", "shop/cache"]);
    assert.deepEqual(chosen("shop/web"), ["shop/deployment/web"]);
    assert.deepEqual(chosen("shop/deployment/web"), ["shop/deployment/web"]);
    assert.deepEqual(chosen("shop/deployment"), []);
    assert.deepEqual(chosen("shop/cache"), ["shop/cache"]);
    assert.deepEqual(chosen("node/n1"), ["node/n1"]);
    assert.deepEqual(chosen("203.0.113.9"), ["203.0.113.0/28"]);
    assert.deepEqual(chosen("203.0.113.99"), []);
    assert.deepEqual(chosen("203.0.0.0/16"), ["203.0.113.0/28"]);
    assert.deepEqual(chosen("2001:db8::/32"), ["2001:db8::1/128"]);
    assert.deepEqual(chosen("sho"), []);
    ends.push({ ...outside("203.0.113.8/32"), name: "api.example.com" });
    for (const text of ["api.example.com", "*.example.com"])
      assert.deepEqual(chosen(text), ["api.example.com 203.0.113.8/32"], text);
    assert.deepEqual(chosen("example.com"), []);
  });

  it("FLOW-10: --since takes durations, days and dates", () => {
    assert.equal(momentOf("90m", NOON), NOON - 1.5 * HOUR);
    assert.equal(momentOf("7d", NOON), NOON - 7 * 24 * HOUR);
    assert.equal(momentOf("2026-01-01", NOON), Date.UTC(2026, 0, 1));
    assert.equal(momentOf("2026-01-01T10:00:00+02:00", NOON), Date.UTC(2026, 0, 1, 8));
    for (const text of ["", "d", "1", "2026", "2026-13-01", "tomorrow"])
      assert.throws(() => momentOf(text, NOON), { code: "ERR_INPUT" });
    assert.ok(isWanted({ since: NOON }, row()));
    assert.ok(!isWanted({ since: NOON + 1 }, row()));
    assert.ok(isWanted({ since: NOON + 1 }, row({ open: 1 })), "a flow that is still open is wanted");
  });

  it("FLOW-10: rows of nodes are merged by pair, port, protocol and verdict, with the widest range and the first and last times", () => {
    const rows = mergedRows([
      row({ to: outside("203.0.113.1/32"), firstSeen: 5, lastSeen: 6, count: 1, open: 1 }),
      row({ to: outside("203.0.113.2/32"), firstSeen: 3, lastSeen: 4, count: 2, open: 1 }),
      row({ to: outside("203.0.114.2/32"), count: 9 }),
      row({ to: outside("203.0.113.1/32"), verdict: "denied", count: 8, observedAt: "from" }),
      row({ to: outside("203.0.113.1/32"), verdict: "denied", count: 4, observedAt: "to", reason: "isolated" }),
    ]);
    assert.deepEqual(
      rows.map(({ to, firstSeen, lastSeen, count, open, reason }) => [
        endText(to),
        firstSeen,
        lastSeen,
        count,
        open,
        reason,
      ]),
      [
        ["203.0.113.0/30", 3, 6, 3, 2, undefined],
        ["203.0.114.2/32", NOON - HOUR, NOON, 9, 0, undefined],
        ["203.0.113.1/32", NOON - HOUR, NOON, 12, 0, "isolated"],
      ],
    );
  });
});
