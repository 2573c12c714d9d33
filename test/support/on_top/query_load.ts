import type { Address } from "../../../kernel/ip/address.ts";
import { familyOf, formatAddress } from "../../../kernel/ip/address.ts";
import type { LabNamespace } from "../../lab/namespace.ts";
import { bindToNew } from "../../lab/probe/new_port.ts";
import type { Poller } from "../../lab/probe/poller.ts";
import { ProbeSocket, SocketType } from "../../lab/probe/socket.ts";
import { decodeAnswer, encodeQuery, RecordType } from "./dns_message.ts";
import { WHOAMI } from "./dns_server.ts";

const INTERVAL_MILLISECONDS = 5;
/** Much longer than any answer on one machine takes. */
const PATIENCE_MILLISECONDS = 10_000;
const DNS_PORT = 53;

interface Query {
  /** Whether it was from a port of its own, or from the one that asks all the time. */
  readonly port: "new" | "kept";
  readonly server: Address;
  readonly sentAt: number;
  answeredBy: string | undefined;
}

/**
 * Queries at a steady pace from a namespace to DNS servers' addresses: of each address in turn one from a new port and one
 * from the port of the first. None is sent again.
 */
export class QueryLoad implements Disposable {
  readonly #poller: Poller;
  readonly #from: LabNamespace;
  readonly #servers: readonly Address[];
  readonly #kept: readonly ProbeSocket[];
  readonly #queries: Query[] = [];
  /** The last query of each number that a message has room for. */
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
   * Sends on until something is so.
   *
   * @param interval how often that is looked at, in milliseconds; 0 is all the time
   * @throws Error when it is not so for a long time
   */
  async runUntil(isDone: () => boolean, what: string, interval = 0): Promise<void> {
    const deadline = performance.now() + 2 * PATIENCE_MILLISECONDS;
    let nextLook = performance.now();
    await this.#poller.runUntil(() => {
      this.#send();
      const now = performance.now();
      if (now > deadline) throw new Error(`not so under load: ${what}`);
      if (now < nextLook) return false;
      nextLook = now + interval;
      return isDone();
    });
  }

  /** Sends so many queries. */
  async run(count: number): Promise<void> {
    const end = this.#queries.length + count;
    await this.runUntil(() => this.#queries.length >= end, `${count} queries`);
  }

  /** Sends none, and waits for the answers to the queries from a moment on, or for as long as they may take. */
  async settle(mark: number): Promise<void> {
    const deadline = performance.now() + PATIENCE_MILLISECONDS;
    await this.#poller.runUntil(() => this.lost(mark).length === 0 || performance.now() > deadline);
  }

  /** A moment to judge from: queries before it do not count. */
  mark(): number {
    return this.#queries.length;
  }

  /** By whom queries from this moment on were answered, for each address by itself. */
  answeredBy(port: "new" | "kept", mark: number): readonly ReadonlySet<string>[] {
    const queries = this.#queries.slice(mark).filter((query) => query.port === port);
    return this.#servers.map(
      (server) => new Set(queries.flatMap((query) => (query.server === server ? (query.answeredBy ?? []) : []))),
    );
  }

  /** By whom the last query to each address that was answered was answered; "" where none was. */
  lastAnsweredBy(port: "new" | "kept"): readonly string[] {
    return this.#servers.map(
      (server) =>
        this.#queries.findLast(
          (query) => query.port === port && query.server === server && query.answeredBy !== undefined,
        )?.answeredBy ?? "",
    );
  }

  /** The queries from this moment on that were not answered. */
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
    // A busy machine that was late sends no burst.
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
 * Asks for both families' addresses of a name from one port, back to back, as a C library does: so often, each time from a
 * new port, and each query once.
 *
 * @returns what was not answered, or wrongly
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
      // A few at a time: the server's buffer is not what is looked at.
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
