import { Errno } from "../../kernel/syscall/errno.ts";
import { LONGEST_OWN_PATH } from "./data.ts";
import { add, address, at, jumpIf, label, load, type Operation, set, store, subtract, system } from "./operation.ts";

export const STDIN = 0;
export const STDOUT = 1;

export const AT_FDCWD = -100;
const SLASH = 0x2f;

/** Repeats a system call if a signal interrupted it; the label stands before it. */
export function retried(again: string, call: Operation): readonly Operation[] {
  return [call, jumpIf("result", "==", -Errno.EINTR, again)];
}

/**
 * Receives a byte from the server into `cursor` and "answer"; continues at `none` without one, at `late` after a
 * timeout.
 */
export function readByte(name: string, none: string, late: string): readonly Operation[] {
  return [
    label(name),
    ...retried(name, system("recvfrom", "socket", address("answer"), 1, 0, 0, 0)),
    jumpIf("result", "==", -Errno.EAGAIN, late),
    jumpIf("result", "!=", 1, none),
    load(1, "cursor", address("answer")),
  ];
}

/**
 * Writes the `left` bytes, at least one, at `cursor`, in as many writes as needed; continues at `failed` if one fails.
 */
export function writeAll(name: string, file: number, failed: string): readonly Operation[] {
  return [
    label(name),
    ...retried(name, system("write", file, "cursor", "left")),
    jumpIf("result", "<=", 0, failed),
    add("cursor", "result"),
    subtract("left", "result"),
    jumpIf("left", ">", 0, name),
  ];
}

/** Sets `left` to envp, which comes after argc, argc pointers, and NULL. */
export function environmentPointer(): readonly Operation[] {
  return [
    load(8, "left", at("stack")),
    // Doubled three times: eight bytes each.
    add("left", "left"),
    add("left", "left"),
    add("left", "left"),
    add("left", "stack"),
    add("left", 16),
  ];
}

/**
 * Sets "plugin path" to the path of the plugin in the shim's directory, found by the shim's own path: proc(5),
 * /proc/self/exe. That is right even if the shim was called by a symbolic link, or by a path relative to another
 * directory.
 *
 * @param name for its labels
 */
export function pluginPath(name: string, failed: string): readonly Operation[] {
  return [
    system("readlinkat", AT_FDCWD, address("own executable"), address("plugin path"), LONGEST_OWN_PATH),
    jumpIf("result", "<=", 0, failed),
    // A path as long as the buffer may be truncated.
    jumpIf("result", ">=", LONGEST_OWN_PATH, failed),
    set("cursor", address("plugin path")),
    add("cursor", "result"),
    label(`${name}: back to the directory`),
    jumpIf("cursor", "<=", address("plugin path"), failed),
    add("cursor", -1),
    load(1, "left", at("cursor")),
    jumpIf("left", "!=", SLASH, `${name}: back to the directory`),
    set("left", address("plugin name")),
    label(`${name}: copy the name`),
    add("cursor", 1),
    load(1, "result", at("left")),
    store(1, at("cursor"), "result"),
    add("left", 1),
    jumpIf("result", "!=", 0, `${name}: copy the name`),
  ];
}
