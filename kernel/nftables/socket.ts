import { NETLINK_NETFILTER } from "../netfilter/message.ts";
import { NetlinkError } from "../netlink/error.ts";
import { decodeBody } from "../netlink/message.ts";
import { NetlinkSocket } from "../netlink/socket.ts";
import type { Syscalls } from "../syscall/syscalls.ts";
import type { Change } from "./change.ts";
import { requestsOf } from "./change.ts";
import { batchBegin, batchEnd, generationLayout, Message, nftablesRequest } from "./message.ts";
import type { Element, SetDefinition, TableReference } from "./object.ts";
import { explained } from "./refusal.ts";
import type { TableHead, TableState } from "./state.ts";
import { readElements, readTable, readTableHead } from "./state.ts";

/** Room for a batch: netlink takes it in one piece. 200,000 elements of a Service map are about 20 MB. */
const BUFFER_BYTES = 128 * 1024 * 1024;

/** What writes and reads the tables of one network namespace. */
export interface Nftables {
  /**
   * Applies the changes as one: all of them, or none.
   *
   * @throws NetlinkError the kernel's first refusal; it names the object, and the element
   * @throws DrawbridgeError ERR_NFTABLES_VALUE when a change makes no sense; nothing was sent
   * @throws SyscallError when sending or receiving failed; whether the batch took effect is then unknown
   */
  commit(changes: readonly Change[]): void;
  /** What the kernel has under a table's name, without the elements of its sets; undefined when there is none. */
  table(reference: TableReference): TableState | undefined;
  /**
   * The elements of one set. A timeout is the one an element was given, not what is left of it; the set's own is left
   * out.
   */
  elements(reference: TableReference, set: SetDefinition): readonly Element[];
  /** The number of the namespace's ruleset; every commit by anybody makes a new one. */
  generation(): number;
  close(): void;
}

/** The kernel's nftables of the namespace the calling thread is in when it is opened. */
export class NftablesSocket implements Nftables {
  readonly #socket: NetlinkSocket;

  /**
   * @param portId the number by which notifications name what this socket commits; the kernel chooses when absent
   * @throws SyscallError without CAP_NET_ADMIN or without nftables in the kernel
   */
  constructor(syscalls: Syscalls, portId?: number) {
    const port = portId === undefined ? {} : { portId };
    this.#socket = new NetlinkSocket(syscalls, NETLINK_NETFILTER, { bufferBytes: BUFFER_BYTES, ...port });
  }

  commit(changes: readonly Change[]): void {
    const requests = requestsOf(changes);
    if (requests.length === 0) return;
    const replies = this.#socket.transaction([batchBegin(), ...requests, batchEnd()]);
    for (const reply of replies) if (reply.error !== undefined) throw explained(reply.request, reply.error);
  }

  table(reference: TableReference): TableState | undefined {
    try {
      return readTable(this.#socket, reference);
    } catch (error) {
      if (error instanceof NetlinkError && error.errnoName === "ENOENT") return undefined;
      throw error;
    }
  }

  /** Of {@link table} what one request tells; undefined when there is none. */
  head(reference: TableReference): TableHead | undefined {
    try {
      return readTableHead(this.#socket, reference);
    } catch (error) {
      if (error instanceof NetlinkError && error.errnoName === "ENOENT") return undefined;
      throw error;
    }
  }

  elements(reference: TableReference, set: SetDefinition): readonly Element[] {
    return readElements(this.#socket, reference, set);
  }

  generation(): number {
    const kind = { message: Message.GET_GENERATION, family: undefined, layout: generationLayout };
    const [message] = this.#socket.request(nftablesRequest("get nftables generation", kind, {}));
    return message === undefined ? 0 : (decodeBody(generationLayout, message.body).attributes.id ?? 0);
  }

  close(): void {
    this.#socket.close();
  }
}
