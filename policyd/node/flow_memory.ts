import { forgetFlowsOf, forgetFlowsTo } from "../../cni/stale_flows.ts";
import type { AttachmentRecord } from "../../ipam/attachment.ts";
import type { Syscalls } from "../../kernel/syscall/syscalls.ts";

/** What the kernel remembers of UDP flows beyond the rules they were decided by (R2). */
export interface FlowMemory {
  /** Forgets the flows that a new attachment's ports have from now on. @throws SyscallError, NetlinkError */
  forgetOf(attachment: AttachmentRecord): void;
  /** Forgets the flows to the ports of an attachment that has gone. @throws SyscallError, NetlinkError */
  forgetTo(attachment: AttachmentRecord): void;
}

/**
 * The kernel's connection tracking of this thread's network namespace. Without published UDP ports it is not asked;
 * else the kernel goes through its whole table, which takes some 10 ms.
 */
export function kernelFlowMemory(syscalls: Syscalls): FlowMemory {
  return {
    forgetOf: ({ policyd, portMappings: mappings, addresses }) => {
      if (policyd === undefined) return;
      const own = addresses.map(({ address }) => address);
      forgetFlowsOf(syscalls, { mappings, addresses: own, serviceCidrs: policyd.serviceCidrs });
    },
    forgetTo: ({ policyd, portMappings: mappings, addresses }) => {
      if (policyd === undefined) return;
      const own = addresses.map(({ address }) => address);
      forgetFlowsTo(syscalls, mappings, own);
    },
  };
}
