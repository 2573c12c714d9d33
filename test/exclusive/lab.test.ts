import assert from "node:assert/strict";
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdirSync, readFileSync, rmdirSync, writeFileSync } from "node:fs";
import os from "node:os";
import path from "node:path";
import process from "node:process";
import { createInterface } from "node:readline";
import { requireKernel } from "../support/privilege.ts";
import { createLab } from "../lab/lab.ts";
import { labCalls } from "../lab/libc.ts";
import { currentOwner, isAlive, type Owner, processAt } from "../lab/owner.ts";
import { networkState } from "../lab/network_state.ts";
import { labDirectories, sweepDeadLabs } from "../lab/sweep.ts";
import { twoNodes } from "../lab/topology.ts";
import { until } from "../support/until.ts";

const LAB_MODULE = new URL("../lab/lab.ts", import.meta.url).href;

/** Starts a separate process that makes a lab, reports that, and then does what `rest` says. */
function processWithLab(rest: string): ChildProcess {
  const program = `
    import { createLab } from ${JSON.stringify(LAB_MODULE)};
    createLab("other").node("node1");
    console.log("made");
    ${rest}`;
  return spawn(process.execPath, ["--input-type=module", "-e", program], { stdio: ["ignore", "pipe", "ignore"] });
}

async function untilMade(child: ChildProcess): Promise<void> {
  assert.ok(child.stdout !== null);
  await once(child.stdout, "data");
}

/** Returns the process whose ID the program prints after "made". */
async function startedBy(child: ChildProcess): Promise<Owner> {
  assert.ok(child.stdout !== null);
  for await (const line of createInterface({ input: child.stdout })) {
    const started = line === "made" ? undefined : processAt(Number(line));
    if (started !== undefined) return started;
  }
  throw new Error("the process ended without a word of what it started");
}

/** Returns the directories and mounts of a process's labs. */
function filesOf(pid: number | undefined): readonly string[] {
  const mounts = readFileSync("/proc/self/mountinfo", "utf8").split("\n");
  return [...labDirectories((owner) => owner.pid === pid), ...mounts.filter((line) => line.includes(`/dbl-${pid}-`))];
}

const WAIT_FOR_EVER = "setInterval(() => {}, 1000);";

describe("a lab", () => {
  before(function () {
    requireKernel(this);
  });

  it("removes its namespaces, mounts and directory, and a second destroy does nothing", () => {
    const before = filesOf(process.pid);
    const lab = createLab("gone");
    twoNodes(lab);
    lab.pod("pod");
    writeFileSync(path.join(lab.scratch, "file"), "");
    // The directory, the router, two nodes and the pod.
    assert.equal(filesOf(process.pid).length - before.length, 5);
    lab.destroy();
    lab.destroy();
    assert.deepEqual(filesOf(process.pid), before);
  });

  it("leaves links, addresses, routes, rules and settings of the machine's own namespace as they were", () => {
    const before = networkState();
    {
      using lab = createLab("aside");
      const { node1 } = twoNodes(lab, { bridgeNetfilter: false, reversePathFilter: 1, mtu: 1400 });
      node1.node.exec("ip", ["link", "add", "cni0", "type", "bridge"]);
      assert.deepEqual(networkState(), before);
    }
    assert.deepEqual(networkState(), before);
  });

  it("has the lock of iptables-legacy among the lab's files, not among the machine's", () => {
    using lab = createLab("lock");
    const lock = lab.node("node1").exec("sh", ["-c", 'echo "$XTABLES_LOCKFILE"']);
    assert.equal(lock, `${lab.scratch}/xtables.lock\n`);
  });

  describe("of a process that ends", () => {
    for (const [how, rest] of [
      ["by itself", ""],
      ["by an uncaught exception", 'throw new Error("on purpose");'],
      ["by process.exit", "process.exit(3);"],
    ] as const) {
      it(`${how} is removed`, async () => {
        const child = processWithLab(rest);
        await once(child, "exit");
        assert.deepEqual(filesOf(child.pid), []);
      });
    }

    for (const signal of ["SIGTERM", "SIGINT"] as const) {
      it(`by ${signal} is removed, and the process dies of the signal`, async () => {
        const child = processWithLab(WAIT_FOR_EVER);
        await untilMade(child);
        assert.equal(filesOf(child.pid).length, 2);
        child.kill(signal);
        assert.deepEqual(await once(child, "exit"), [null, signal]);
        assert.deepEqual(filesOf(child.pid), []);
      });
    }

    it("by SIGKILL is removed when the next lab is made", async () => {
      const child = processWithLab(WAIT_FOR_EVER);
      await untilMade(child);
      child.kill("SIGKILL");
      await once(child, "exit");
      assert.equal(filesOf(child.pid).length, 2);
      using _ = createLab("next");
      assert.deepEqual(filesOf(child.pid), []);
    });
  });

  it("by SIGKILL has what it started ended when the next lab is made, and of the others nothing", async () => {
    const start = `const { spawn } = await import("node:child_process");
      console.log(spawn("sleep", ["600"], { stdio: "ignore", detached: true }).pid);`;
    const [killed, living] = [processWithLab(start + WAIT_FOR_EVER), processWithLab(start + WAIT_FOR_EVER)];
    const [orphan, child] = [await startedBy(killed), await startedBy(living)];
    try {
      killed.kill("SIGKILL");
      await once(killed, "exit");
      assert.equal(isAlive(orphan), true, "nobody else ends it");
      using _ = createLab("next");
      await until(() => !isAlive(orphan), "the orphan has ended", 1000);
      assert.equal(isAlive(child), true);
    } finally {
      process.kill(child.pid, "SIGKILL");
      living.kill("SIGTERM");
      await once(living, "exit");
    }
  });

  it("is not swept while its process lives", async () => {
    const child = processWithLab(WAIT_FOR_EVER);
    try {
      await untilMade(child);
      sweepDeadLabs(labCalls());
      assert.equal(filesOf(child.pid).length, 2);
    } finally {
      child.kill("SIGTERM");
      await once(child, "exit");
    }
  });

  it("is swept when its process ID has gone to another process, and files of other programs are not", () => {
    using _ = createLab("first");
    const dead = `dbl-${process.pid}-${BigInt(currentOwner().startTime) - 1n}-old`;
    const [old, other] = [dead, "dbl-not-a-lab"].map((name) => path.join(os.tmpdir(), name));
    for (const directory of [old, other]) mkdirSync(directory ?? "");
    sweepDeadLabs(labCalls());
    assert.deepEqual(
      [old, other].map((directory) => existsSync(directory ?? "")),
      [false, true],
    );
    rmdirSync(other ?? "");
  });
});
