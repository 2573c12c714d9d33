import { parseEntry } from "../../../kernel/conntrack/entry.ts";
import { parseFlowEvent } from "../../../kernel/conntrack/flow_event.ts";
import { labelBit } from "../../../kernel/conntrack/labels.ts";
import { changeLabels, ConntrackMessage } from "../../../kernel/conntrack/request.ts";
import { parseAddress } from "../../../kernel/ip/address.ts";
import { littleEndian } from "../../../kernel/byte_order.ts";
import { Writer } from "../../../kernel/byte_writer.ts";
import { parseLoggedPacket } from "../../../kernel/packets/logged_packet.ts";
import { type Decoders, itHolds } from "./hostile_bytes.ts";

const PACKET = 0x400;
const decoders: Decoders = {
  entry: (body) => parseEntry({ type: ConntrackMessage.NEW, flags: 0, sequence: 0, body }),
  "flow event": (body) => parseFlowEvent({ type: ConntrackMessage.DELETE, flags: 0, sequence: 0, body }),
  packet: (body) => parseLoggedPacket({ type: PACKET, flags: 0, sequence: 0, body }),
};

/** Returns a message in which the reply tuple repeats the original one. */
function entryBody(v4: boolean): Uint8Array {
  const [source, destination] = (v4 ? ["10.9.1.2", "10.96.0.1"] : ["fd00::1", "fd00::2"]).map((text) =>
    parseAddress(text),
  );
  const original = {
    protocol: "tcp",
    source: source ?? parseAddress("::"),
    destination: destination ?? parseAddress("::"),
    sourcePort: 1,
    destinationPort: 2,
    icmp: undefined,
  } as const;
  const { body } = changeLabels({ original, zone: 3 }, { value: labelBit(100), mask: labelBit(100) });
  const length = new DataView(body.buffer, body.byteOffset).getUint16(4, littleEndian);
  const reply = body.slice(4, 4 + length);
  reply[2] = 2;
  return new Uint8Array([...body, ...reply]);
}

function packetBody(): Uint8Array {
  const writer = new Writer();
  for (const byte of [2, 0, 0, 21]) writer.u8(byte);
  const attribute = (number: number, payload: Uint8Array): void => {
    writer.u16(payload.length + 4);
    writer.u16(number);
    writer.bytes(payload);
    writer.align();
  };
  attribute(1, Uint8Array.of(8, 0, 2, 0));
  attribute(3, new Uint8Array(16));
  attribute(10, new TextEncoder().encode("prefix\0"));
  attribute(9, Uint8Array.of(0x60, 0, 0, 0, 0, 0, 44, 1, ...new Uint8Array(32), 60, 0, 0, 0, 0, 0, 0, 0, 6, 0, 0, 0));
  attribute(16, new Uint8Array(14));
  attribute(17, Uint8Array.of(0, 14));
  return writer.view();
}

const bodies = [entryBody(true), entryBody(false), packetBody()];

describe("kernel/conntrack and kernel/packets decoders", () => {
  it("decode the well-formed messages that the hostile ones are derived from", () => {
    for (const [i, name] of ["entry", "flow event", "packet"].entries())
      decoders[name]?.(bodies[i] ?? new Uint8Array(0));
  });

  itHolds(decoders, bodies, 500);
});
