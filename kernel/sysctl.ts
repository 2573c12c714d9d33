import { DrawbridgeError } from "./error.ts";
import { readTextFile, writeAll } from "./file.ts";
import { Errno } from "./syscall/errno.ts";
import type { FileCalls } from "./syscall/file_calls.ts";
import { OpenFlag } from "./syscall/file_calls.ts";
import { check } from "./syscall/syscalls.ts";

/** Kernel settings under /proc/sys; those under net/ are of the network namespace the calling thread is in. */
export interface Sysctl {
  /** The value without its newline, or undefined when the kernel has no such setting (IPv6 off, module absent). */
  read(key: string): string | undefined;
  /** @returns false when the kernel has no such setting */
  write(key: string, value: string): boolean;
}

/** Of network settings, numbers and short names. */
const LONGEST_VALUE = 256;

const PLACE = "/proc/sys";
/**
 * Where manifests/ mount the node's `net` of it: a container that is not privileged has its own /proc/sys read-only, whatever
 * its capabilities.
 */
const MOUNTED_PLACE = "/host/proc/sys";

const encoder = new TextEncoder();

/**
 * The settings of this machine.
 *
 * Keys use slashes ("net/ipv6/conf/eth0/accept_ra"), since interface names may contain dots.
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

/** Settings in memory, for tests; a key that is not in the map is one the kernel lacks. */
export function fakeSysctl(settings: Map<string, string>): Sysctl {
  return {
    read: (key) => settings.get(key),
    write: (key, value) => {
      if (!settings.has(key)) return false;
      settings.set(key, value);
      return true;
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

/** A part is any name the kernel takes for an interface (dev_valid_name): no slash, no space, not "." or "..". */
function pathOf(key: string): string {
  if (/[\s\0]|(^|\/)\.{0,2}(\/|$)/.test(key)) {
    throw new DrawbridgeError(
      "ERR_CONFIGURATION",
      `sysctl: ${JSON.stringify(key)} is not a key; expected parts without spaces, none of them "." or "..", joined by slashes`,
    );
  }
  return `${PLACE}/${key}`;
}
