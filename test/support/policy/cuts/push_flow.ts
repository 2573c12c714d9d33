import { setTimeout as pause } from "node:timers/promises";
import { familyOf } from "../../../../kernel/ip/address.ts";
import type { Channel, FlowEnd, FlowEnds } from "./channel.ts";
import { SctpChannel } from "./sctp_channel.ts";
import { SocketChannel } from "./socket_channel.ts";

/** A time that is long for something that should happen in a moment, since the machine may do much else. */
const PATIENCE_MILLISECONDS = 20_000;
/** A number of lost messages in a row that cannot be an accident. */
const SILENT_MESSAGES = 4;
const MESSAGE_MILLISECONDS = 25;

/** A connection of which either end sends exactly what the test requests. */
export class PushFlow {
  readonly name: string;
  readonly #channel: Channel;

  private constructor(ends: FlowEnds) {
    this.name = `${ends.name}, ${ends.protocol}, IPv${familyOf(ends.to.address)}`;
    this.#channel = ends.protocol === "sctp" ? new SctpChannel(ends) : new SocketChannel(ends);
  }

  /** Begins a flow: the client sends until the server has received it. @throws Error when nothing arrives */
  static async begin(ends: FlowEnds): Promise<PushFlow> {
    const flow = new PushFlow(ends);
    if (await flow.reachesServer()) return flow;
    flow.close();
    throw new Error(`${flow.name} does not begin`);
  }

  /** The first errno that each end received; 0 for none. */
  get refusals(): Channel["refusals"] {
    return this.#channel.refusals;
  }

  /** Whether, in the end, messages of the server arrive while the client is silent. */
  async reachesClient(): Promise<boolean> {
    return await this.#arrives("server", PATIENCE_MILLISECONDS);
  }

  /** Whether, in the end, messages of the client arrive. */
  async reachesServer(): Promise<boolean> {
    return await this.#arrives("client", PATIENCE_MILLISECONDS);
  }

  /** Whether, in the end, no message of this end arrives any more. */
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

  /** Sends at intervals until something new has arrived. */
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

/** Returns the names of the flows on which, in the end, no message of one of the ends arrives. */
export async function brokenOf(flows: readonly PushFlow[]): Promise<readonly string[]> {
  const names = flows.map(async (flow) =>
    (await flow.reachesServer()) && (await flow.reachesClient()) ? [] : [flow.name],
  );
  return (await Promise.all(names)).flat();
}
