import { forgetFlowsOf } from "../../cni/stale_flows.ts";
import type { AttachmentRecord } from "../../ipam/attachment.ts";
import type { Address } from "../../kernel/ip/address.ts";
import type { FileReadCalls } from "../../kernel/syscall/file_calls.ts";
import type { Syscalls } from "../../kernel/syscall/syscalls.ts";
import type { PodMemory } from "./pod_memory.ts";

/** What the kernel remembers beyond the rules it was decided by. */
export interface FlowMemory {
  /** Forgets the UDP flows that a new attachment's ports have from now on (R2). @throws SyscallError, NetlinkError */
  forgetOf(attachment: AttachmentRecord): void;
  /** Forgets all there is of an attachment that has gone (R2, POD-20). @throws DrawbridgeError when the kernel refuses */
  forgetPod(attachment: AttachmentRecord): Promise<void>;
  /** Forgets the same of addresses. @throws DrawbridgeError when the kernel refuses */
  forgetAddresses(addresses: readonly Address[]): Promise<void>;
}

/**
 * The kernel's connection tracking of this thread's network namespace. For a new pod without published UDP ports it is
 * not asked; else the kernel goes through its whole table, which takes some 10 ms.
 */
export function kernelFlowMemory(syscalls: Syscalls & FileReadCalls, pods: PodMemory): FlowMemory {
  return {
    forgetOf: ({ policyd, portMappings: mappings, addresses }) => {
      if (policyd === undefined) return;
      const own = addresses.map(({ address }) => address);
      forgetFlowsOf(syscalls, { mappings, addresses: own, serviceCidrs: policyd.serviceCidrs });
    },
    forgetPod: ({ addresses }) => pods.forget(addresses.map(({ address }) => address)),
    forgetAddresses: (addresses) => pods.forget(addresses),
  };
}
