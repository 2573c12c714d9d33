import { type Address, addressFromBytes, type Family, FAMILIES } from "../../../../kernel/ip/address.ts";
import type { LabNamespace } from "../../../lab/namespace.ts";
import { payloadOf } from "../../../lab/probe/raw_packet.ts";
import { ProbeSocket, SocketType } from "../../../lab/probe/socket.ts";
import type { Place } from "./places.ts";
import type { Transport } from "./row.ts";

/** An ICMP port unreachable message that a place received, with the destination of the refused packet. */
export interface Refusal {
  readonly at: Place;
  readonly protocol: Transport;
  readonly address: Address;
  readonly port: number;
}

const ICMP = { 4: 1, 6: 58 } as const;
/** Type and code: RFC 792, RFC 4443 section 3.1. */
const PORT_UNREACHABLE = { 4: [3, 3], 6: [1, 4] } as const;
const HEADER_SIZE = 8;
const TRANSPORTS: Readonly<Record<number, Transport>> = { 6: "tcp", 17: "udp", 132: "sctp" };

/** Reads the port unreachable messages that arrive at places, by raw sockets there. */
export class UnreachableMessages implements Disposable {
  readonly #sockets: readonly { readonly place: Place; readonly family: Family; readonly socket: ProbeSocket }[];
  readonly #refusals: Refusal[] = [];

  constructor(places: ReadonlyMap<Place, LabNamespace>) {
    this.#sockets = [...places].flatMap(([place, namespace]) =>
      FAMILIES.map((family) => ({
        place,
        family,
        socket: ProbeSocket.open(namespace, family, SocketType.RAW, ICMP[family]),
      })),
    );
  }

  /** Reads what has arrived; to be called before the sockets' buffers are full. */
  collect(): void {
    for (const { place, family, socket } of this.#sockets) {
      for (const next of socket.drain()) {
        const refusal = next.kind === "data" ? readRefusal(family, next.data) : undefined;
        if (refusal !== undefined) this.#refusals.push({ at: place, ...refusal });
      }
    }
  }

  get refusals(): readonly Refusal[] {
    return this.#refusals;
  }

  [Symbol.dispose](): void {
    for (const { socket } of this.#sockets) socket.close();
  }
}

/**
 * Returns the packet that a message is about; undefined for any message other than port unreachable about a packet with
 * ports.
 */
function readRefusal(family: Family, received: Uint8Array): Omit<Refusal, "at"> | undefined {
  const message = payloadOf(family, received);
  const [type, code] = PORT_UNREACHABLE[family];
  if (message === undefined || message[0] !== type || message[1] !== code) return undefined;
  const inner = message.subarray(HEADER_SIZE);
  const transport = TRANSPORTS[inner[family === 4 ? 9 : 6] ?? 0];
  const headerLength = family === 4 ? ((inner[0] ?? 0) & 0x0f) * 4 : 40;
  if (transport === undefined || inner.length < headerLength + 4) return undefined;
  const address = addressFromBytes(family === 4 ? inner.slice(16, 20) : inner.slice(24, 40));
  const port = new DataView(inner.buffer, inner.byteOffset).getUint16(headerLength + 2);
  return { protocol: transport, address, port };
}
