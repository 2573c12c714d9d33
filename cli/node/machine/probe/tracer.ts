import { INET_TABLE } from "../../../../attachment/our_tables.ts";
import { type Address, addressFromValue, type Family, FAMILIES } from "../../../../kernel/ip/address.ts";
import { decodeMessages } from "../../../../kernel/netlink/message.ts";
import { NETLINK_NETFILTER, NetfilterGroup } from "../../../../kernel/netlink/netfilter_message.ts";
import { parseTrace, type TraceEvent } from "../../../../kernel/nftables/decode/trace.ts";
import { tableChanges } from "../../../../kernel/nftables/encode/change.ts";
import type { Element } from "../../../../kernel/nftables/model/object.ts";
import { NftablesSocket } from "../../../../kernel/nftables/socket.ts";
import { NotificationSocket } from "../../../../kernel/notifications/socket.ts";
import type { SourcePlan } from "../../../../kernel/notifications/source.ts";
import type { MachineCalls } from "../../../../kernel/syscall/machine_calls.ts";
import type { NamespaceCalls } from "../../../../kernel/syscall/namespace_calls.ts";
import type { PollCalls } from "../../../../kernel/syscall/poll_calls.ts";
import { byAddress, nameOf } from "../../../../policyd/services/rules/frontend_kind.ts";
import { ADDRESS_SETS, frontendSets } from "../../../../policyd/services/rules/frontend_sets.ts";
import { traceTables } from "../../doctor/probe/trace_table.ts";

/** The calls of a probe, which makes namespaces and receives notifications. */
export type ProbeCalls = MachineCalls & NamespaceCalls & Pick<PollCalls, "attachFilter">;

const PIECE = 64 * 1024;
const PLAN: SourcePlan = {
  protocol: NETLINK_NETFILTER,
  groups: [NetfilterGroup.NFTABLES_TRACE],
  requests: [],
  tellsState: false,
  receiveBufferBytes: 128 * PIECE,
};

/** The tables that trace packets, and the kernel's notifications about these. */
export class Tracer {
  readonly #nftables: NftablesSocket;
  readonly #notifications: NotificationSocket;

  constructor(calls: ProbeCalls, ports: { readonly first: number; readonly last: number }) {
    this.#nftables = new NftablesSocket(calls);
    try {
      this.#nftables.commit(traceTables(ports).flatMap((table) => tableChanges(table, new Map())));
      this.#notifications = new NotificationSocket(calls, PLAN, new Uint8Array(PIECE));
    } catch (error) {
      this.#nftables.close();
      throw error;
    }
  }

  /** Returns the events since the last call. */
  events(): readonly TraceEvent[] {
    const found: TraceEvent[] = [];
    for (;;) {
      const reading = this.#notifications.read();
      if (reading.kind === "nothing") return found;
      if (reading.kind !== "datagram") continue;
      found.push(...[...decodeMessages(reading.datagram)].flatMap((message) => parseTrace(message) ?? []));
    }
  }

  /** Returns the frontends of Services with endpoints by TCP: those of port 443, as the API server has it, first. */
  services(): readonly { readonly address: Address; readonly port: number }[] {
    const found = FAMILIES.flatMap((family) => this.#servicesOf(family));
    return found.toSorted(
      (a, b) => Number(b.port === 443) - Number(a.port === 443) || (a.address < b.address ? -1 : 1),
    );
  }

  #servicesOf(family: Family): readonly { readonly address: Address; readonly port: number }[] {
    const cluster = new Set(this.#elements(`${ADDRESS_SETS.cluster}${family}`).map(({ key: [address] }) => address));
    return this.#elements(nameOf("", byAddress(family))).flatMap(({ key: [value, protocol, port] }) => {
      const isNumber = typeof value === "number" || typeof value === "bigint";
      if (!isNumber || !cluster.has(value) || protocol !== "tcp" || typeof port !== "number") return [];
      const address = addressFromValue(family, BigInt(value));
      return address === undefined ? [] : [{ address, port }];
    });
  }

  #elements(name: string): readonly Element[] {
    const set = frontendSets().sets.find((one) => one.name === name);
    if (set === undefined || this.#nftables.head(INET_TABLE) === undefined) return [];
    return this.#nftables.elements(INET_TABLE, set);
  }

  close(): void {
    this.#notifications.close();
    this.#nftables.close();
  }
}
