import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import * as v from "valibot";
import { parse } from "yaml";

interface Profile {
  readonly defaultAction: string;
  readonly defaultErrnoRet: number;
  readonly syscalls: readonly {
    /** The program that makes the calls, and the reason. */
    readonly comment: string;
    readonly names: readonly string[];
    readonly action: string;
    readonly args?: readonly { readonly index: number; readonly value: number; readonly op: string }[];
  }[];
}

const profile = JSON.parse(readFileSync("manifests/seccomp/drawbridge.json", "utf8")) as Profile;
const allowed = profile.syscalls.flatMap(({ names }) => names);

/** System calls that lead out of a container, or into other processes and the kernel. */
const NEVER =
  "add_key bpf chroot clone3 delete_module finit_module init_module io_uring_setup kexec_load keyctl mknod mknodat mount " +
  "move_mount name_to_handle_at open_by_handle_at open_tree perf_event_open personality pidfd_getfd pivot_root " +
  "process_vm_readv process_vm_writev ptrace quotactl reboot request_key setns settimeofday swapon syslog umount2 unshare " +
  "userfaultfd vmsplice";

/** System calls with which runc makes mounts. It uses another way for each that ends with ENOSYS. */
const DISPENSABLE = "fsconfig fsmount fsopen open_tree";

const runtimesSchema = v.array(v.strictObject({ runtime: v.string(), late: v.string(), early: v.string() }));
const RUNTIMES = "test/fixtures/seccomp/runtimes.yaml";

describe("manifests/seccomp/drawbridge.json", () => {
  it("DEPLOY-11: other system calls do not exist, and each allowed one is explained", () => {
    assert.deepEqual([profile.defaultAction, profile.defaultErrnoRet], ["SCMP_ACT_ERRNO", 38]);
    assert.deepEqual(new Set(profile.syscalls.map(({ action }) => action)), new Set(["SCMP_ACT_ALLOW"]));
    const unconditional = profile.syscalls.filter(({ args }) => args === undefined).flatMap(({ names }) => names);
    assert.equal(new Set(unconditional).size, unconditional.length);
    for (const { comment, names } of profile.syscalls) assert.match(comment, /^[A-Z]\w{3,}/, names.join());
  });

  it("DEPLOY-11: no call that leads out of the container or into the kernel is allowed", () => {
    assert.deepEqual(
      NEVER.split(" ").filter((name) => allowed.includes(name)),
      [],
    );
  });

  it("DEPLOY-11: clone may make threads but no namespaces, and sockets may have four families", () => {
    const rules = (name: string): unknown =>
      profile.syscalls.filter(({ names }) => names.includes(name)).map(({ args }) => args);
    // The CLONE_NEW... flags of linux/sched.h, none of which may be set.
    const newNamespaces = 0x7e02_0000;
    assert.deepEqual(rules("clone"), [[{ index: 0, value: newNamespaces, valueTwo: 0, op: "SCMP_CMP_MASKED_EQ" }]]);
    const families = [1, 2, 10, 16].map((value) => [{ index: 0, value, op: "SCMP_CMP_EQ" }]);
    assert.deepEqual(rules("socket"), families);
  });

  it("DEPLOY-11: the profile allows each call of runc and crun between the filter and the program, except those that make mounts", () => {
    const runtimes = v.parse(runtimesSchema, parse(readFileSync(RUNTIMES, "utf8")));
    assert.ok(runtimes.length > 1);
    for (const { runtime, late, early } of runtimes) {
      for (const calls of [late.split(" "), early.split(" ")]) {
        assert.ok(calls.includes("execve"), runtime);
        const missing = calls.filter((name) => !allowed.includes(name));
        assert.deepEqual(
          missing.filter((name) => !DISPENSABLE.split(" ").includes(name)),
          [],
          runtime,
        );
      }
    }
    assert.deepEqual(
      DISPENSABLE.split(" ").filter((name) => allowed.includes(name)),
      [],
    );
  });
});
