import { add, address, at, jump, jumpIf, label, load, type Operation, set, store, system } from "./operation.ts";
import { AT_FDCWD, environmentPointer, pluginPath } from "./program_part.ts";
import { type Machine, noFollow } from "./system_call.ts";

const O_RDWR = 2;
const O_CREAT = 0o100;
const LOCK_EX = 2;
const LOCK_NB = 4;
const SIGCHLD = 17;
const HIGHEST_DESCRIPTOR = 0xffffffff;

/** The descriptor with which a server holds the lock; those above it are closed. */
const SERVER_LOCK = 3;

/**
 * Starts a server for the next calls, unless one lives or another call is just starting one.
 *
 * The lock belongs to the open file description, which the server inherits (flock(2)): it is held exactly as long as a
 * server lives. After any failure, the call itself continues cold.
 */
export function serverStart(machine: Machine): readonly Operation[] {
  return [
    label("start server"),
    // Polls must not keep a server and its memory alive.
    load(8, "cursor", address("is status")),
    jumpIf("cursor", "!=", 0, "cold"),
    system("mkdirat", AT_FDCWD, address("parent directory"), 0o755),
    system("mkdirat", AT_FDCWD, address("run directory"), 0o700),
    system("openat", AT_FDCWD, address("lock file"), O_CREAT + O_RDWR + noFollow[machine], 0o600),
    jumpIf("result", "<", 0, "cold"),
    set("file", "result"),
    system("flock", "file", LOCK_EX + LOCK_NB),
    jumpIf("result", "<", 0, "leave the lock"),
    // Like fork(2), a copy of everything. The machines differ in the order of the arguments, but all others are zero.
    system("clone", SIGCHLD, 0, 0, 0, 0),
    jumpIf("result", "!=", 0, "leave the lock"),
    ...server,
    label("leave the lock"),
    system("close", "file"),
    jump("cold"),
  ];
}

/** The child: a daemon that keeps only the caller's user and namespaces. */
const server: readonly Operation[] = [
  system("setsid"),
  jumpIf("file", "==", SERVER_LOCK, "leave standard files"),
  system("dup3", "file", SERVER_LOCK, 0),
  jumpIf("result", "<", 0, "fail"),
  label("leave standard files"),
  system("openat", AT_FDCWD, address("null device"), O_RDWR, 0),
  // A server with the caller's standard output would make the caller wait for its end.
  jumpIf("result", "<", 0, "fail"),
  set("cursor", "result"),
  // If it already has one of these numbers, that dup3 fails (EINVAL), and nothing needs to be done.
  system("dup3", "cursor", 0, 0),
  system("dup3", "cursor", 1, 0),
  system("dup3", "cursor", 2, 0),
  // Linux before 5.9 does not have it; the server then keeps descriptors that the caller left open.
  system("close_range", SERVER_LOCK + 1, HIGHEST_DESCRIPTOR, 0),
  system("chdir", address("root directory")),
  ...pluginPath("server", "fail"),
  system("execve", address("plugin path"), address("server arguments"), address("server environment")),
  jump("fail"),
];

/** Cold: executes the plugin in the shim's place, as called; for a STATUS, with only the run directory as argument. */
export const plugin: readonly Operation[] = [
  label("cold"),
  ...pluginPath("plugin", "no plugin"),
  ...environmentPointer(),
  load(8, "cursor", address("is status")),
  jumpIf("cursor", "==", 0, "as called"),
  load(8, "cursor", at("stack", 8)),
  store(8, address("status arguments"), "cursor"),
  set("cursor", address("status arguments")),
  jump("execute"),
  label("as called"),
  set("cursor", "stack"),
  add("cursor", 8),
  label("execute"),
  system("execve", address("plugin path"), "cursor", "left"),
  jump("no plugin"),
];
