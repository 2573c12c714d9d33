import assert from "node:assert/strict";
import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { readdirSync, readFileSync } from "node:fs";
import os from "node:os";
import process from "node:process";
import { VERSION } from "../../../policyd/version.ts";
import { labDirectories } from "../../lab/sweep.ts";
import { DEMO, runDemo } from "../../support/demo_result.ts";
import { requireLongForm } from "../../support/long_form.ts";
import { requireKernel } from "../../support/privilege.ts";
import { until } from "../../support/until.ts";

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

  it("POD-01 POD-03 POD-04 POD-05 POD-06 DP-09 GUARD-01 GUARD-06: all pods and Services are reached with sources unchanged, and nothing is left", () => {
    const { exitCode, result } = runDemo();
    assert.deepEqual(
      result.checks.filter(({ isGood }) => !isGood),
      [],
    );
    assert.deepEqual([exitCode, result.isAsExpected], [0, true]);
    assert.equal(new Set(result.pods.flatMap(([, , ...addresses]) => addresses.slice(0, 2))).size, 12);
    // Each family has a table of flows, one of Services and one of flows under policies.
    assert.deepEqual(
      result.charts.map(({ columns, rows }) => [rows.length, columns.length]),
      [
        [8, 6],
        [8, 6],
        [13, 4],
        [13, 4],
        [8, 6],
        [8, 6],
      ],
    );
    const words = result.checks.map(({ text }) => text.replace(/\d+ ms/g, "N ms").replace(/by \d+ conn/g, "by N conn"));
    const known = "2 Namespace, 2 Node, 6 Pod, 11 Service, 22 EndpointSlice, 1 ServiceCIDR";
    const services = "104 of 104 Service cells as expected, by N connections";
    const spoofs = /^0 of 2 packets that pod-a sent as pod-b reached pod-c/;
    for (const expected of [
      ...["node1", "node2"].map((node) => `policyd ${VERSION} on ${node}: synced; 3 of 3 attachments, ${known}`),
      // 8 sources × 6 pods − 6 pods to themselves, × 2 families × 4 protocols
      "336 of 336 flows answered, 336 expected; 0 cells differ",
      "with policies 142 of 336 flows answered, 142 expected; 0 cells differ",
      "live flows in N ms each: before a denial, N ms after it, and allowed again",
      "nft flush ruleset on node1: 3 tables, restored after N ms",
      "after that 336 of 336 flows answered, 336 expected; 0 cells differ",
    ]) {
      assert.ok(words.includes(expected), `${expected}: not among\n${words.join("\n")}`);
    }
    assert.equal(words.filter((text) => text === services).length, 2);
    assert.equal(words.filter((text) => spoofs.test(text)).length, 2);
  });

  /** Starts a demo in a process of its own, and waits until both its daemons run. Returns the process ID of one. */
  async function startedDemo(): Promise<{ readonly demo: ChildProcess; readonly daemon: number }> {
    const demo = spawn(process.execPath, [DEMO], { stdio: ["ignore", "ignore", "pipe"] });
    const isUp = (): boolean => demo.exitCode !== null || daemonsOf(demo).length === 2;
    await until(isUp, () => "the demo does not start two daemons");
    assert.equal(demo.exitCode, null);
    const [daemon = assert.fail("both daemons have ended")] = daemonsOf(demo);
    return { demo, daemon };
  }

  async function assertNothingLeft(demo: ChildProcess): Promise<void> {
    await until(
      () => daemonsOf(demo).length === 0,
      () => "a daemon is left",
    );
    assert.deepEqual(
      labDirectories(({ pid }) => pid === demo.pid),
      [],
    );
  }

  it("SIGTERM ends the demo with its daemons and removes its namespaces", async () => {
    const { demo } = await startedDemo();
    demo.kill("SIGTERM");
    const ended: unknown[] = await once(demo, "exit");
    assert.deepEqual(ended, [null, "SIGTERM"]);
    await assertNothingLeft(demo);
  });

  it("the demo fails with one sentence when a daemon dies, and nothing is left", async () => {
    const { demo, daemon } = await startedDemo();
    let words = "";
    demo.stderr?.setEncoding("utf8").on("data", (text: string) => (words += text));
    process.kill(daemon, "SIGKILL");
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
