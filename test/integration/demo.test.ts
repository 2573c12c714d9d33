import assert from "node:assert/strict";
import type { ChildProcess } from "node:child_process";
import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { readdirSync, readFileSync } from "node:fs";
import process from "node:process";
import { fileURLToPath } from "node:url";
import * as v from "valibot";
import { VERSION } from "../../policyd/version.ts";
import { findLabFiles } from "../lab/sweep.ts";
import { eventually } from "../support/guard/guarded_node.ts";
import { requireKernel } from "../support/privilege.ts";

const DEMO = fileURLToPath(new URL("../demo/demo.ts", import.meta.url));

const cellSchema = v.object({ source: v.string(), target: v.string(), family: v.number(), protocol: v.string() });

const spoofSchema = v.object({
  sent: v.number(),
  arrived: v.number(),
  counted: v.array(v.optional(v.nullable(v.number()))),
});

const resultSchema = v.object({
  isAsExpected: v.boolean(),
  broken: v.optional(v.string()),
  daemons: v.array(
    v.object({
      node: v.string(),
      version: v.string(),
      isSynced: v.boolean(),
      attachments: v.number(),
      objects: v.record(v.string(), v.number()),
      problems: v.array(v.string()),
    }),
  ),
  pods: v.array(v.object({ name: v.string(), node: v.string(), addresses: v.tuple([v.string(), v.string()]) })),
  expected: v.array(cellSchema),
  seen: v.array(v.object({ ...cellSchema.entries, reached: v.boolean(), seenSource: v.optional(v.string()) })),
  differences: v.array(cellSchema),
  sameNode: v.array(
    v.object({
      bridgeNetfilter: v.boolean(),
      flows: v.number(),
      differences: v.array(cellSchema),
      receivedByPods: v.number(),
      followed: v.array(v.string()),
    }),
  ),
  spoof: spoofSchema,
  harm: v.object({
    node: v.string(),
    milliseconds: v.optional(v.number()),
    tables: v.number(),
    flows: v.number(),
    differences: v.array(cellSchema),
    spoof: spoofSchema,
  }),
  leftovers: v.record(v.string(), v.array(v.string())),
});

type Result = v.InferOutput<typeof resultSchema>;

type Cell = v.InferOutput<typeof cellSchema>;

const keyOf = ({ source, target, family, protocol }: Cell): string => `${source} ${target} ${family} ${protocol}`;

function runDemo(...args: readonly string[]): {
  readonly exitCode: number | null;
  readonly result: Result;
} {
  const { status, stdout, stderr } = spawnSync(process.execPath, [DEMO, "-o", "json", ...args], {
    encoding: "utf8",
    maxBuffer: 1 << 24,
  });
  assert.notEqual(stdout, "", stderr);
  return { exitCode: status, result: v.parse(resultSchema, JSON.parse(stdout)) };
}

/** How many drops the kernel counted of the spoofed packets; undefined when a counter was not there. */
function countedOf({ counted: [before, after] }: Result["spoof"]): number | undefined {
  return typeof before === "number" && typeof after === "number" ? after - before : undefined;
}

/** What holds of the daemons and of node1's flushed ruleset, whatever else is broken. */
function assertDaemons({ daemons, harm }: Result): void {
  assert.deepEqual(
    daemons.map(({ node, version, isSynced, attachments, objects, problems }) => [
      node,
      version,
      isSynced,
      attachments,
      [objects["Namespace"], objects["Node"], objects["Pod"]],
      problems,
    ]),
    ["node1", "node2"].map((node) => [node, VERSION, true, 3, [1, 2, 6], []]),
  );
  assert.ok(harm.milliseconds !== undefined && harm.milliseconds > 0);
  assert.deepEqual([harm.node, harm.tables, harm.flows], ["node1", 2, FLOWS]);
  assert.deepEqual([harm.spoof.sent, harm.spoof.arrived, countedOf(harm.spoof)], [2, 0, 2]);
}

// 8 sources × 6 pods − 6 pods to themselves, × 2 families × 4 protocols
const FLOWS = (8 * 6 - 6) * 2 * 4;
const NODE1_PODS = ["pod-a", "pod-b", "pod-c"];
const NODE2_PODS = ["pod-d", "pod-e", "pod-f"];

/** The process ids of a demo's daemons, by the directory of its lab in their command lines. */
function daemonsOf({ pid }: ChildProcess): readonly number[] {
  const isDaemonOfIt = (id: string): boolean => commandLine(id).includes(`/dbl-${pid}-`);
  return readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name) && isDaemonOfIt(name))
    .map(Number);
}

/** Empty for a process that has ended. */
function commandLine(pid: string): string {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, "utf8");
  } catch {
    return "";
  }
}

describe("the demo", function () {
  // Three seconds as a rule; the kernel's rcu_barrier under every link removal can take eight more.
  this.timeout(60_000);

  before(function () {
    requireKernel(this);
  });

  it("POD-01 POD-03 POD-04 POD-05 POD-06 POD-22 DP-09 GUARD-01 GUARD-06: all pods reach all others, unchanged, and nothing is left", () => {
    const { exitCode, result } = runDemo();
    assert.equal(exitCode, 0);
    assert.equal(result.isAsExpected, true);
    assert.equal(result.seen.length, FLOWS);
    assert.ok(result.seen.every((cell) => cell.reached));
    const addresses = new Map(result.pods.map((pod) => [pod.name, pod.addresses]));
    assert.equal(new Set([...addresses.values()].flat()).size, 12);
    for (const cell of result.seen) {
      const own = addresses.get(cell.source);
      if (own !== undefined) assert.equal(cell.seenSource, own[cell.family === 4 ? 0 : 1], keyOf(cell));
    }
    assert.ok(result.sameNode.length > 0);
    for (const { flows, differences, receivedByPods, followed } of result.sameNode) {
      assert.equal(flows, 2 * 6 * 2 * 4);
      assert.deepEqual([...differences, ...followed], []);
      assert.equal(receivedByPods, 0);
    }
    assertDaemons(result);
    assert.deepEqual(result.harm.differences, []);
    assert.deepEqual([result.spoof.sent, result.spoof.arrived, countedOf(result.spoof)], [2, 0, 2]);
    assert.deepEqual(Object.values(result.leftovers).flat(), []);
  });

  it("shows exactly the IPv4 cells between node1 and node2's pods red when that route is removed", () => {
    const { exitCode, result } = runDemo("--break", "route");
    assert.equal(exitCode, 1);
    assert.equal(result.isAsExpected, false);
    assert.match(result.broken ?? "", /10\.244\.2\.0\/24/);
    // node2 itself answers from its uplink's address, whose route is still there.
    const pairs = [
      ...[...NODE1_PODS, "node1"].flatMap((source) => NODE2_PODS.map((target) => ({ source, target }))),
      ...NODE2_PODS.flatMap((source) => NODE1_PODS.map((target) => ({ source, target }))),
    ];
    const red = pairs.flatMap((pair) =>
      ["tcp", "udp", "icmp", "sctp"].map((protocol) => keyOf({ ...pair, family: 4, protocol })),
    );
    assert.deepEqual(result.differences.map(keyOf).toSorted(), red.toSorted());
    assert.deepEqual(result.harm.differences.map(keyOf).toSorted(), red.toSorted());
    assertDaemons(result);
    assert.deepEqual(Object.values(result.leftovers).flat(), []);
  });

  it("shows exactly the spoofed packets red while the guard is removed, and the daemon puts it back", () => {
    const { exitCode, result } = runDemo("--break", "guard");
    assert.equal(exitCode, 1);
    assert.equal(result.isAsExpected, false);
    assert.match(result.broken ?? "", /table bridge drawbridge/);
    assert.deepEqual([result.spoof.sent, result.spoof.arrived], [2, 2]);
    assert.equal(countedOf(result.spoof), undefined);
    assertDaemons(result);
    assert.deepEqual([...result.differences, ...result.harm.differences], []);
    assert.ok(result.sameNode.every(({ differences }) => differences.length === 0));
    assert.deepEqual(Object.values(result.leftovers).flat(), []);
  });

  /** A demo in a process of its own, once both its daemons run. */
  async function startedDemo(): Promise<{ readonly demo: ChildProcess; readonly daemons: readonly number[] }> {
    const demo = spawn(process.execPath, [DEMO], { stdio: ["ignore", "ignore", "pipe"] });
    const isUp = (): boolean => demo.exitCode !== null || daemonsOf(demo).length === 2;
    assert.ok((await eventually(isUp)) && demo.exitCode === null, "the demo starts two daemons");
    return { demo, daemons: daemonsOf(demo) };
  }

  async function assertNothingLeft(demo: ChildProcess): Promise<void> {
    assert.ok(await eventually(() => daemonsOf(demo).length === 0), "no daemon is left");
    const left = findLabFiles(({ pid }) => pid === demo.pid);
    assert.deepEqual([...left.namespaces, ...left.directories], []);
  }

  for (const signal of ["SIGINT", "SIGTERM"] as const) {
    it(`${signal} takes daemons and namespaces away, too`, async () => {
      const { demo } = await startedDemo();
      demo.kill(signal);
      const ended: unknown[] = await once(demo, "exit");
      assert.deepEqual(ended, [null, signal]);
      await assertNothingLeft(demo);
    });
  }

  it("a daemon that dies fails the demo in one sentence, and nothing is left", async () => {
    const { demo, daemons } = await startedDemo();
    let words = "";
    demo.stderr?.setEncoding("utf8").on("data", (text: string) => (words += text));
    for (const pid of daemons) process.kill(pid, "SIGKILL");
    const ended: unknown[] = await once(demo, "close");
    assert.deepEqual(ended, [1, null]);
    assert.match(words, /^demo: .*policyd/m);
    await assertNothingLeft(demo);
  });

  it("prints tables without colour codes into a pipe, and one red line for the removed guard", () => {
    const { status, stdout, stderr } = spawnSync(process.execPath, [DEMO, "--break", "guard"], { encoding: "utf8" });
    assert.equal(status, 1, stderr);
    assert.match(stdout, /pod-f/);
    assert.ok(!`${stdout}${stderr}`.includes("\u001b"));
    const red = stdout.split("\n").filter((line) => line.startsWith("✗"));
    assert.deepEqual(red, [
      "✗ 2 of 2 packets that pod-a sent as pod-b reached pod-c; node1's count of dropped ones: no such rule before, no such rule after",
    ]);
    assert.match(stdout, /Not as expected; took \d+\.\d s\./);
  });
});
