import { setImmediate as turn } from "node:timers/promises";
import { deleteFlows } from "../../kernel/conntrack/flow_deletion.ts";
import { flowQuestions, isFlowOf } from "../../kernel/conntrack/flows_of_addresses.ts";
import { type Address, type Family, familyOf } from "../../kernel/ip/address.ts";
import type { Element } from "../../kernel/nftables/model/object.ts";
import { eachInTurns } from "../lib/sliced_work.ts";
import type { Machine } from "../machine.ts";
import { clientMap, clientPrefix } from "../services/rules/affinity_part.ts";
import { INET_TABLE } from "../ruleset/table_part.ts";
import { staleFlows } from "../../cni/node_rules/stale_flows.ts";
import type { AttachmentRecord } from "../../attachment/attachment.ts";

/** The number of entries that are looked up between two turns of the event loop. */
const AT_ONCE = 64;

/** The kernel's memory of a pod's address, which the next pod with that address must not inherit (POD-20). */
export interface AddressMemory {
  /** Forgets the flows of any protocol from and to these addresses. @throws DrawbridgeError when the kernel refuses */
  forgetFlows(addresses: ReadonlySet<Address>): Promise<void>;
  /** Forgets the session affinity of these clients. @throws DrawbridgeError when the kernel refuses */
  forgetClients(addresses: ReadonlySet<Address>): Promise<void>;
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
    await this.#memory.forgetClients(addresses);
  }
}

/**
 * Returns the memory of the kernel of this thread's network namespace.
 *
 * @param affinityPorts returns the numbers of the ports whose clients stay, as the keys of clients' entries have them
 */
export function kernelAddressCleanup(
  { conntrack, ruleset }: Pick<Machine, "conntrack" | "ruleset">,
  affinityPorts: () => Iterable<number>,
): AddressCleanup {
  return new AddressCleanup({
    forgetFlows: async (addresses) => {
      await deleteFlows(conntrack, flowQuestions(addresses), (flow) => isFlowOf(flow, addresses));
    },
    // The map may be too large to be listed, but the ports say which entries it may have.
    forgetClients: (addresses) =>
      eachInTurns(entriesOf(addresses, [...affinityPorts()]), ({ family, keys }) => {
        ruleset.deleteWritten(INET_TABLE, clientMap(family), keys);
      }),
  });
}

/** Yields the keys of the entries that clients may have, in pieces that are looked up within a few milliseconds. */
function* entriesOf(
  addresses: Iterable<Address>,
  ports: readonly number[],
): Generator<{ readonly family: Family; readonly keys: readonly Element["key"][] }> {
  for (const address of addresses) {
    const prefix = clientPrefix(address);
    for (let first = 0; first < ports.length; first += AT_ONCE) {
      const keys = ports.slice(first, first + AT_ONCE).map((port) => [...prefix, port]);
      yield { family: familyOf(address), keys };
    }
  }
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
