import assert from "node:assert/strict";
import { insideNamespace, type NetworkNamespace, openNamespace } from "../../../kernel/network_namespace.ts";
import { nodeSyscalls } from "../../../kernel/syscall/koffi.ts";
import { Errno } from "../../../kernel/syscall/errno.ts";
import { ScriptedSyscalls } from "./scripted_syscalls.ts";

const files = nodeSyscalls();
const home: NetworkNamespace = { path: "/proc/thread-self/ns/net", fd: 3, device: "0:4", inode: 1n };
const pod: NetworkNamespace = { path: "/run/netns/pod", fd: 5, device: "0:4", inode: 2n };

describe("kernel/network_namespace", () => {
  it("the action does not run when the namespace cannot be entered, and the error names it", () => {
    const syscalls = new ScriptedSyscalls();
    syscalls.setnsResults.push(-Errno.EINVAL);
    assert.throws(() => insideNamespace(syscalls, home, pod, () => assert.fail("acted")), {
      code: "ERR_NAMESPACE",
      message: "enter network namespace /run/netns/pod: EINVAL (invalid argument)",
    });
    assert.deepEqual(syscalls.entered, []);
  });

  it("the error says when the thread cannot return home", () => {
    const syscalls = new ScriptedSyscalls();
    syscalls.setnsResults.push(0, -Errno.EPERM);
    assert.throws(() => insideNamespace(syscalls, home, pod, () => 1), {
      message: /^return to network namespace .*: EPERM/,
    });
  });

  it("the error names a path that cannot be opened", () => {
    const cases = [
      ["/run/netns/no-such-namespace", "ENOENT"],
      ["/proc/self/status/x", "ENOTDIR"],
    ] as const;
    for (const [path, errnoName] of cases) {
      assert.throws(
        () => openNamespace(files, path),
        (error: unknown) => {
          assert.ok(error instanceof Error && "errnoName" in error);
          assert.equal(error.errnoName, errnoName);
          assert.ok(error.message.startsWith(`open network namespace ${path}: ${errnoName}`));
          return true;
        },
      );
    }
  });
});
