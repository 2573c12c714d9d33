import assert from "node:assert/strict";
import { shimProgram } from "../../../../cni/shim/program.ts";
import { LONGEST_STDIN } from "../../../../cni/standard_input.ts";
import { Errno } from "../../../../kernel/syscall/errno.ts";
import { interpret, processOf } from "./interpreter.ts";
import { parameters } from "./parameters.ts";
import type { Circumstances, Seen } from "./shim_kernel.ts";
import { shimKernel } from "./shim_kernel.ts";

const args = ["loopback", "b c", ""];
const environment = ["CNI_COMMAND=ADD", "CNI_IFNAME=eth0"];
const configuration = new TextEncoder().encode('{"name":"n"}');

function run(circumstances: Circumstances): Seen {
  const { kernel, seen } = shimKernel(circumstances);
  interpret(shimProgram(parameters), processOf(parameters, args, environment), kernel);
  return seen();
}

const asCalled = { path: "/opt/cni/bin/drawbridge-plugin", args, environment };
const standardFiles = ["0 standard input", "1 standard output", "2 standard error"];
const filesWithMemory = ["0 memory", "1 standard output", "2 standard error"];

/** The plugin is executed as the shim was called, with the whole of standard input before it, and nothing else open. */
function assertCold(seen: Seen, files: readonly string[] = filesWithMemory): void {
  assert.deepEqual(seen.executed, { ...asCalled, files });
  assert.deepEqual([seen.output, seen.exitCode], ["", undefined]);
}

function assertError(seen: Seen, code: number, msg: RegExp): void {
  assert.equal(seen.exitCode, 1);
  assert.equal(seen.executed, undefined);
  assert.ok(seen.output.endsWith("}\n"));
  const told: unknown = JSON.parse(seen.output);
  assert.partialDeepStrictEqual(told, { cniVersion: "1.1.0", code });
  assert.match(seen.output, msg);
}

const input = [configuration];
const answering = { answers: [254, 0], output: '{"ips":[]}\n' };

describe("cni/shim/program: a call that the server does", () => {
  it("prints what the server appended and ends with its code (SHIM-02)", () => {
    const seen = run({ input, server: { answers: [254, 3], output: '{"ips":[]}\n' } });
    assert.deepEqual([seen.output, seen.exitCode, seen.executed], ['{"ips":[]}\n', 3, undefined]);
  });

  it("makes these twenty system calls and no other (SHIM-02)", () => {
    const expected =
      "memfd_create read write read lseek dup3 close socket connect openat openat sendmsg recvfrom recvfrom lseek " +
      "read write read exit_group";
    assert.deepEqual(run({ input, server: answering }).calls, expected.split(" "));
  });

  it("hands over arguments, environment, standard input and both namespaces (SHIM-02)", () => {
    const { request, memory } = run({ input, server: answering });
    assert.deepEqual(request, {
      argc: 3,
      strings: [...args, ...environment].map((text) => `${text}\0`).join(""),
      rights: ["memory", "/proc/self/ns/net", "/proc/self/ns/mnt"],
    });
    assert.equal(new TextDecoder().decode(memory), '{"name":"n"}{"ips":[]}\n');
  });

  it("prints nothing for a result of no bytes", () => {
    const seen = run({ input, server: { answers: [254, 0], output: "" } });
    assert.deepEqual([seen.output, seen.exitCode], ["", 0]);
  });

  it("prints an output longer than its buffer, however little is taken at once", () => {
    const output = "0123456789".repeat(20_000);
    const seen = run({ input, server: { answers: [254, 0], output }, mostWritten: 4097 });
    assert.ok(seen.output === output);
    assert.equal(seen.exitCode, 0);
  });

  it("repeats what a signal interrupted", () => {
    const interrupted = [-Errno.EINTR];
    const results = {
      read: interrupted,
      recvfrom: [-Errno.EINTR, undefined, -Errno.EINTR],
      write: [undefined, -Errno.EINTR],
    };
    const seen = run({ input, server: { answers: [254, 4], output: "x" }, results });
    assert.deepEqual([seen.output, seen.exitCode], ["x", 4]);
  });

  it("fails when its output cannot be written, read or found", () => {
    for (const results of [
      { write: [undefined, -Errno.ENOSPC] },
      { read: [undefined, undefined, -Errno.EIO] },
      { lseek: [undefined, -Errno.EIO] },
    ]) {
      const seen = run({ input, server: answering, results });
      assert.deepEqual([seen.output, seen.exitCode, seen.executed], ["", 1, undefined]);
    }
  });

  it("works without a standard input: the memory has its number by itself", () => {
    const seen = run({ server: answering, open: [1, 2] });
    assert.deepEqual([seen.output, seen.exitCode], ['{"ips":[]}\n', 0]);
    assert.ok(!seen.calls.includes("dup3") && !seen.calls.includes("close"));
  });
});

describe("cni/shim/program: a call that the plugin does", () => {
  it("executes the plugin beside it as it was called itself, when there is no server (SHIM-01)", () => {
    const seen = run({ input });
    assertCold(seen);
    assert.deepEqual(seen.memory, configuration);
    assert.ok(seen.calls.includes("clone"));
  });

  it("gives the plugin standard input from its start when the server declines (SHIM-03)", () => {
    const seen = run({ input, server: { answers: [255], output: "" } });
    assertCold(seen);
    assert.equal(seen.calls.at(-3), "lseek");
    assert.ok(!seen.calls.includes("clone"));
  });

  it("does the call itself when the server is gone, fails, or says something else before it began (SHIM-03)", () => {
    for (const answers of [[], [-Errno.ECONNRESET], [0], [253]])
      assertCold(run({ input, server: { answers, output: "" } }));
  });

  it("does the call itself, and starts no server, when one cannot be asked", () => {
    for (const results of [
      { socket: [-Errno.EMFILE] },
      { connect: [-Errno.EINTR] },
      { openat: [-Errno.ENOENT] },
      { openat: [undefined, -Errno.ENOENT] },
      { sendmsg: [-Errno.EMSGSIZE] },
    ]) {
      const seen = run({ input, server: answering, results });
      assertCold(seen);
      assert.ok(!seen.calls.includes("clone"));
    }
  });

  it("leaves standard input alone where it cannot keep it, or cannot read it at all", () => {
    assertCold(run({ input, server: answering, results: { memfd_create: [-Errno.ENOSYS] } }), standardFiles);
    assertCold(run({ input: [-Errno.EIO], server: answering }), standardFiles);
  });

  it("keeps standard input on a kernel that does not know a file that is never executed (SHIM-02)", () => {
    const seen = run({ input, server: answering, results: { memfd_create: [-Errno.EINVAL] } });
    assert.equal(seen.calls.filter((name) => name === "memfd_create").length, 2);
    assert.ok(!seen.calls.includes("execve"));
  });

  it("takes what it has read when reading fails later", () => {
    const seen = run({ input: [configuration, -Errno.EIO] });
    assertCold(seen);
    assert.deepEqual(seen.memory, configuration);
  });

  it("reads no more than the plugin takes and one buffer (SHIM-05)", () => {
    const endless = Array.from({ length: 200 }, () => new Uint8Array(64 * 1024));
    const seen = run({ input: endless });
    assertCold(seen);
    assert.equal(seen.memory.length, LONGEST_STDIN + 64 * 1024);
  });

  it("says where the plugin belongs when it cannot be found or executed (SHIM-01)", () => {
    assertError(run({ input, results: { execve: [-Errno.ENOENT] } }), 5, /drawbridge-plugin: cannot be executed/);
    assertError(run({ input, results: { readlinkat: [-Errno.ENOENT] } }), 5, /drawbridge-plugin/);
    assertError(run({ input, ownPath: `/${"d".repeat(4095)}` }), 5, /drawbridge-plugin/);
    assertError(run({ input, ownPath: "no directory" }), 5, /drawbridge-plugin/);
  });

  it("finds the plugin in any directory that the path of an executable can name", () => {
    const longest = `/${"d".repeat(4000)}/${"f".repeat(93)}`;
    assert.equal(longest.length, 4095);
    for (const [ownPath, path] of [
      ["/shim", "/drawbridge-plugin"],
      ["/a/b/shim (deleted)", "/a/b/drawbridge-plugin"],
      [longest, `/${"d".repeat(4000)}/drawbridge-plugin`],
    ] as const)
      assert.equal(run({ input, ownPath }).executed?.path, path);
  });
});

describe("cni/shim/program: a call that fails", () => {
  it("says that the server ended in the middle, and does nothing by itself (SHIM-04)", () => {
    for (const answers of [[254], [254, -Errno.ECONNRESET], [254, 128], [254, 255]])
      assertError(run({ input, server: { answers, output: "" } }), 11, /call DEL.* try again/);
  });

  it("says that standard input cannot be kept, once some of it is read", () => {
    for (const results of [
      { write: [-Errno.ENOSPC] },
      { write: [3] },
      { dup3: [-Errno.EMFILE] },
      { lseek: [-Errno.EIO] },
    ])
      assertError(run({ input, server: answering, results }), 11, /standard input/);
  });

  it("tells an error in pieces where the reader takes only some bytes at once", () => {
    assertError(run({ input, server: { answers: [254], output: "" }, mostWritten: 7 }), 11, /in the middle/);
  });
});

describe("cni/shim/program: starting a server", () => {
  const serverFiles = ["0 /dev/null", "1 /dev/null", "2 /dev/null", "3 /run/drawbridge-plugin/lock"];
  const asServer = {
    path: "/opt/cni/bin/drawbridge-plugin",
    args: ["drawbridge-server", "/run/drawbridge-plugin"],
    environment: ["A=1", "B=2"],
    files: serverFiles,
  };

  it("executes it with the lock, three times the null device, and nothing of the caller's (SHIM-06)", () => {
    const seen = run({ input, isChild: true });
    assert.deepEqual(seen.executed, asServer);
    assert.deepEqual(seen.calls.slice(seen.calls.indexOf("clone") + 1, seen.calls.indexOf("clone") + 3), [
      "setsid",
      "dup3",
    ]);
  });

  it("does so whatever descriptors the caller left open or closed (SHIM-06)", () => {
    for (const open of [[], [0], [1], [2], [0, 1, 2, 3], [0, 1, 2, 3, 4, 5, 9]])
      assert.deepEqual(run({ input, isChild: true, open }).executed, asServer, `open: ${open.join()}`);
  });

  it("starts none when another holds the lock or the lock cannot be had (SHIM-06)", () => {
    for (const results of [{ flock: [-Errno.EAGAIN] }, { openat: [-Errno.ELOOP] }]) {
      const seen = run({ input, results });
      assertCold(seen);
      assert.ok(!seen.calls.includes("clone"));
    }
  });

  it("does not mind that a directory is there, and that no process can be made", () => {
    const seen = run({ input, results: { mkdirat: [-Errno.EEXIST, -Errno.EEXIST], clone: [-Errno.EAGAIN] } });
    assertCold(seen);
  });

  it("ends the child where it would keep the caller's output or has no plugin, and says nothing", () => {
    for (const results of [
      { openat: [undefined, -Errno.ENOENT] },
      { dup3: [undefined, -Errno.EMFILE] },
      { execve: [-Errno.ENOENT] },
      { readlinkat: [-Errno.ENOENT] },
    ]) {
      const seen = run({ input, isChild: true, results });
      assert.deepEqual([seen.output, seen.exitCode, seen.executed], ["", 1, undefined]);
    }
  });
});
