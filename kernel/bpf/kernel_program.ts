import { Errno } from "../syscall/errno.ts";
import { type FileReadCalls, OpenFlag } from "../syscall/file_calls.ts";
import { check } from "../syscall/syscalls.ts";
import { checksumProgram } from "./checksum_program.ts";
import { assembleBpf } from "./instruction.ts";
import { packetLayout } from "./packet_layout.ts";

/** The kernel's description of its types (CONFIG_DEBUG_INFO_BTF). */
const KERNEL_TYPES = "/sys/kernel/btf/vmlinux";

/**
 * Returns the program of {@link checksumProgram} for this kernel; undefined when it does not describe its packets.
 *
 * @throws SyscallError
 */
export function kernelChecksumProgram(files: FileReadCalls): Uint8Array | undefined {
  const fd = files.open(KERNEL_TYPES, OpenFlag.RDONLY | OpenFlag.CLOEXEC, 0);
  if (fd === -Errno.ENOENT) return undefined;
  check(fd, `open ${KERNEL_TYPES}`);
  try {
    const layout = packetLayout((start, end) => readPart(files, fd, start, end));
    return layout && assembleBpf(checksumProgram(layout));
  } finally {
    files.close(fd);
  }
}

function readPart(files: FileReadCalls, fd: number, start: number, end: number): Uint8Array {
  const buffer = new Uint8Array(Math.max(end - start, 0));
  let length = 0;
  while (length < buffer.length) {
    const count = files.pread(fd, buffer.subarray(length), start + length);
    if (count === 0) break;
    if (count !== -Errno.EINTR) length += check(count, `read ${KERNEL_TYPES}`);
  }
  return buffer.subarray(0, length);
}
