import { addressFromBytes } from "../../../../kernel/ip/address.ts";
import { socketText } from "../../../../policyd/services/elements/socket_address.ts";
import type { LabNamespace } from "../../../lab/namespace.ts";
import { EtherType } from "../../../lab/probe/frame.ts";
import { FrameSocket } from "../../../lab/probe/frame_socket.ts";

const ETHERNET_HEADER = 14;
const IPV6_HEADER = 40;
const WITH_PORTS = new Set([6, 17, 132]);

/** The destinations of the packets that nodes send out, seen at the other ends of their uplinks. */
export class SentPackets implements Disposable {
  readonly #sockets: readonly FrameSocket[];
  readonly #destinations = new Set<string>();

  constructor(router: LabNamespace, links: readonly string[]) {
    this.#sockets = links.map((link) => new FrameSocket(router, link));
  }

  /** Reads what has arrived; to be called before the sockets' buffers are full. */
  collect(): void {
    for (const socket of this.#sockets) {
      for (const frame of socket.received()) {
        const destination = readDestination(frame);
        if (destination !== undefined) this.#destinations.add(destination);
      }
    }
  }

  /** Addresses and ports in the form of {@link socketText}. */
  get destinations(): ReadonlySet<string> {
    return this.#destinations;
  }

  [Symbol.dispose](): void {
    for (const socket of this.#sockets) socket.close();
  }
}

/** Returns the destination of a frame; undefined for a frame without ports. */
function readDestination(frame: Uint8Array): string | undefined {
  const view = new DataView(frame.buffer, frame.byteOffset, frame.byteLength);
  const type = frame.length > ETHERNET_HEADER ? view.getUint16(12) : 0;
  const packet = frame.subarray(ETHERNET_HEADER);
  const isV4 = type === EtherType.IPV4;
  if (!isV4 && type !== EtherType.IPV6) return undefined;
  const headerLength = isV4 ? ((packet[0] ?? 0) & 0x0f) * 4 : IPV6_HEADER;
  const protocol = packet[isV4 ? 9 : 6] ?? 0;
  if (!WITH_PORTS.has(protocol) || packet.length < headerLength + 4) return undefined;
  const address = addressFromBytes(isV4 ? packet.slice(16, 20) : packet.slice(24, 40));
  return socketText({ address, port: view.getUint16(ETHERNET_HEADER + headerLength + 2) });
}
