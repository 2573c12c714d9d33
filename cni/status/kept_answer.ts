import { systemFileSystem } from "../../ipam/file_system.ts";
import { isPrivateDirectory, writeAll } from "../../kernel/file.ts";
import { DrawbridgeError } from "../../kernel/error.ts";
import { type FileCalls, OpenFlag } from "../../kernel/syscall/file_calls.ts";
import { KEPT_ANSWER_FILE, KEPT_ANSWER_HEADER, KEPT_ANSWER_LIFE, LONGEST_KEPT_ANSWER } from "../server/protocol.ts";
import { uptime } from "./failure_record.ts";

/**
 * Stores the answer "all is well" for the shim, which gives it to further polls with the same name and configuration:
 * the kubelet polls STATUS every few seconds, and this process takes many times as long as the shim (STATUS-04).
 *
 * The file holds the time at which the answer expires (seconds since the boot, 64 bits), argv 0 with its NUL, and the
 * configuration. It is written whole under another name and renamed. STATUS reports an ADD's failure after a minute,
 * and no answer is valid for longer than that, so such a failure is not reported late. A failure that only STATUS finds
 * is recorded by the first poll after the answer has expired, and so reported up to two minutes after it began. If no
 * answer can be stored, the next poll asks again.
 *
 * @param directory the run directory, to which only this user has access
 */
export function keepAnswer(syscalls: FileCalls, directory: string, argv0: string, stdin: string): void {
  const files = systemFileSystem(syscalls);
  const now = uptime({ syscalls });
  const words = new TextEncoder().encode(`${argv0}\0${stdin}`);
  const answer = new Uint8Array(KEPT_ANSWER_HEADER + words.length);
  if (now === undefined || answer.length > LONGEST_KEPT_ANSWER) return;
  new DataView(answer.buffer).setBigUint64(0, BigInt(Math.floor(now) + KEPT_ANSWER_LIFE), true);
  answer.set(words, KEPT_ANSWER_HEADER);
  try {
    files.makeDirectory(directory, 0o700);
    if (!isPrivateDirectory(syscalls, directory, process.geteuid?.() ?? 0)) return;
    // Concurrent calls use different names; one that a killed call left is removed.
    const scratch = `${directory}/.${KEPT_ANSWER_FILE}.${process.pid}`;
    files.unlink(scratch);
    if (!writeNew(syscalls, scratch, answer)) return;
    files.rename(scratch, `${directory}/${KEPT_ANSWER_FILE}`);
  } catch (error) {
    if (!(error instanceof DrawbridgeError)) throw error;
  }
}

function writeNew(syscalls: FileCalls, path: string, bytes: Uint8Array): boolean {
  const flags = OpenFlag.WRONLY | OpenFlag.CREAT | OpenFlag.EXCL | OpenFlag.NOFOLLOW | OpenFlag.CLOEXEC;
  const fd = syscalls.open(path, flags, 0o600);
  if (fd < 0) return false;
  try {
    writeAll(syscalls, fd, bytes, path);
    return true;
  } finally {
    syscalls.close(fd);
  }
}
