import { setTimeout as pause } from "node:timers/promises";
import type { Address } from "../../../../kernel/ip/address.ts";
import { familyOf } from "../../../../kernel/ip/address.ts";
import type { LabNamespace } from "../../../lab/namespace.ts";
import type { Endpoint } from "../../../lab/probe/endpoint.ts";
import { ProbeSocket, SocketType } from "../../../lab/probe/socket.ts";

/** Long for what is to happen within a moment, on a machine that does a great deal else. */
const PATIENCE_MILLISECONDS = 20_000;
/** So many messages in a row that do not arrive are no accident. */
const SILENT_MESSAGES = 4;
const MESSAGE_MILLISECONDS = 25;

/** Who takes part in a flow. */
export interface FlowEnds {
  readonly name: string;
  readonly protocol: "tcp" | "udp";
  readonly client: LabNamespace;
  readonly clientAddress: Address;
  /** Where the client sends. */
  readonly to: Endpoint;
  readonly server: LabNamespace;
  /** Where the server listens. */
  readonly at: Endpoint;
}

/** A connection of which either end sends what it is told to, and nothing else. */
export class PushFlow {
  readonly name: string;
  readonly #ends: FlowEnds;
  readonly #client: ProbeSocket;
  readonly #listener: ProbeSocket;
  #accepted: ProbeSocket | undefined;
  #peer: Endpoint | undefined;
  #sent = 0;
  /** The first errno that each end was told; 0 for none. */
  readonly refusals = { client: 0, server: 0 };

  private constructor(ends: FlowEnds) {
    const type = ends.protocol === "tcp" ? SocketType.STREAM : SocketType.DATAGRAM;
    const family = familyOf(ends.to.address);
    this.#ends = ends;
    this.name = `${ends.name}, ${ends.protocol}, IPv${family}`;
    this.#listener = ProbeSocket.open(ends.server, family, type);
    this.#listener.bind(ends.at);
    if (ends.protocol === "tcp") this.#listener.listen();
    this.#client = ProbeSocket.open(ends.client, family, type);
    this.#client.bind({ address: ends.clientAddress, port: 0 });
    this.#client.connect(ends.to);
  }

  /** Begins a flow: the client has sent, and the server has it. @throws Error when it does not get there */
  static async begin(ends: FlowEnds): Promise<PushFlow> {
    const flow = new PushFlow(ends);
    if (await flow.reachesServer()) return flow;
    flow.close();
    throw new Error(`${flow.name} does not begin`);
  }

  /** Whether what the server sends arrives, with the client silent, at last. */
  async reachesClient(): Promise<boolean> {
    return await this.#arrives("server", PATIENCE_MILLISECONDS);
  }

  /** Whether what the client sends arrives, at last. */
  async reachesServer(): Promise<boolean> {
    return await this.#arrives("client", PATIENCE_MILLISECONDS);
  }

  /** Whether nothing that this end sends arrives any more, at last. */
  async isStopped(sender: "client" | "server"): Promise<boolean> {
    const end = performance.now() + PATIENCE_MILLISECONDS;
    while (performance.now() < end) {
      if (!(await this.#arrives(sender, SILENT_MESSAGES * MESSAGE_MILLISECONDS))) return true;
    }
    return false;
  }

  close(): void {
    for (const socket of [this.#client, this.#listener, this.#accepted]) socket?.close();
  }

  /** Sends at intervals until something has arrived that was not there before. */
  async #arrives(sender: "client" | "server", milliseconds: number): Promise<boolean> {
    this.#received("client");
    this.#received("server");
    const end = performance.now() + milliseconds;
    do {
      this.#send(sender);
      await pause(MESSAGE_MILLISECONDS);
      if (this.#received(sender === "client" ? "server" : "client") > 0) return true;
    } while (performance.now() < end);
    return false;
  }

  #send(sender: "client" | "server"): void {
    const message = Uint8Array.of(++this.#sent & 0xff);
    // A refusal is told once, to whatever is asked of the socket first.
    if (sender === "client") this.#refused("client", -this.#client.send(message));
    else if (this.#ends.protocol === "tcp") this.#refused("server", -(this.#accepted?.send(message) ?? 0));
    else if (this.#peer !== undefined) this.#listener.sendTo(message, this.#peer);
  }

  #refused(end: "client" | "server", errno: number): void {
    if (errno > 0 && this.refusals[end] === 0) this.refusals[end] = errno;
  }

  #received(receiver: "client" | "server"): number {
    if (this.#ends.protocol === "tcp") this.#accepted ??= this.#listener.accept()?.socket;
    const serverSocket = this.#ends.protocol === "tcp" ? this.#accepted : this.#listener;
    let bytes = 0;
    for (const next of (receiver === "client" ? this.#client : serverSocket)?.drain() ?? []) {
      if (next.kind === "data") bytes += next.data.length;
      if (next.kind === "data" && receiver === "server") this.#peer = next.from;
      if (next.kind === "refused") this.#refused(receiver, next.errno);
    }
    return bytes;
  }
}
