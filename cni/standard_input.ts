import { readAll } from "../kernel/file.ts";
import type { FileReadCalls } from "../kernel/syscall/file_calls.ts";
import { CniError, CniErrorCode } from "./error.ts";

/** The largest input, which bounds the memory a broken caller can use. A configuration is a few kilobytes. */
export const LONGEST_STDIN = 4 * 1024 * 1024;

/** Reads the network configuration. @throws CniError 5 */
export function readStdin(files: FileReadCalls, fd: number): string {
  try {
    return readAll(files, fd, LONGEST_STDIN, "standard input");
  } catch (error) {
    throw new CniError(CniErrorCode.IO_FAILURE, error instanceof Error ? error.message : String(error));
  }
}
