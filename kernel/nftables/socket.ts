import { NETLINK_NETFILTER } from "../netfilter/message.ts";
import { NetlinkError } from "../netlink/error.ts";
import { decodeBody } from "../netlink/message.ts";
import { NetlinkSocket } from "../netlink/socket.ts";
import type { Syscalls } from "../syscall/syscalls.ts";
import type { Change } from "./change.ts";
import { preparedRules, requestsOf } from "./change.ts";
import { elementPieces, readElements } from "./element_list.ts";
import { batchBegin, batchEnd, generationLayout, Message, nftablesRequest } from "./message.ts";
import type { Chain, Element, SetDefinition, TableReference } from "./object.ts";
import { explained } from "./refusal.ts";
import type { ChainState, RuleState, SetState, TableHead, TableState } from "./state.ts";
import { readChainAttributes, readChainRules, readSets, readTable, readTableHead } from "./state.ts";

/** Room for a batch: netlink takes it in one piece. 200,000 elements of a Service map are about 20 MB. */
const BUFFER_BYTES = 128 * 1024 * 1024;

/** Elements of a set as they are told. */
export type ElementPieces = Generator<readonly Element[], void, void>;

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
  /** Of {@link table} what is said of itself; undefined when there is none. */
  head(reference: TableReference): TableHead | undefined;
  /** Of {@link table} what is said of its chains, without their rules; none when there is no such table. */
  chains(reference: TableReference): readonly ChainState["attributes"][];
  /** Of {@link table} what is said of its sets; none when there is no such table. */
  sets(reference: TableReference): readonly SetState[];
  /** Of {@link table} the rules of one chain; none when there is no such chain. */
  rulesOf(reference: TableReference, chain: string): readonly RuleState[];
  /**
   * The elements of one set. A timeout is the one an element was given, not what is left of it; the set's own is left
   * out.
   */
  elements(reference: TableReference, set: SetDefinition): readonly Element[];
  /**
   * As {@link elements}, in pieces of some hundred between which anything may be committed. What is taken from this set
   * meanwhile hides others, and elements told twice are a sign of the same: the list has to be had again then. A piece is made
   * while the one before is taken, so it may have what is gone by now. There is one list at a time: another one ends it, and
   * so does its `return`.
   *
   * @throws NetlinkError ENOENT when there is no such set, or none any more
   */
  elementsInPieces(reference: TableReference, set: SetDefinition): ElementPieces;
  /** The number of the namespace's ruleset; every commit by anybody makes a new one. */
  generation(): number;
  close(): void;
}

/** The changes that remove a table; none where it is not there. @throws SyscallError when the kernel does not answer */
export function removalOf(kernel: Pick<Nftables, "head">, table: TableReference): readonly Change[] {
  return kernel.head(table) === undefined ? [] : [{ kind: "delete table", table }];
}

/** The kernel's nftables of the namespace the calling thread is in when it is opened. */
export class NftablesSocket implements Nftables {
  readonly #socket: NetlinkSocket;
  /** For lists that go on while other things are asked and committed. */
  readonly #lists: NetlinkSocket;
  #list: ElementPieces | undefined;
  readonly #prepared = preparedRules();

  /**
   * @param portId the number by which notifications name what this socket commits; the kernel chooses when absent
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

  /**
   * Makes the messages of a chain's rules now, for the next commit that adds these very rules.
   *
   * @throws DrawbridgeError ERR_NFTABLES_VALUE when one makes no sense
   */
  prepare(table: TableReference, chain: Pick<Chain, "name" | "rules">): void {
    this.#prepared.prepare(table, chain);
  }

  commit(changes: readonly Change[]): void {
    const requests = requestsOf(changes, this.#prepared);
    if (requests.length === 0) return;
    const replies = this.#socket.transaction([batchBegin(), ...requests, batchEnd()]);
    for (const reply of replies) if (reply.error !== undefined) throw explained(reply.request, reply.error);
  }

  table(reference: TableReference): TableState | undefined {
    return ifPresent(() => readTable(this.#socket, reference));
  }

  head(reference: TableReference): TableHead | undefined {
    return ifPresent(() => readTableHead(this.#socket, reference));
  }

  chains(reference: TableReference): readonly ChainState["attributes"][] {
    return readChainAttributes(this.#socket, reference);
  }

  sets(reference: TableReference): readonly SetState[] {
    return ifPresent(() => readSets(this.#socket, reference)) ?? [];
  }

  rulesOf(reference: TableReference, chain: string): readonly RuleState[] {
    return readChainRules(this.#socket, reference, chain);
  }

  elements(reference: TableReference, set: SetDefinition): readonly Element[] {
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
