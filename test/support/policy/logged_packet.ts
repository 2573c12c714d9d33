import { type Address, addressToBytes, familyOf } from "../../../kernel/ip/address.ts";
import type { ReceivedMessage } from "../../../kernel/netlink/message.ts";

/** NFULNL_MSG_PACKET of nfnetlink_log. */
const PACKET = 0x400;
const PAYLOAD = 9;
const PREFIX = 10;

/** Returns the kernel's message about a packet that a rule with a prefix has logged. */
export function loggedMessage(prefix: string, packet: Uint8Array): ReceivedMessage {
  const attributes = [attribute(PREFIX, Buffer.from(`${prefix}\0`, "latin1")), attribute(PAYLOAD, Buffer.from(packet))];
  const body = new Uint8Array(Buffer.concat([Buffer.from("0200006b", "hex"), ...attributes]));
  return { type: PACKET, flags: 0, sequence: 0, body };
}

/**
 * Returns the first bytes of a packet of a protocol (its IANA number), with ports or an ICMP type after the addresses.
 */
export function packetBetween(source: Address, destination: Address, protocol: number, upper: Uint8Array): Uint8Array {
  const ends = Buffer.concat([addressToBytes(source), addressToBytes(destination)]);
  const head =
    familyOf(source) === 4
      ? Buffer.from(`450000280000400040${protocol.toString(16).padStart(2, "0")}0000`, "hex")
      : Buffer.from(`600000000014${protocol.toString(16).padStart(2, "0")}40`, "hex");
  return Buffer.concat([head, ends, upper]);
}

/** Returns the source and destination port, with which TCP, UDP and SCTP begin. */
export function ports(source: number, destination: number): Uint8Array {
  const bytes = Buffer.alloc(8);
  bytes.writeUInt16BE(source, 0);
  bytes.writeUInt16BE(destination, 2);
  return bytes;
}

function attribute(number: number, payload: Buffer): Buffer {
  const header = Buffer.from(Uint16Array.of(payload.length + 4, number).buffer);
  return Buffer.concat([header, payload, Buffer.alloc(-payload.length & 3)]);
}
