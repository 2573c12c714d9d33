import assert from "node:assert/strict";
import { shimProgram } from "../../../../cni/shim/program.ts";
import { LONGEST_STDIN } from "../../../../cni/standard_input.ts";
import { Errno } from "../../../../kernel/syscall/errno.ts";
import { interpret, processOf } from "./interpreter.ts";
import { parameters } from "./parameters.ts";
import { type Circumstances, type Seen, shimKernel } from "./shim_kernel.ts";

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

/**
 * Asserts that the plugin is executed as the shim was called, with the whole of standard input before it, and nothing
 * else open.
 */
function assertCold(seen: Seen, files: readonly string[] = filesWithMemory): void {
  assert.deepEqual(seen.executed, { ...asCalled, files });
  assert.deepEqual([seen.output, seen.exitCode], ["", undefined]);
}

function assertError(seen: Seen, code: number, msg: RegExp): void {
  assert.equal(seen.exitCode, 1);
  assert.equal(seen.executed, undefined);
  assert.ok(seen.output.endsWith("}\n"));
  const reported: unknown = JSON.parse(seen.output);
  assert.partialDeepStrictEqual(reported, { cniVersion: "1.1.0", code });
  assert.match(seen.output, msg);
}

const input = [configuration];
const answering = { answers: [254, 0], output: '{"ips":[]}\n' };

describe("cni/shim/program: a call that the server does", () => {
  it("prints what the server appended and ends with its code (SHIM-02)", () => {
    const seen = run({ input, server: { answers: [254, 3], output: '{"ips":[]}\n' } });
    assert.deepEqual([seen.output, seen.exitCode, seen.executed], ['{"ips":[]}\n', 3, undefined]);
  });

  it("makes exactly these twenty-two system calls (SHIM-02)", () => {
    const expected =
      "memfd_create read write read lseek dup3 close socket setsockopt setsockopt connect openat openat sendmsg recvfrom recvfrom lseek " +
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

  it("waits without a limit when the server has taken the call (SHIM-07)", () => {
    const late = [-Errno.EAGAIN, -Errno.EAGAIN, 254, -Errno.EAGAIN, -Errno.EAGAIN, 5];
    const results = { fcntl: [-Errno.EPERM, -Errno.EPERM] };
    const seen = run({ input, server: { answers: late, output: "x" }, results });
    assert.deepEqual([seen.output, seen.exitCode, seen.executed], ["x", 5, undefined]);
  });

  it("prints nothing for a result of no bytes", () => {
    const seen = run({ input, server: { answers: [254, 0], output: "" } });
    assert.deepEqual([seen.output, seen.exitCode], ["", 0]);
  });

  it("prints an output longer than its buffer, however little each write takes", () => {
    const output = "0123456789".repeat(20_000);
    const seen = run({ input, server: { answers: [254, 0], output }, mostWritten: 4097 });
    assert.ok(seen.output === output);
    assert.equal(seen.exitCode, 0);
  });

  it("repeats system calls that a signal interrupted", () => {
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

  it("works without a standard input, when the memory gets its number by itself", () => {
    const seen = run({ server: answering, open: [1, 2] });
    assert.deepEqual([seen.output, seen.exitCode], ['{"ips":[]}\n', 0]);
    assert.ok(!seen.calls.includes("dup3") && !seen.calls.includes("close"));
  });
});

describe("cni/shim/program: a call that the plugin does", () => {
  it("executes the plugin beside it with its own arguments when there is no server (SHIM-01)", () => {
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

  it("executes the plugin when the server is gone, fails, or sends something else before it has begun (SHIM-03)", () => {
    for (const answers of [[], [-Errno.ECONNRESET], [0], [253]])
      assertCold(run({ input, server: { answers, output: "" } }));
  });

  it("takes back a call that the server has not taken in time, and executes the plugin (SHIM-07)", () => {
    const seen = run({ input, server: { answers: [-Errno.EAGAIN, 254, 0], output: "x" } });
    assertCold(seen);
    assert.deepEqual(seen.calls.slice(seen.calls.indexOf("recvfrom"), -2), ["recvfrom", "fcntl", "lseek"]);
  });

  it("executes the plugin when the server has taken the call and ends before it has begun (SHIM-03)", () => {
    const results = { fcntl: [-Errno.EPERM] };
    assertCold(run({ input, server: { answers: [-Errno.EAGAIN], output: "" }, results }));
  });

  it("executes the plugin where a stopped server takes no further connections (SHIM-07)", () => {
    assertCold(run({ input, server: answering, results: { connect: [-Errno.EAGAIN] } }));
  });

  it("executes the plugin, and starts no server, when the server cannot be asked", () => {
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

  it("leaves standard input unread where it cannot be kept, or cannot be read at all", () => {
    assertCold(run({ input, server: answering, results: { memfd_create: [-Errno.ENOSYS] } }), standardFiles);
    assertCold(run({ input: [-Errno.EIO], server: answering }), standardFiles);
  });

  it("keeps standard input on a kernel without memory files that are never executed (SHIM-02)", () => {
    const seen = run({ input, server: answering, results: { memfd_create: [-Errno.EINVAL] } });
    assert.equal(seen.calls.filter((name) => name === "memfd_create").length, 2);
    assert.ok(!seen.calls.includes("execve"));
  });

  it("uses what it has read when reading fails later", () => {
    const seen = run({ input: [configuration, -Errno.EIO] });
    assertCold(seen);
    assert.deepEqual(seen.memory, configuration);
  });

  it("reads at most as much as the plugin accepts and one buffer (SHIM-05)", () => {
    const endless = Array.from({ length: 200 }, () => new Uint8Array(64 * 1024));
    const seen = run({ input: endless });
    assertCold(seen);
    assert.equal(seen.memory.length, LONGEST_STDIN + 64 * 1024);
  });

  it("the error says where the plugin belongs when it cannot be found or executed (SHIM-01)", () => {
    assertError(run({ input, results: { execve: [-Errno.ENOENT] } }), 5, /drawbridge-plugin: cannot be executed/);
    assertError(run({ input, results: { readlinkat: [-Errno.ENOENT] } }), 5, /drawbridge-plugin/);
    assertError(run({ input, ownPath: `/${"d".repeat(4095)}` }), 5, /drawbridge-plugin/);
    assertError(run({ input, ownPath: "no directory" }), 5, /drawbridge-plugin/);
  });

  it("finds the plugin in any directory that an executable's path can name", () => {
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
  it("says that the server ended in the middle, and does not do the call itself (SHIM-04)", () => {
    for (const answers of [[254], [254, -Errno.ECONNRESET], [254, 128], [254, 255]])
      assertError(run({ input, server: { answers, output: "" } }), 11, /call DEL.* try again/);
  });

  it("says that standard input cannot be kept when some of it has been read", () => {
    for (const results of [
      { write: [-Errno.ENOSPC] },
      { write: [3] },
      { dup3: [-Errno.EMFILE] },
      { lseek: [-Errno.EIO] },
    ])
      assertError(run({ input, server: answering, results }), 11, /standard input/);
  });

  it("writes an error in pieces where the reader takes only some bytes at once", () => {
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

  it("executes the plugin with the lock, three times the null device, and nothing of the caller's (SHIM-06)", () => {
    const seen = run({ input, isChild: true });
    assert.deepEqual(seen.executed, asServer);
    assert.deepEqual(seen.calls.slice(seen.calls.indexOf("clone") + 1, seen.calls.indexOf("clone") + 3), [
      "setsid",
      "dup3",
    ]);
  });

  it("executes the plugin so with any descriptors that the caller left open or closed (SHIM-06)", () => {
    for (const open of [[], [0], [1], [2], [0, 1, 2, 3], [0, 1, 2, 3, 4, 5, 9]])
      assert.deepEqual(run({ input, isChild: true, open }).executed, asServer, `open: ${open.join()}`);
  });

  it("starts no server when another holds the lock or the lock is unavailable (SHIM-06)", () => {
    for (const results of [{ flock: [-Errno.EAGAIN] }, { openat: [-Errno.ELOOP] }]) {
      const seen = run({ input, results });
      assertCold(seen);
      assert.ok(!seen.calls.includes("clone"));
    }
  });

  it("ignores that a directory exists, and that no process can be made", () => {
    const seen = run({ input, results: { mkdirat: [-Errno.EEXIST, -Errno.EEXIST], clone: [-Errno.EAGAIN] } });
    assertCold(seen);
  });

  it("ends the child silently where it would keep the caller's output or has no plugin", () => {
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

describe("cni/shim/program: STATUS", () => {
  const polled = ["CNI_CONTAINERID=", "CNI_COMMAND=STATUS", "CNI_PATH=/opt/cni/bin"];

  function poll(
    circumstances: Circumstances,
    variables: readonly string[] = polled,
    names: readonly string[] = args,
  ): Seen {
    const { kernel, seen } = shimKernel({ input, ...circumstances });
    interpret(shimProgram(parameters), processOf(parameters, names, variables), kernel);
    return seen();
  }

  /** Returns the file as the plugin writes it (cni/status/kept_answer.ts). */
  function kept(end: number, argv0 = "loopback", text = configuration): Uint8Array {
    const words = [...new TextEncoder().encode(`${argv0}\0`), ...text];
    return Uint8Array.from([...new Uint8Array(BigUint64Array.of(BigInt(end)).buffer), ...words]);
  }

  it("ends with 0 and asks no server where the plugin has kept its answer to the same name and configuration (STATUS-04)", () => {
    for (const uptime of [1000, 1001, 1059]) {
      const seen = poll({ keptAnswer: kept(1060), uptime });
      assert.deepEqual([seen.exitCode, seen.output, seen.executed, seen.request], [0, "", undefined, undefined]);
      const expected = "memfd_create read write read lseek dup3 close openat read clock_gettime pread64 exit_group";
      assert.deepEqual(seen.calls, expected.split(" "));
    }
  });

  it("executes the plugin with the directory for its answer, and starts no server, where no such answer is kept (STATUS-04)", () => {
    const cold = { path: "/opt/cni/bin/drawbridge-plugin", args: ["loopback", "/run/drawbridge-plugin"] };
    const other = new TextEncoder().encode('{"name":"m"}');
    const cases: readonly (readonly [what: string, keptAnswer: Uint8Array | undefined, uptime: number])[] = [
      ["none", undefined, 0],
      ["empty", new Uint8Array(), 0],
      ["a torn header", kept(1060).subarray(0, 8), 1000],
      ["a torn name", kept(1060).subarray(0, 12), 1000],
      ["torn words", kept(1060).subarray(0, -1), 1000],
      ["more words", Uint8Array.from([...kept(1060), 0x20]), 1000],
      ["ended", kept(1060), 1060],
      ["ended long ago", kept(1060), 5000],
      ["of another boot", kept(1060), 999],
      ["negative", new Uint8Array(64).fill(255), 1000],
      ["by another name", kept(1060, "drawbridge"), 1000],
      ["by a longer name", kept(1060, "loopback2"), 1000],
      ["other words", kept(1060, "loopback", other), 1000],
      ["larger than the buffer", Uint8Array.from([...kept(1060), ...new Uint8Array(70_000)]), 1000],
    ];
    for (const [what, keptAnswer, uptime] of cases) {
      const seen = poll({ ...(keptAnswer === undefined ? {} : { keptAnswer }), uptime });
      assert.deepEqual([seen.exitCode, seen.output], [undefined, ""], what);
      assert.deepEqual(seen.executed, { ...cold, environment: polled, files: filesWithMemory }, what);
      assert.ok(!seen.calls.includes("clone") && !seen.calls.includes("flock"), what);
    }
    for (const results of [{ clock_gettime: [-Errno.EINVAL] }, { pread64: [-Errno.EIO] }, { openat: [-Errno.ELOOP] }]) {
      assert.equal(poll({ keptAnswer: kept(1060), uptime: 1000, results }).executed?.path, cold.path);
    }
  });

  it("asks a running server as for any other call (STATUS-04)", () => {
    const seen = poll({ server: { answers: [254, 1], output: '{"code":50}\n' } });
    assert.deepEqual([seen.exitCode, seen.output], [1, '{"code":50}\n']);
    assert.equal(seen.request?.strings.includes("CNI_COMMAND=STATUS"), true);
  });

  it("answers no other verb with the kept answer: only the first whole CNI_COMMAND counts (STATUS-04)", () => {
    for (const variables of [
      ["CNI_COMMAND=ADD"],
      ["CNI_COMMAND=STATUSX"],
      ["CNI_COMMAND=STATU"],
      ["CNI_COMMAND="],
      ["CNI_COMMAND=ADD", "CNI_COMMAND=STATUS"],
      ["XCNI_COMMAND=STATUS"],
      ["CNI_COMMAN=STATUS"],
      ["", "CNI_COMMAND"],
      [],
    ]) {
      const seen = poll({ keptAnswer: kept(1060), uptime: 1000 }, variables);
      assert.deepEqual(seen.executed, { ...asCalled, environment: variables, files: filesWithMemory });
      assert.ok(seen.calls.includes("clone"));
    }
    assert.equal(poll({ keptAnswer: kept(1060), uptime: 1000 }, ["CNI_COMMAND=STATUS", "CNI_COMMAND=ADD"]).exitCode, 0);
  });
});
