import { Errno } from "../../kernel/syscall/errno.ts";
import type { MachineCalls } from "../../kernel/syscall/machine_calls.ts";

/** System calls, and what they have opened and not closed. */
export interface TrackedCalls {
  readonly syscalls: MachineCalls;
  /** Closes what is still open. */
  closeAll(): void;
}

/**
 * System calls for one call of the plugin. A process of its own leaves its sockets to the kernel at its end; a server of
 * thousands of calls must not.
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
      // One that is closed a second time may be another call's by now.
      close: (fd) => (open.delete(fd) ? syscalls.close(fd) : -Errno.EBADF),
    },
    closeAll: () => {
      for (const fd of open) syscalls.close(fd);
      open.clear();
    },
  };
}
