import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { readlinkSync } from "node:fs";
import { differencesOf, type Inventory, readInventory } from "../../cluster/inventory.ts";
import { endMachine, isMachineOf } from "../../cluster/node/processes.ts";

/** Returns the inventory that commands print, by kind. */
function printed(texts: Readonly<Record<string, string>>): Inventory {
  const isForeign = (kind: string, line: string): boolean => kind === "mounts" && line.startsWith("/run/netns");
  return readInventory(texts, (text) => text, isForeign);
}

describe("test/cluster/machine", () => {
  describe("an inventory before and after a cluster", () => {
    it("differs by what was added and by what is missing, of the kind, in any order", () => {
      const before = printed({ routes: "a\nb\nc\n", links: "lo\neth0" });
      const after = printed({ routes: "c \nd\n\na", links: "eth0\nlo" });
      assert.deepEqual(differencesOf("routes", before, after), ["- b", "+ d"]);
      assert.deepEqual(differencesOf("links", before, after), []);
      assert.deepEqual(differencesOf("files", before, { files: ["x"] }), ["+ x"]);
    });

    it("differs by a setting of the kernel, but not by its counters and by what others own", () => {
      const before = printed({ sysctls: "kernel.panic = 0\nfs.file-nr = 1 0 2\nkernel.random.uuid = a", mounts: "/" });
      const after = printed({
        sysctls: "kernel.panic = 10\nfs.file-nr = 7 0 2\nkernel.random.uuid = b",
        mounts: "/\n/run/netns/a",
      });
      assert.deepEqual(differencesOf("sysctls", before, after), ["- kernel.panic = 0", "+ kernel.panic = 10"]);
      assert.deepEqual(differencesOf("mounts", before, after), []);
    });
  });

  describe("the machine of a cluster whose runner was killed", () => {
    const script = "/a/test/cluster/node/machine.sh";

    it("is recognized by its script and its cluster's directory", () => {
      assert.ok(isMachineOf("/c/state", ["bash", script, "/c/state", "192.0.2.1/24"]));
      assert.ok(isMachineOf("/c/state", ["unshare", "--net", "--fork", "--", script, "/c/state"]));
      assert.ok(!isMachineOf("/c/state", ["bash", script, "/c/other"]));
      assert.ok(!isMachineOf("/c/state", ["bash", "/a/machine.sh", "/c/state"]));
      assert.ok(!isMachineOf("/c/state", ["grep", "/c/state"]));
    });

    it("is ended by its recorded process, but not a later process with the same number", async () => {
      const known = spawn("bash", ["-c", "read -r; :"], { stdio: "pipe" });
      const ended = once(known, "exit");
      try {
        await once(known, "spawn");
        const pid = known.pid ?? 0;
        await endMachine("/drawbridge-unit-test/none", { pid, namespace: "pid:[1]" });
        assert.equal(known.exitCode ?? known.signalCode, null);
        await endMachine("/drawbridge-unit-test/none", { pid, namespace: readlinkSync(`/proc/${pid}/ns/pid`) });
        assert.deepEqual(await ended, [null, "SIGKILL"]);
      } finally {
        known.kill("SIGKILL");
      }
    });

    it("is ended, and the machine of another cluster is not", async () => {
      const start = (directory: string) => spawn("bash", ["-c", "read -r; :", script, directory], { stdio: "pipe" });
      const ours = start("/drawbridge-unit-test/ours");
      const other = start("/drawbridge-unit-test/other");
      const ended = once(ours, "exit");
      try {
        await Promise.all([once(ours, "spawn"), once(other, "spawn")]);
        await endMachine("/drawbridge-unit-test/ours");
        assert.deepEqual(await ended, [null, "SIGKILL"]);
        assert.equal(other.exitCode ?? other.signalCode, null);
      } finally {
        ours.kill("SIGKILL");
        other.kill("SIGKILL");
      }
    });
  });
});
