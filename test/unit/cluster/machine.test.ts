import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { readlinkSync } from "node:fs";
import { compareInventories, type Inventory, KINDS, mountsIn } from "../../cluster/machine/inventory.ts";
import { endMachine, isMachineOf } from "../../cluster/node/processes.ts";

const EMPTY: Inventory = {
  processes: [],
  mounts: [],
  cgroups: [],
  links: [],
  addresses: [],
  routes: [],
  "rules of routing": [],
  nftables: [],
  iptables: [],
  sysctls: [],
  files: [],
};

describe("test/cluster/machine", () => {
  describe("the machine before and after a cluster", () => {
    it("does not differ when the same things are listed in another order", () => {
      assert.deepEqual(
        compareInventories({ ...EMPTY, links: ["lo", "eth0"] }, { ...EMPTY, links: ["eth0", "lo"] }),
        [],
      );
    });

    it("differs by what was added and by what is missing, of each kind", () => {
      for (const kind of KINDS) {
        const before = { ...EMPTY, [kind]: ["stays", "goes"] };
        const after = { ...EMPTY, [kind]: ["stays", "comes"] };
        assert.deepEqual(compareInventories(before, after), [`- ${kind}: goes`, `+ ${kind}: comes`]);
      }
    });

    it("differs by a setting of the kernel, but not by its counters", () => {
      const before = { ...EMPTY, sysctls: ["kernel/panic 0", "fs/file-nr 1 0 2", "kernel/random/uuid a"] };
      const after = { ...EMPTY, sysctls: ["kernel/panic 10", "fs/file-nr 7 0 2", "kernel/random/uuid b"] };
      assert.deepEqual(compareInventories(before, after), ["- sysctls: kernel/panic 0", "+ sysctls: kernel/panic 10"]);
    });

    it("does not differ by named network namespaces, which other programs make at any time", () => {
      const after = { ...EMPTY, mounts: ["/run/netns/a nsfs nsfs"], files: ["/run/netns", "/run/netns/a"] };
      assert.deepEqual(compareInventories(EMPTY, after), []);
    });
  });

  it("a mount is listed with its path, type and source, also with optional fields", () => {
    const text = [
      "22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw",
      String.raw`40 22 0:30 / /mnt/a\040b rw - tmpfs tmpfs rw,size=4k`,
      "",
    ].join("\n");
    assert.deepEqual(mountsIn(text), ["/ ext4 /dev/vda", String.raw`/mnt/a\040b tmpfs tmpfs`]);
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
