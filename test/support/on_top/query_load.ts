import { type Address, familyOf, formatAddress } from "../../../kernel/ip/address.ts";
import type { LabNamespace } from "../../lab/namespace.ts";
import { bindToNew } from "../../lab/probe/new_port.ts";
import type { Poller } from "../../lab/probe/poller.ts";
import { ProbeSocket, SocketType } from "../../lab/probe/socket.ts";
import { WHOAMI } from "./dns_server.ts";

/** Types of records (RFC 1035, RFC 3596). */
const RecordType = { A: 1, TXT: 16, AAAA: 28 } as const;

const HEADER_SIZE = 12;
const RECURSION_DESIRED = 0x0100;
const TRUNCATED = 0x0200;
const CLASS_IN = 1;
const OPT = 41;
/** The two bits that mark a name that continues elsewhere, which takes two bytes in all. */
const POINTER = 0xc0;

/**
 * Encodes a query for one name (RFC 1035 §4), with an EDNS record where the client accepts larger datagrams (RFC 6891).
 */
function encodeQuery(id: number, name: string, type: number, largestDatagram = 0): Uint8Array {
  const labels = name.split(".").flatMap((label) => [label.length, ...Buffer.from(label, "latin1")]);
  const extra = largestDatagram === 0 ? [] : [0, ...word(OPT), ...word(largestDatagram), 0, 0, 0, 0, 0, 0];
  return Uint8Array.from([
    ...word(id),
    ...word(RECURSION_DESIRED),
    ...word(1),
    ...word(0),
    ...word(0),
    ...word(extra.length === 0 ? 0 : 1),
    ...labels,
    0,
    ...word(type),
    ...word(CLASS_IN),
    ...extra,
  ]);
}

/** The parts of an answer that the tests read. */
interface DnsAnswer {
  readonly id: number;
  readonly isTruncated: boolean;
  /** 0 for success (RFC 1035 §4.1.1). */
  readonly responseCode: number;
  readonly answerCount: number;
  /** The first text of the first record, if that is a TXT record. */
  readonly text: string | undefined;
}

/** Decodes an answer. @throws RangeError when it is cut short */
function decodeAnswer(bytes: Uint8Array): DnsAnswer {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const flags = view.getUint16(2);
  const answerCount = view.getUint16(6);
  const record = skipName(view, skipName(view, HEADER_SIZE) + 4);
  const isText = answerCount > 0 && view.getUint16(record) === RecordType.TXT;
  const textStart = record + 11;
  return {
    id: view.getUint16(0),
    isTruncated: (flags & TRUNCATED) !== 0,
    responseCode: flags & 0x0f,
    answerCount,
    text: isText
      ? Buffer.from(bytes.subarray(textStart, textStart + view.getUint8(textStart - 1))).toString("latin1")
      : undefined,
  };
}

function skipName(view: DataView, start: number): number {
  for (let at = start; at < view.byteLength;) {
    const length = view.getUint8(at);
    if (length === 0) return at + 1;
    if ((length & POINTER) === POINTER) return at + 2;
    at += length + 1;
  }
  return start;
}

function word(value: number): readonly [number, number] {
  return [value >>> 8, value & 0xff];
}

const INTERVAL_MILLISECONDS = 5;
/** A time much longer than any answer on one machine takes. */
const PATIENCE_MILLISECONDS = 60_000;
const DNS_PORT = 53;

interface Query {
  /** Whether the query came from a new port, or from the port that is kept for all queries. */
  readonly port: "new" | "kept";
  readonly server: Address;
  readonly sentAt: number;
  answeredBy: string | undefined;
}

/**
 * Sends queries at a steady pace from a namespace to DNS servers' addresses, without retries: to each address in turn
 * one from a new port and one from a port that it keeps.
 */
export class QueryLoad implements Disposable {
  readonly #poller: Poller;
  readonly #from: LabNamespace;
  readonly #servers: readonly Address[];
  readonly #kept: readonly ProbeSocket[];
  readonly #queries: Query[] = [];
  /** The last query of each number that a message can hold. */
  readonly #numbered = new Map<number, Query>();
  #next = performance.now();

  constructor(poller: Poller, from: LabNamespace, servers: readonly Address[]) {
    this.#poller = poller;
    this.#from = from;
    this.#servers = servers;
    this.#kept = servers.map((server) => {
      const socket = this.#open(server);
      this.#watch(socket);
      return socket;
    });
  }

  /**
   * Sends queries until `isDone` is true.
   *
   * @param interval how often it is checked, in milliseconds; 0 is all the time
   * @throws Error when it is still false after a long time
   */
  async runUntil(isDone: () => boolean, what: string, interval = 0): Promise<void> {
    const deadline = performance.now() + 2 * PATIENCE_MILLISECONDS;
    let nextLook = performance.now();
    await this.#poller.runUntil(() => {
      this.#send();
      const now = performance.now();
      if (now > deadline) throw new Error(`still false under load: ${what}`);
      if (now < nextLook) return false;
      nextLook = now + interval;
      return isDone();
    });
  }

  /** Sends this number of queries. */
  async run(count: number): Promise<void> {
    const end = this.#queries.length + count;
    await this.runUntil(() => this.#queries.length >= end, `${count} queries`);
  }

  /** Sends no queries, and waits for the answers to the queries since a mark, for as long as they may take. */
  async settle(mark: number): Promise<void> {
    const deadline = performance.now() + PATIENCE_MILLISECONDS;
    await this.#poller.runUntil(() => this.lost(mark).length === 0 || performance.now() > deadline);
  }

  /** Returns a mark; the queries before it do not count. */
  mark(): number {
    return this.#queries.length;
  }

  /** Returns the servers that answered the queries since this mark, for each address by itself. */
  answeredBy(port: "new" | "kept", mark: number): readonly ReadonlySet<string>[] {
    const queries = this.#queries.slice(mark).filter((query) => query.port === port);
    return this.#servers.map(
      (server) => new Set(queries.flatMap((query) => (query.server === server ? (query.answeredBy ?? []) : []))),
    );
  }

  /** Returns for each address the server that answered the last answered query; "" where none was answered. */
  lastAnsweredBy(port: "new" | "kept"): readonly string[] {
    return this.#servers.map(
      (server) =>
        this.#queries.findLast(
          (query) => query.port === port && query.server === server && query.answeredBy !== undefined,
        )?.answeredBy ?? "",
    );
  }

  /** Returns the queries since this mark that were not answered. */
  lost(mark: number): readonly string[] {
    return this.#queries
      .slice(mark)
      .filter(({ answeredBy }) => answeredBy === undefined)
      .map(({ port, server, sentAt }) => `${port} port to ${formatAddress(server)} at ${Math.round(sentAt)} ms`);
  }

  [Symbol.dispose](): void {
    for (const socket of this.#kept) this.#poller.drop(socket);
  }

  #send(): void {
    const now = performance.now();
    if (now < this.#next) return;
    // A busy machine that was late does not send a burst.
    this.#next = now + INTERVAL_MILLISECONDS;
    for (const [i, server] of this.#servers.entries()) {
      const kept = this.#kept[i];
      if (kept !== undefined) this.#query(kept, "kept", server, now);
      const fresh = this.#open(server);
      this.#watch(fresh, () => this.#poller.drop(fresh));
      this.#query(fresh, "new", server, now);
    }
  }

  #open(server: Address): ProbeSocket {
    const socket = ProbeSocket.open(this.#from, familyOf(server), SocketType.DATAGRAM);
    bindToNew(socket, familyOf(server), undefined);
    socket.connect({ address: server, port: DNS_PORT });
    return socket;
  }

  #query(socket: ProbeSocket, port: Query["port"], server: Address, sentAt: number): void {
    const id = this.#queries.length & 0xffff;
    const query = { port, server, sentAt, answeredBy: undefined };
    this.#queries.push(query);
    this.#numbered.set(id, query);
    socket.send(encodeQuery(id, WHOAMI, RecordType.TXT));
  }

  #watch(socket: ProbeSocket, done: () => void = () => {}): void {
    this.#poller.watch(socket, {
      onReadable: () => {
        for (const next of socket.drain()) {
          if (next.kind !== "data") continue;
          const { id, text } = decodeAnswer(next.data);
          const query = this.#numbered.get(id);
          if (query === undefined || query.answeredBy !== undefined) continue;
          query.answeredBy = text ?? "nobody known";
        }
        done();
      },
    });
  }
}

/**
 * Asks for both families' addresses of a name from one port, back to back, as a C library does: `count` times, each
 * time from a new port, and each query once.
 *
 * @returns the queries that were not answered, or wrongly
 */
export async function askPairs(
  poller: Poller,
  from: LabNamespace,
  server: Address,
  name: string,
  count: number,
): Promise<readonly string[]> {
  const missing = new Set<string>();
  const wrong: string[] = [];
  const sockets = Array.from({ length: count }, (_, i) => {
    const socket = ProbeSocket.open(from, familyOf(server), SocketType.DATAGRAM);
    bindToNew(socket, familyOf(server), undefined);
    for (const id of [2 * i, 2 * i + 1]) missing.add(`${from.name} to ${formatAddress(server)}: query ${id}`);
    poller.watch(socket, {
      onReadable: () => {
        for (const next of socket.drain()) {
          if (next.kind !== "data") continue;
          const { id, responseCode, answerCount } = decodeAnswer(next.data);
          missing.delete(`${from.name} to ${formatAddress(server)}: query ${id}`);
          if (responseCode !== 0 || answerCount !== 1) wrong.push(`query ${id}: code ${responseCode}, ${answerCount}`);
        }
      },
    });
    return socket;
  });
  try {
    const deadline = performance.now() + PATIENCE_MILLISECONDS;
    let next = 0;
    await poller.runUntil(() => {
      // Only a few at a time, since this does not test the server's buffer.
      for (const end = Math.min(next + 8, count); next < end; next++) {
        const socket = sockets[next];
        socket?.connect({ address: server, port: DNS_PORT });
        socket?.send(encodeQuery(2 * next, name, RecordType.A));
        socket?.send(encodeQuery(2 * next + 1, name, RecordType.AAAA));
      }
      return missing.size === 0 || performance.now() > deadline;
    });
  } finally {
    for (const socket of sockets) poller.drop(socket);
  }
  return [...missing, ...wrong];
}
