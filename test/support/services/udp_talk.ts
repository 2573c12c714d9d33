import { setTimeout as pause } from "node:timers/promises";
import { type Address, familyOf } from "../../../kernel/ip/address.ts";
import type { LabNamespace } from "../../lab/namespace.ts";
import type { Endpoint } from "../../lab/probe/endpoint.ts";
import { ProbeSocket, SocketType } from "../../lab/probe/socket.ts";
import { valueWhen } from "../until.ts";

/** A time that is long for an answer within one machine, however busy; then a client asks again. */
const ANSWER_MILLISECONDS = 400;

/** UDP responders that answer with their names, and clients that keep one socket and so one flow each. */
export class UdpTalk implements Disposable {
  readonly #responders: { readonly name: string; readonly socket: ProbeSocket }[] = [];
  readonly #clients: ProbeSocket[] = [];
  #questions = 0;

  /** Opens a responder at an address of a namespace. */
  respond(namespace: LabNamespace, at: Endpoint): void {
    const socket = ProbeSocket.open(namespace, familyOf(at.address), SocketType.DATAGRAM);
    socket.bind(at);
    this.#responders.push({ name: namespace.name, socket });
  }

  /** Opens a client's socket. */
  client(from: LabNamespace, own: Address): ProbeSocket {
    const socket = ProbeSocket.open(from, familyOf(own), SocketType.DATAGRAM);
    this.#clients.push(socket);
    socket.bind({ address: own, port: 0 });
    return socket;
  }

  /** Returns the name of the responder that answers a client's next datagram; "" for none. */
  async ask(client: ProbeSocket, to: Endpoint): Promise<string> {
    for (const old of client.drain()) void old;
    const question = String(++this.#questions);
    client.sendTo(new TextEncoder().encode(question), to);
    const end = performance.now() + ANSWER_MILLISECONDS;
    do {
      this.#serve();
      for (const next of client.drain()) {
        const [number, name = ""] = next.kind === "data" ? new TextDecoder().decode(next.data).split(" ") : [];
        if (number === question) return name;
      }
      await pause(2);
    } while (performance.now() < end);
    return "";
  }

  /** Asks until `isRight` is true for the answer. @throws Error when it is still false after a long time */
  async askUntil(client: ProbeSocket, to: Endpoint, isRight: (name: string) => boolean): Promise<string> {
    return await this.#askUntil(() => client, to, isRight);
  }

  /** Asks as {@link askUntil} does, with a new client and so a new flow for each question. */
  async askAnew(
    [from, own]: readonly [LabNamespace, Address],
    to: Endpoint,
    isRight: (name: string) => boolean,
  ): Promise<string> {
    return await this.#askUntil(() => this.client(from, own), to, isRight);
  }

  async #askUntil(client: () => ProbeSocket, to: Endpoint, isRight: (name: string) => boolean): Promise<string> {
    return await valueWhen(
      () => this.ask(client(), to),
      isRight,
      (answer) => (answer === "" ? "nobody answers" : `${answer} answers`),
    );
  }

  #serve(): void {
    for (const { name, socket } of this.#responders) {
      for (const next of socket.drain()) {
        if (next.kind !== "data" || next.from === undefined) continue;
        socket.sendTo(new TextEncoder().encode(`${new TextDecoder().decode(next.data)} ${name}`), next.from);
      }
    }
  }

  [Symbol.dispose](): void {
    for (const socket of [...this.#clients, ...this.#responders.map((one) => one.socket)]) socket.close();
  }
}
