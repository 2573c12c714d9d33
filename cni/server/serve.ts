import { hasName, isPrivateDirectory } from "../../kernel/file.ts";
import { CLONE_NEWNET, currentNamespace, openNamespace } from "../../kernel/network_namespace.ts";
import { bunServerCalls } from "../../kernel/syscall/bun_server.ts";
import type { MachineCalls } from "../../kernel/syscall/machine_calls.ts";
import type { FileCalls } from "../../kernel/syscall/file_calls.ts";
import { DescriptorFlag } from "../../kernel/syscall/poll_calls.ts";
import type { ServerCalls } from "../../kernel/syscall/server_calls.ts";
import type { Syscalls } from "../../kernel/syscall/syscalls.ts";
import { check } from "../../kernel/syscall/syscalls.ts";
import { socketAddress } from "../../kernel/unix_stream.ts";
import { realWaiting } from "../../kernel/waiting.ts";
import type { MakeNode } from "./call.ts";
import { SOCKET_FILE } from "./protocol.ts";
import { PluginServer } from "./server.ts";

const AF_UNIX = 1;
const SOCK_SEQPACKET = 5;
/** Shims wait where it is full, by connect(2); the kernel may bound it further (net.core.somaxconn). */
const BACKLOG = 1024;

const LIMITS = { idleMilliseconds: 60_000, calls: 10_000 };

/**
 * The plugin server: started by the shim for the calls after its own, and alone, as it inherits the lock (cni/shim/program.ts).
 * Its first argument is the run directory, to which only root has access.
 *
 * @returns the exit code, when it is not needed any more
 */
export function serve(syscalls: MachineCalls, makeNode: MakeNode): number {
  const [, , directory] = process.argv;
  // Who could put something else there could have the server's place, and the descriptors its callers hand over.
  if (directory === undefined || !isPrivateDirectory(syscalls, directory, process.geteuid?.() ?? 0)) return 1;
  const calls = bunServerCalls();
  // The socket keeps it alive as long as the server, so that resting there keeps no other.
  const base = currentNamespace(syscalls);
  const server = new PluginServer(
    {
      syscalls,
      calls,
      makeNode,
      waiting: realWaiting,
      mounts: openNamespace(syscalls, "/proc/self/ns/mnt"),
      isCurrent: () => hasName(syscalls, "/proc/self/exe"),
      rest: () => void syscalls.setns(base.fd, CLONE_NEWNET),
    },
    listen(syscalls, calls, `${directory}/${SOCKET_FILE}`),
    LIMITS,
  );
  // A call by itself is over before compiled code could pay (test/setup/build.mjs), a server's calls are not.
  Bun.unsafe.setJITPolicy(1);
  server.run();
  return 0;
}

/** @throws SyscallError */
function listen(syscalls: Syscalls & FileCalls, calls: ServerCalls, path: string): number {
  // Whose it was has ended: the lock is ours.
  syscalls.unlink(path);
  const listener = check(
    syscalls.socket(AF_UNIX, SOCK_SEQPACKET | DescriptorFlag.CLOEXEC | DescriptorFlag.NONBLOCK, 0),
    `socket for ${path}`,
  );
  check(syscalls.bind(listener, socketAddress(path)), `bind ${path}`);
  check(calls.listen(listener, BACKLOG), `listen at ${path}`);
  return listener;
}
