import { forgetFlowsOf } from "../../cni/node_rules/stale_flows.ts";
import type { AttachmentRecord } from "../../attachment/attachment.ts";
import type { Address } from "../../kernel/ip/address.ts";
import type { FileReadCalls } from "../../kernel/syscall/file_calls.ts";
import type { Syscalls } from "../../kernel/syscall/syscalls.ts";
import type { AddressCleanup } from "./address_cleanup.ts";

/** Deletes flows and other memory that the kernel keeps beyond the rules that created it. */
export interface FlowCleanup {
  /** Forgets the UDP flows that a new attachment's host ports now take over (R2). @throws SyscallError, NetlinkError */
  forgetOf(attachment: AttachmentRecord): void;
  /** Forgets everything about a deleted attachment (R2, POD-20). @throws DrawbridgeError when the kernel refuses */
  forgetPod(attachment: AttachmentRecord): Promise<void>;
  /** Does the same for addresses. @throws DrawbridgeError when the kernel refuses */
  forgetAddresses(addresses: readonly Address[]): Promise<void>;
}

/**
 * Returns the connection tracking of this thread's network namespace. A new pod without published UDP ports costs no
 * request; otherwise the kernel walks its whole table, which takes some 10 ms.
 */
export function kernelFlowCleanup(syscalls: Syscalls & FileReadCalls, pods: AddressCleanup): FlowCleanup {
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
