import assert from "node:assert/strict";
import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import os from "node:os";
import process from "node:process";
import { findLabFiles } from "../../lab/sweep.ts";
import { until } from "../../support/cluster/probes.ts";
import {
  assertDaemons,
  assertPoliciesAsExpected,
  assertServicesAsExpected,
  countedOf,
  DEMO,
  FLOWS,
  keyOf,
  runDemo,
} from "../../support/demo_result.ts";
import { requireLongForm } from "../../support/long_form.ts";
import { requireKernel } from "../../support/privilege.ts";

/** Returns the process ids of a demo's daemons, found by the directory of its lab in their command lines. */
function daemonsOf({ pid }: ChildProcess): readonly number[] {
  const isDaemonOfIt = (id: string): boolean => commandLine(id).includes(`--config=${os.tmpdir()}/dbl-${pid}-`);
  return readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name) && isDaemonOfIt(name))
    .map(Number);
}

/** Returns the command line of a process, empty when the process has ended. */
function commandLine(pid: string): string {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, "utf8");
  } catch {
    return "";
  }
}

describe("the demo", function () {
  // A demo takes fifteen seconds as a rule; the kernel's rcu_barrier at every link removal can take eight more.
  this.timeout(240_000);

  before(function () {
    requireKernel(this);
  });

  it("POD-01 POD-03 POD-04 POD-05 POD-06 POD-22 DP-09 GUARD-01 GUARD-06: all pods and Services are reached with sources unchanged, and nothing is left", () => {
    const { exitCode, result } = runDemo();
    assertServicesAsExpected(result.services);
    assertServicesAsExpected(result.harm.services);
    assertPoliciesAsExpected(result);
    assert.equal(result.seen.length, FLOWS);
    assert.ok(result.seen.every((cell) => cell.reached));
    const addresses = new Map(result.pods.map((pod) => [pod.name, pod.addresses]));
    assert.equal(new Set([...addresses.values()].flat()).size, 12);
    for (const cell of result.seen) {
      const own = addresses.get(cell.source);
      if (own !== undefined) assert.equal(cell.seenSource, own[cell.family === 4 ? 0 : 1], keyOf(cell));
    }
    assert.deepEqual(
      result.sameNode.map(({ bridgeNetfilter }) => bridgeNetfilter),
      existsSync("/proc/sys/net/bridge") ? [true, false] : [false],
    );
    for (const { flows, differences, receivedByPods, followed } of result.sameNode) {
      assert.equal(flows, 2 * 6 * 2 * 4);
      assert.deepEqual([...differences, ...followed], []);
      assert.equal(receivedByPods, 0);
    }
    assertDaemons(result);
    assert.deepEqual(result.harm.differences, []);
    assert.deepEqual([result.spoof.sent, result.spoof.arrived, countedOf(result.spoof)], [2, 0, 2]);
    assert.deepEqual(Object.values(result.leftovers).flat(), []);
    assert.deepEqual([exitCode, result.isAsExpected], [0, true]);
  });

  /** Starts a demo in a process of its own, and waits until both its daemons run. */
  async function startedDemo(): Promise<{ readonly demo: ChildProcess; readonly daemons: readonly number[] }> {
    const demo = spawn(process.execPath, [DEMO], { stdio: ["ignore", "ignore", "pipe"] });
    const isUp = (): boolean => demo.exitCode !== null || daemonsOf(demo).length === 2;
    await until(isUp, () => "the demo does not start two daemons");
    assert.equal(demo.exitCode, null);
    return { demo, daemons: daemonsOf(demo) };
  }

  async function assertNothingLeft(demo: ChildProcess): Promise<void> {
    await until(
      () => daemonsOf(demo).length === 0,
      () => "a daemon is left",
    );
    const left = findLabFiles(({ pid }) => pid === demo.pid);
    assert.deepEqual([...left.namespaces, ...left.directories], []);
  }

  it("SIGTERM ends the demo with its daemons and removes its namespaces", async () => {
    const { demo } = await startedDemo();
    demo.kill("SIGTERM");
    const ended: unknown[] = await once(demo, "exit");
    assert.deepEqual(ended, [null, "SIGTERM"]);
    await assertNothingLeft(demo);
  });

  it("the demo fails with one sentence when a daemon dies, and nothing is left", async () => {
    const { demo, daemons } = await startedDemo();
    let words = "";
    demo.stderr?.setEncoding("utf8").on("data", (text: string) => (words += text));
    for (const pid of daemons) process.kill(pid, "SIGKILL");
    const ended: unknown[] = await once(demo, "close");
    assert.deepEqual(ended, [1, null]);
    assert.match(words, /^demo: .*policyd/m);
    await assertNothingLeft(demo);
  });

  it("the demo prints tables without colour codes into a pipe, and one red line for the removed guard", function () {
    requireLongForm(this, "a demo takes half a minute");
    const { status, stdout, stderr } = spawnSync(process.execPath, [DEMO, "--break", "guard"], { encoding: "utf8" });
    assert.equal(status, 1, stderr);
    assert.match(stdout, /pod-f/);
    assert.ok(!`${stdout}${stderr}`.includes("\u001b"));
    const red = stdout.split("\n").filter((line) => line.startsWith("✗"));
    assert.deepEqual(red, [
      "✗ 2 of 2 packets that pod-a sent as pod-b reached pod-c; node1's count of dropped ones: no such rule before, no such rule after",
    ]);
    const widest = Math.max(
      ...stdout
        .split("\n")
        .filter((line) => line.startsWith("│"))
        .map((line) => line.length),
    );
    assert.ok(widest <= 100, `${widest} columns`);
    assert.match(stdout, /Not as expected; took \d+\.\d s\./);
  });
});
