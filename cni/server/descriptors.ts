import { Errno } from "../../kernel/syscall/errno.ts";
import type { MachineCalls } from "../../kernel/syscall/machine_calls.ts";

/** System calls, and the descriptors that they opened and did not close. */
export interface TrackedCalls {
  readonly syscalls: MachineCalls;
  /** Closes the descriptors that are still open. */
  closeAll(): void;
}

/**
 * Tracks the descriptors of one call of the plugin. A separate process leaves its sockets to the kernel when it ends; a
 * server of thousands of calls must not.
 */
export function trackDescriptors(syscalls: MachineCalls): TrackedCalls {
  const open = new Set<number>();
  const opened = (fd: number): number => {
    if (fd >= 0) open.add(fd);
    return fd;
  };
  return {
    syscalls: {
      ...syscalls,
      socket: (domain, type, protocol) => opened(syscalls.socket(domain, type, protocol)),
      open: (path, flags, mode) => opened(syscalls.open(path, flags, mode)),
      openBpf: (command, attributes, arrays) => opened(syscalls.openBpf(command, attributes, arrays)),
      // Closed a second time, the number may be another call's by now.
      close: (fd) => (open.delete(fd) ? syscalls.close(fd) : -Errno.EBADF),
    },
    closeAll: () => {
      for (const fd of open) syscalls.close(fd);
      open.clear();
    },
  };
}
