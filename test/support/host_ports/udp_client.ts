import { type Address, familyOf } from "../../../kernel/ip/address.ts";
import type { LabNamespace } from "../../lab/namespace.ts";
import type { Prober } from "../../lab/probe/prober.ts";
import { ProbeSocket, SocketType } from "../../lab/probe/socket.ts";

/** A client that keeps one UDP port, as resolvers and game clients do, so that its flow stays the same. */
export class UdpClient implements Disposable {
  readonly #socket: ProbeSocket;
  readonly #from: LabNamespace;

  constructor(from: LabNamespace, own: Address) {
    this.#from = from;
    this.#socket = ProbeSocket.open(from, familyOf(own), SocketType.DATAGRAM);
    this.#socket.bind({ address: own, port: 5555 });
  }

  /** Sends some datagrams without waiting for an answer. */
  send(address: Address, port: number, count = 3): void {
    for (let i = 0; i < count; i++) this.#socket.sendTo(new Uint8Array(16), { address, port });
  }

  /** Sends until a datagram comes back or a second has passed; a lost datagram is sent again. */
  async ask(prober: Prober, address: Address, port: number): Promise<"answered" | "silence"> {
    for (let i = 0; i < 40; i++) {
      this.#socket.sendTo(new Uint8Array(16).fill(7), { address, port });
      // This gives the responders a turn.
      await prober.run([{ protocol: "icmp", from: this.#from, to: { address, port: 0 } }]);
      for (const next of this.#socket.drain()) {
        if (next.kind === "data") return "answered";
      }
    }
    return "silence";
  }

  [Symbol.dispose](): void {
    this.#socket.close();
  }
}
