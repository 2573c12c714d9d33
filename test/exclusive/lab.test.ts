import assert from "node:assert/strict";
import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { existsSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import path from "node:path";
import process from "node:process";
import { createInterface } from "node:readline";
import { requireKernel } from "../support/privilege.ts";
import { createLab } from "../lab/lab.ts";
import { labCalls } from "../lab/libc.ts";
import { currentOwner, isAlive, type Owner, processAt } from "../lab/owner.ts";
import { NAMESPACE_DIRECTORY } from "../lab/pin.ts";
import { networkState } from "../lab/network_state.ts";
import { findLabFiles, sweepDeadLabs } from "../lab/sweep.ts";
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

function filesOf(pid: number | undefined): readonly string[] {
  const { namespaces, directories } = findLabFiles((owner) => owner.pid === pid);
  return [...namespaces, ...directories];
}

function mountsOf(pid: number | undefined): readonly string[] {
  return readFileSync("/proc/self/mountinfo", "utf8")
    .split("\n")
    .filter((line) => line.includes(`/dbl-${pid}-`));
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
    assert.equal(filesOf(process.pid).length - before.length, 5);
    lab.destroy();
    lab.destroy();
    assert.deepEqual(filesOf(process.pid), before);
    assert.equal(existsSync(lab.scratch), false);
    assert.deepEqual(
      mountsOf(process.pid).filter((line) => line.includes("-gone-")),
      [],
    );
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

  it("brings the thread home when an action inside throws", () => {
    using lab = createLab("home");
    const node = lab.node("node1");
    const links = readdirSync("/sys/class/net");
    const inode = readNetworkNamespace();
    assert.throws(() => node.inside(() => assert.fail("on purpose")), /on purpose/);
    assert.equal(readNetworkNamespace(), inode);
    assert.deepEqual(readdirSync("/sys/class/net"), links);
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
        assert.deepEqual([...filesOf(child.pid), ...mountsOf(child.pid)], []);
      });
    }

    for (const signal of ["SIGTERM", "SIGINT"] as const) {
      it(`by ${signal} is removed, and the process dies of the signal`, async () => {
        const child = processWithLab(WAIT_FOR_EVER);
        await untilMade(child);
        assert.equal(filesOf(child.pid).length, 2);
        child.kill(signal);
        assert.deepEqual(await once(child, "exit"), [null, signal]);
        assert.deepEqual([...filesOf(child.pid), ...mountsOf(child.pid)], []);
      });
    }

    it("by SIGKILL is removed when the next lab is made", async () => {
      const child = processWithLab(WAIT_FOR_EVER);
      await untilMade(child);
      child.kill("SIGKILL");
      await once(child, "exit");
      assert.equal(filesOf(child.pid).length, 2);
      using _ = createLab("next");
      assert.deepEqual([...filesOf(child.pid), ...mountsOf(child.pid)], []);
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

  it("leaves no file and no mount after somebody's ip netns add, and neither does one whose process was killed", () => {
    // A mount namespace with its own /run keeps the machine's /run/netns untouched.
    const program = `
      import assert from "node:assert/strict";
      import { execFileSync, spawnSync } from "node:child_process";
      import { readFileSync, readdirSync } from "node:fs";
      import { createLab } from ${JSON.stringify(LAB_MODULE)};
      execFileSync("mount", ["--make-rprivate", "/"]);
      execFileSync("mount", ["-t", "tmpfs", "tmpfs", ${JSON.stringify(path.dirname(NAMESPACE_DIRECTORY))}]);
      const mounts = () => {
        const places = readFileSync("/proc/self/mountinfo", "utf8").split("\\n").map((line) => line.split(" ")[4] ?? "");
        return places.filter((place) => place.startsWith(${JSON.stringify(NAMESPACE_DIRECTORY)}));
      };
      const hidden = mounts();
      const dead = 'import { createLab } from ${JSON.stringify(LAB_MODULE)}; createLab("dead").node("n"); process.kill(process.pid, 9);';
      spawnSync(process.execPath, ["--input-type=module", "-e", dead]);
      const living = createLab("living");
      living.node("node1");
      execFileSync("ip", ["netns", "add", "others"]);
      living.destroy();
      createLab("next").destroy();
      const directory = ${JSON.stringify(NAMESPACE_DIRECTORY)};
      assert.deepEqual(readdirSync(directory), ["others"]);
      assert.deepEqual(mounts(), [...hidden, directory, directory + "/others"]);
      console.log("clean");`;
    const args = ["--mount", process.execPath, "--input-type=module", "-e", program];
    const { stdout, stderr } = spawnSync("unshare", args, { encoding: "utf8" });
    assert.equal(stdout, "clean\n", stderr);
  });

  it("is swept when its process ID has gone to another process", () => {
    const name = `dbl-${process.pid}-${BigInt(currentOwner().startTime) - 1n}-old-node1`;
    const file = path.join(NAMESPACE_DIRECTORY, name);
    using _ = createLab("first");
    writeFileSync(file, "");
    sweepDeadLabs(labCalls());
    assert.equal(existsSync(file), false);
  });

  it("leaves namespaces of others alone", () => {
    using _ = createLab("polite");
    const file = path.join(NAMESPACE_DIRECTORY, "dbl-not-a-lab");
    writeFileSync(file, "");
    try {
      sweepDeadLabs(labCalls());
      assert.equal(existsSync(file), true);
    } finally {
      labCalls().unlink(file);
    }
  });
});

function readNetworkNamespace(): string {
  using lab = createLab("unused");
  return `${lab.home.device}:${lab.home.inode}`;
}
