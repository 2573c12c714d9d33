import type { Operation } from "./operation.ts";
import { add, address, at, jump, jumpIf, label, load, set, store, system } from "./operation.ts";
import { AT_FDCWD, environmentPointer, pluginPath } from "./program_part.ts";
import type { Machine } from "./system_call.ts";
import { noFollow } from "./system_call.ts";

const O_RDWR = 2;
const O_CREAT = 0o100;
const LOCK_EX = 2;
const LOCK_NB = 4;
const SIGCHLD = 17;
const HIGHEST_DESCRIPTOR = 0xffffffff;

/** The descriptor by which a server holds the lock; those above it are closed. */
const SERVER_LOCK = 3;

/**
 * Starts a server for the calls to come, unless one lives or another call just starts one.
 *
 * The lock belongs to the open file description, which the server inherits (flock(2)): it is held exactly as long as a server lives.
 * Whatever fails, the call itself goes on cold.
 */
export function serverStart(machine: Machine): readonly Operation[] {
  return [
    label("start server"),
    // Polls must not keep a server and its memory.
    load(8, "cursor", address("is status")),
    jumpIf("cursor", "!=", 0, "cold"),
    system("mkdirat", AT_FDCWD, address("parent directory"), 0o755),
    system("mkdirat", AT_FDCWD, address("run directory"), 0o700),
    system("openat", AT_FDCWD, address("lock file"), O_CREAT + O_RDWR + noFollow[machine], 0o600),
    jumpIf("result", "<", 0, "cold"),
    set("file", "result"),
    system("flock", "file", LOCK_EX + LOCK_NB),
    jumpIf("result", "<", 0, "leave the lock"),
    // As fork(2): a copy of everything. The order of the arguments differs between the machines, but all others are zero.
    system("clone", SIGCHLD, 0, 0, 0, 0),
    jumpIf("result", "!=", 0, "leave the lock"),
    ...server,
    label("leave the lock"),
    system("close", "file"),
    jump("cold"),
  ];
}

/** The child: a daemon with nothing of the caller's but its user and its namespaces. */
const server: readonly Operation[] = [
  system("setsid"),
  jumpIf("file", "==", SERVER_LOCK, "leave standard files"),
  system("dup3", "file", SERVER_LOCK, 0),
  jumpIf("result", "<", 0, "fail"),
  label("leave standard files"),
  system("openat", AT_FDCWD, address("null device"), O_RDWR, 0),
  // A server that kept the caller's standard output would keep the caller waiting for its end.
  jumpIf("result", "<", 0, "fail"),
  set("cursor", "result"),
  // Where it has such a number already, that one fails (EINVAL), and is right.
  system("dup3", "cursor", 0, 0),
  system("dup3", "cursor", 1, 0),
  system("dup3", "cursor", 2, 0),
  // Linux before 5.9 does not have it: then the server keeps what the caller forgot to close.
  system("close_range", SERVER_LOCK + 1, HIGHEST_DESCRIPTOR, 0),
  system("chdir", address("root directory")),
  ...pluginPath("server", "fail"),
  system("execve", address("plugin path"), address("server arguments"), address("server environment")),
  jump("fail"),
];

/** Cold: the plugin itself, in the shim's place, with its arguments and environment; for a STATUS the run directory is the only argument. */
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
