import { DrawbridgeError } from "./error.ts";
import { readTextFile, writeAll } from "./file.ts";
import { Errno } from "./syscall/errno.ts";
import { type FileCalls, OpenFlag } from "./syscall/file_calls.ts";
import { check } from "./syscall/syscalls.ts";

/** Kernel settings under /proc/sys. Those under net/ belong to the calling thread's network namespace. */
export interface Sysctl {
  /** Returns the value without its newline, or undefined when the kernel has no such setting (IPv6 off, no module). */
  read(key: string): string | undefined;
  /** @returns false when the kernel lacks the setting */
  write(key: string, value: string): boolean;
}

/** The longest value in bytes: network settings are numbers and short names. */
const LONGEST_VALUE = 256;

const PLACE = "/proc/sys";
/**
 * The place where manifests/ mount the node's /proc/sys/net. The /proc/sys of a container that is not privileged is
 * read-only, whatever its capabilities.
 */
const MOUNTED_PLACE = "/host/proc/sys";

const encoder = new TextEncoder();

/**
 * Returns the settings of this machine.
 *
 * Keys use slashes ("net/ipv6/conf/eth0/accept_ra"), because interface names may contain dots.
 */
export function procSysctl(files: FileCalls): Sysctl {
  return {
    read: (key) => readTextFile(files, pathOf(key), LONGEST_VALUE)?.trimEnd(),
    write: (key, value) => {
      const path = pathOf(key);
      const fd = openWritable(files, path);
      if (fd === -Errno.ENOENT) return false;
      check(fd, `open ${path}`);
      try {
        writeAll(files, fd, encoder.encode(value), path);
        return true;
      } finally {
        files.close(fd);
      }
    },
  };
}

function openWritable(files: FileCalls, path: string): number {
  const flags = OpenFlag.WRONLY | OpenFlag.CLOEXEC;
  const fd = files.open(path, flags, 0);
  if (fd !== -Errno.EROFS) return fd;
  const mounted = files.open(path.replace(PLACE, MOUNTED_PLACE), flags, 0);
  return mounted === -Errno.ENOENT ? fd : mounted;
}

/** Returns a key's path. A part may be any interface name (dev_valid_name): no slash, no space, not "." or "..". */
function pathOf(key: string): string {
  if (/[\s\0]|(^|\/)\.{0,2}(\/|$)/.test(key)) {
    throw new DrawbridgeError(
      "ERR_CONFIGURATION",
      `sysctl: ${JSON.stringify(key)} is not a key; expected parts without spaces, none of them "." or "..", joined by slashes`,
    );
  }
  return `${PLACE}/${key}`;
}
