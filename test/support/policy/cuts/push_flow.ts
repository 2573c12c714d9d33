import { setTimeout as pause } from "node:timers/promises";
import { familyOf } from "../../../../kernel/ip/address.ts";
import type { Channel, FlowEnd, FlowEnds } from "./channel.ts";
import { SctpChannel } from "./sctp_channel.ts";
import { SocketChannel } from "./socket_channel.ts";

/** Long for what is to happen within a moment, on a machine that does a great deal else. */
const PATIENCE_MILLISECONDS = 20_000;
/** So many messages in a row that do not arrive are no accident. */
const SILENT_MESSAGES = 4;
const MESSAGE_MILLISECONDS = 25;

/** A connection of which either end sends what it is told to, and nothing else. */
export class PushFlow {
  readonly name: string;
  readonly #channel: Channel;

  private constructor(ends: FlowEnds) {
    this.name = `${ends.name}, ${ends.protocol}, IPv${familyOf(ends.to.address)}`;
    this.#channel = ends.protocol === "sctp" ? new SctpChannel(ends) : new SocketChannel(ends);
  }

  /** Begins a flow: the client has sent, and the server has it. @throws Error when it does not get there */
  static async begin(ends: FlowEnds): Promise<PushFlow> {
    const flow = new PushFlow(ends);
    if (await flow.reachesServer()) return flow;
    flow.close();
    throw new Error(`${flow.name} does not begin`);
  }

  /** The first errno that each end was told; 0 for none. */
  get refusals(): Channel["refusals"] {
    return this.#channel.refusals;
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
  async isStopped(sender: FlowEnd): Promise<boolean> {
    const end = performance.now() + PATIENCE_MILLISECONDS;
    while (performance.now() < end) {
      if (!(await this.#arrives(sender, SILENT_MESSAGES * MESSAGE_MILLISECONDS))) return true;
    }
    return false;
  }

  close(): void {
    this.#channel.close();
  }

  /** Sends at intervals until something has arrived that was not there before. */
  async #arrives(sender: FlowEnd, milliseconds: number): Promise<boolean> {
    const receiver = sender === "client" ? "server" : "client";
    for (const end of ["client", "server"] as const) this.#channel.received(end);
    const end = performance.now() + milliseconds;
    do {
      this.#channel.send(sender);
      await pause(MESSAGE_MILLISECONDS);
      if (this.#channel.received(receiver) > 0) return true;
    } while (performance.now() < end);
    return false;
  }
}
