import { hasName, isPrivateDirectory } from "../../kernel/file.ts";
import { CLONE_NEWNET, currentNamespace, openNamespace } from "../../kernel/network_namespace.ts";
import { bunServerCalls } from "../../kernel/syscall/bun_server.ts";
import type { MachineCalls } from "../../kernel/syscall/machine_calls.ts";
import type { FileCalls } from "../../kernel/syscall/file_calls.ts";
import { DescriptorFlag } from "../../kernel/syscall/poll_calls.ts";
import type { ServerCalls } from "../../kernel/syscall/server_calls.ts";
import { check, type Syscalls } from "../../kernel/syscall/syscalls.ts";
import { socketAddress } from "../../kernel/unix_stream.ts";
import { realWaiting } from "../../kernel/resumable_work.ts";
import type { MakeNode } from "./call.ts";
import { SOCKET_FILE } from "./protocol.ts";
import { PluginServer } from "./server.ts";

const AF_UNIX = 1;
const SOCK_SEQPACKET = 5;
/** If the backlog is full, shims wait in connect(2); the kernel may limit it further (net.core.somaxconn). */
const BACKLOG = 1024;

const LIMITS = { idleMilliseconds: 60_000, calls: 10_000 };

/**
 * Runs the plugin server. The shim starts it for the calls after its own; it is the only one, since it inherits the
 * lock (cni/shim/program.ts). Its first argument is the run directory, to which only root has access.
 *
 * @returns the exit code, when the server is not needed any more
 */
export function serve(syscalls: MachineCalls, makeNode: MakeNode): number {
  const [, , directory] = process.argv;
  // A user who could put other files there could take the server's place, and the descriptors of its callers.
  if (directory === undefined || !isPrivateDirectory(syscalls, directory, process.geteuid?.() ?? 0)) return 1;
  const calls = bunServerCalls();
  // The socket keeps this namespace alive as long as the server, so resting in it keeps no other one alive.
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
  // A single call ends before compiled code pays off (test/setup/build.mjs); a server's many calls do not.
  Bun.unsafe.setJITPolicy(1);
  server.run();
  return 0;
}

/** @throws SyscallError */
function listen(syscalls: Syscalls & FileCalls, calls: ServerCalls, path: string): number {
  // The socket's former owner has ended, since this process holds the lock.
  syscalls.unlink(path);
  const listener = check(
    syscalls.socket(AF_UNIX, SOCK_SEQPACKET | DescriptorFlag.CLOEXEC | DescriptorFlag.NONBLOCK, 0),
    `socket for ${path}`,
  );
  check(syscalls.bind(listener, socketAddress(path)), `bind ${path}`);
  check(calls.listen(listener, BACKLOG), `listen at ${path}`);
  return listener;
}
