import { familyOf } from "../../../../kernel/ip/address.ts";
import type { Endpoint } from "../../../lab/probe/endpoint.ts";
import { ProbeSocket, SocketType } from "../../../lab/probe/socket.ts";
import type { Channel, FlowEnd, FlowEnds } from "./channel.ts";

/** A TCP connection, or UDP datagrams that the server answers at their source. */
export class SocketChannel implements Channel {
  readonly refusals = { client: 0, server: 0 };
  readonly #isTcp: boolean;
  readonly #client: ProbeSocket;
  readonly #listener: ProbeSocket;
  #accepted: ProbeSocket | undefined;
  #peer: Endpoint | undefined;
  #sent = 0;

  constructor(ends: FlowEnds) {
    this.#isTcp = ends.protocol === "tcp";
    const type = this.#isTcp ? SocketType.STREAM : SocketType.DATAGRAM;
    const family = familyOf(ends.to.address);
    this.#listener = ProbeSocket.open(ends.server, family, type);
    this.#listener.bind(ends.at);
    if (this.#isTcp) this.#listener.listen();
    this.#client = ProbeSocket.open(ends.client, family, type);
    this.#client.bind({ address: ends.clientAddress, port: 0 });
    this.#client.connect(ends.to);
  }

  send(sender: FlowEnd): void {
    const message = Uint8Array.of(++this.#sent & 0xff);
    // A refusal is reported once, by the next operation on the socket.
    if (sender === "client") this.#refused("client", -this.#client.send(message));
    else if (this.#isTcp) this.#refused("server", -(this.#accepted?.send(message) ?? 0));
    else if (this.#peer !== undefined) this.#listener.sendTo(message, this.#peer);
  }

  received(receiver: FlowEnd): number {
    if (this.#isTcp) this.#accepted ??= this.#listener.accept()?.socket;
    const serverSocket = this.#isTcp ? this.#accepted : this.#listener;
    let bytes = 0;
    for (const next of (receiver === "client" ? this.#client : serverSocket)?.drain() ?? []) {
      if (next.kind === "data") bytes += next.data.length;
      if (next.kind === "data" && receiver === "server") this.#peer = next.from;
      if (next.kind === "refused") this.#refused(receiver, next.errno);
    }
    return bytes;
  }

  close(): void {
    for (const socket of [this.#client, this.#listener, this.#accepted]) socket?.close();
  }

  #refused(end: FlowEnd, errno: number): void {
    if (errno > 0 && this.refusals[end] === 0) this.refusals[end] = errno;
  }
}
