import { setImmediate as turn } from "node:timers/promises";
import { deleteFlows } from "../../kernel/conntrack/flow_deletion.ts";
import { flowQuestions, isFlowOf } from "../../kernel/conntrack/flows_of_addresses.ts";
import { type Address, FAMILIES, familyOf } from "../../kernel/ip/address.ts";
import type { Machine } from "../machine.ts";
import { clientMap, clientPrefix } from "../services/rules/affinity_part.ts";
import { INET_TABLE } from "../ruleset/table_part.ts";
import { staleFlows } from "../../cni/node_rules/stale_flows.ts";
import type { AttachmentRecord } from "../../attachment/attachment.ts";

/** The kernel's memory of a pod's address, which the next pod with that address must not inherit (POD-20). */
export interface AddressMemory {
  /** Forgets the flows of any protocol from and to these addresses. @throws DrawbridgeError when the kernel refuses */
  forgetFlows(addresses: ReadonlySet<Address>): Promise<void>;
  /** Forgets the session affinity of these clients. @throws DrawbridgeError when the kernel refuses */
  forgetClients(addresses: ReadonlySet<Address>): void;
}

/** Forgets the addresses of pods that go together in one pass, since the kernel walks whole tables for it. */
export class AddressCleanup {
  readonly #memory: AddressMemory;
  #addresses = new Set<Address>();
  /** The pass that has not begun yet; further requests of this turn of the event loop join it. */
  #next: Promise<void> | undefined;

  constructor(memory: AddressMemory) {
    this.#memory = memory;
  }

  /** Resolves when nothing is remembered of these addresses. @throws DrawbridgeError when the kernel refuses */
  async forget(addresses: readonly Address[]): Promise<void> {
    if (addresses.length === 0) return;
    for (const address of addresses) this.#addresses.add(address);
    await (this.#next ??= turn().then(() => this.#run()));
  }

  async #run(): Promise<void> {
    const addresses = this.#addresses;
    this.#addresses = new Set();
    this.#next = undefined;
    await this.#memory.forgetFlows(addresses);
    this.#memory.forgetClients(addresses);
  }
}

/** Returns the memory of the kernel of this thread's network namespace. */
export function kernelAddressCleanup({ conntrack, ruleset }: Pick<Machine, "conntrack" | "ruleset">): AddressCleanup {
  return new AddressCleanup({
    forgetFlows: async (addresses) => {
      await deleteFlows(conntrack, flowQuestions(addresses), (flow) => isFlowOf(flow, addresses));
    },
    forgetClients: (addresses) => {
      for (const family of FAMILIES) {
        const clients = new Set(
          [...addresses]
            .filter((address) => familyOf(address) === family)
            .map((address) => clientPrefix(address).join()),
        );
        if (clients.size === 0) continue;
        ruleset.deleteWritten(INET_TABLE, clientMap(family), ({ key }) => {
          const fields = key.slice(0, family === 4 ? 1 : 2).filter((field) => typeof field !== "object");
          return clients.has(fields.join());
        });
      }
    },
  });
}

/** Deletes flows and other memory that the kernel keeps beyond the rules that created it. */
export interface FlowCleanup {
  /** Forgets the UDP flows that a new attachment's host ports now take over (R2). @throws SyscallError, NetlinkError */
  forgetOf(attachment: AttachmentRecord): Promise<void>;
  /** Forgets everything about a deleted attachment (R2, POD-20). @throws DrawbridgeError when the kernel refuses */
  forgetPod(attachment: AttachmentRecord): Promise<void>;
}

/**
 * Returns the connection tracking of this thread's network namespace. A new pod without published UDP ports costs no
 * request; otherwise the kernel walks its whole table, while the event loop goes on.
 */
export function kernelFlowCleanup({ syscalls, conntrack }: Machine, pods: AddressCleanup): FlowCleanup {
  return {
    forgetOf: async ({ policyd, portMappings: mappings, addresses }) => {
      if (policyd === undefined) return;
      const own = addresses.map(({ address }) => address);
      const { asked, isMeant } = staleFlows(syscalls, {
        mappings,
        addresses: own,
        serviceCidrs: policyd.serviceCidrs,
      });
      await deleteFlows(conntrack, asked, isMeant);
    },
    forgetPod: ({ addresses }) => pods.forget(addresses.map(({ address }) => address)),
  };
}
