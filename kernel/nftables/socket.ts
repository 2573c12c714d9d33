import { NETLINK_NETFILTER } from "../netlink/netfilter_message.ts";
import { NetlinkError } from "../netlink/error.ts";
import { decodeBody } from "../netlink/message.ts";
import { NetlinkSocket } from "../netlink/socket.ts";
import type { Syscalls } from "../syscall/syscalls.ts";
import { type Change, requestsOf } from "./encode/change.ts";
import { elementPieces, readElements, readElementsAt } from "./decode/element_list.ts";
import { batchBegin, batchEnd, generationLayout, Message, nftablesRequest } from "./encode/message.ts";
import type { Element, SetDefinition, TableReference } from "./model/object.ts";
import { explained } from "./decode/refusal.ts";
import {
  type ChainState,
  readChains,
  readRules,
  readSets,
  readTableHead,
  type RuleState,
  type SetState,
  type TableHead,
} from "./decode/state.ts";

/** Room for a batch, which netlink takes in one piece. 200,000 elements of a Service map are about 20 MB. */
const BUFFER_BYTES = 128 * 1024 * 1024;

/** Elements of a set in the pieces that the kernel sends. */
export type ElementPieces = Generator<readonly Element[], void, void>;

/** Writes and reads the tables of one network namespace. */
export interface Nftables {
  /**
   * Applies all of the changes as one, or none of them.
   *
   * @throws NetlinkError the kernel's first refusal, which names the object and the element
   * @throws DrawbridgeError ERR_NFTABLES_VALUE when a change is invalid; nothing was sent
   * @throws SyscallError when sending or receiving failed; whether the batch took effect is then unknown
   */
  commit(changes: readonly Change[]): void;
  /** Returns a table's own data; undefined when there is no such table. */
  head(reference: TableReference): TableHead | undefined;
  /** Returns the chains of a table without their rules; none when there is no such table. */
  chains(reference: TableReference): readonly ChainState[];
  /** Returns the sets of a table without their elements; none when there is no such table. */
  sets(reference: TableReference): readonly SetState[];
  /** Returns the rules of a chain; none when there is no such chain. */
  rulesOf(reference: TableReference, chain: string): readonly RuleState[];
  /**
   * Returns the elements of one set, or those with some keys. An element's timeout is the full one, not the remaining
   * time, and is omitted when it is the set's own.
   */
  elements(reference: TableReference, set: SetDefinition, keys?: readonly Element["key"][]): readonly Element[];
  /**
   * Yields {@link elements} in pieces of some hundred, between which anything may be committed. Elements that are
   * deleted from this set meanwhile hide others, and repeated elements are a sign of the same: then the list must be
   * read again. A piece is made when the previous one is taken, so it may contain elements that have gone since. There
   * is one list at a time: starting another one ends it, and so does its `return`.
   *
   * @throws NetlinkError ENOENT when there is no such set, or when it was deleted meanwhile
   */
  elementsInPieces(reference: TableReference, set: SetDefinition): ElementPieces;
  /** Returns the number of the namespace's ruleset, which every commit by any program changes. */
  generation(): number;
  close(): void;
}

/** Returns the changes that remove a table; none without it. @throws SyscallError when the kernel does not answer */
export function removalOf(kernel: Pick<Nftables, "head">, table: TableReference): readonly Change[] {
  return kernel.head(table) === undefined ? [] : [{ kind: "delete table", table }];
}

/** The kernel's nftables in the namespace that the calling thread is in when it opens the socket. */
export class NftablesSocket implements Nftables {
  readonly #socket: NetlinkSocket;
  /** For lists that continue while other requests and commits are made. */
  readonly #lists: NetlinkSocket;
  #list: ElementPieces | undefined;

  /**
   * @param portId the number by which notifications name this socket's commits; chosen by the kernel when absent
   * @throws SyscallError without CAP_NET_ADMIN or without nftables in the kernel
   */
  constructor(syscalls: Syscalls, portId?: number) {
    const port = portId === undefined ? {} : { portId };
    this.#socket = new NetlinkSocket(syscalls, NETLINK_NETFILTER, { bufferBytes: BUFFER_BYTES, ...port });
    try {
      this.#lists = new NetlinkSocket(syscalls, NETLINK_NETFILTER);
    } catch (error) {
      this.#socket.close();
      throw error;
    }
  }

  commit(changes: readonly Change[]): void {
    const requests = requestsOf(changes);
    if (requests.length === 0) return;
    const replies = this.#socket.transaction([batchBegin(), ...requests, batchEnd()]);
    for (const reply of replies) if (reply.error !== undefined) throw explained(reply.request, reply.error);
  }

  head(reference: TableReference): TableHead | undefined {
    return ifPresent(() => readTableHead(this.#socket, reference));
  }

  chains(reference: TableReference): readonly ChainState[] {
    return readChains(this.#socket, reference);
  }

  sets(reference: TableReference): readonly SetState[] {
    return ifPresent(() => readSets(this.#socket, reference)) ?? [];
  }

  rulesOf(reference: TableReference, chain: string): readonly RuleState[] {
    return readRules(this.#socket, reference, chain);
  }

  elements(reference: TableReference, set: SetDefinition, keys?: readonly Element["key"][]): readonly Element[] {
    if (keys !== undefined) return readElementsAt(this.#socket, reference, set, keys);
    return readElements(this.#socket, reference, set);
  }

  elementsInPieces(reference: TableReference, set: SetDefinition): ElementPieces {
    this.#list?.return();
    this.#list = elementPieces(this.#lists, reference, set);
    return this.#list;
  }

  generation(): number {
    const kind = { message: Message.GET_GENERATION, family: undefined, layout: generationLayout };
    const [message] = this.#socket.request(nftablesRequest("get nftables generation", kind, {}));
    return message === undefined ? 0 : (decodeBody(generationLayout, message.body).attributes.id ?? 0);
  }

  close(): void {
    this.#socket.close();
    this.#lists.close();
  }
}

function ifPresent<T>(read: () => T): T | undefined {
  try {
    return read();
  } catch (error) {
    if (error instanceof NetlinkError && error.errnoName === "ENOENT") return undefined;
    throw error;
  }
}
