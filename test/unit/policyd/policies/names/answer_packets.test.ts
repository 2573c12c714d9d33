import assert from "node:assert/strict";
import { type Address, addressToBytes, parseAddress } from "../../../../../kernel/ip/address.ts";
import { parseIpHeader } from "../../../../../kernel/packets/ip_header.ts";
import { AnswerPackets } from "../../../../../policyd/policies/names/answer_packets.ts";

const SERVER = parseAddress("10.244.2.5");
const POD = parseAddress("10.244.1.7");
const [SYN_ACK, DATA, FIN] = [0x12, 0x10, 0x11];
const FIRST = 0xffff_fff0;

function ip(protocol: number, above: readonly number[], source: Address = SERVER): Uint8Array {
  const length = 20 + above.length;
  const head = [0x45, 0, length >>> 8, length & 0xff, 0, 0, 0, 0, 64, protocol, 0, 0];
  return Uint8Array.from([...head, ...addressToBytes(source), ...addressToBytes(POD), ...above]);
}

function tcp(sequence: number, data: readonly number[], flags = DATA, port = 40_000): Uint8Array {
  const at = sequence >>> 0;
  const number = [at >>> 24, (at >>> 16) & 0xff, (at >>> 8) & 0xff, at & 0xff];
  return ip(6, [0, 53, port >>> 8, port & 0xff, ...number, 0, 0, 0, 0, 0x50, flags, 0, 0, 0, 0, 0, 0, ...data]);
}

/** Returns the messages that packets complete, as texts. */
function texts(packets: AnswerPackets, ...all: readonly Uint8Array[]): readonly string[] {
  return all.flatMap((bytes) => {
    const header = parseIpHeader(bytes);
    assert.ok(header !== undefined);
    return packets.messagesIn(header, bytes).map((message) => Buffer.from(message).toString());
  });
}

const framed = (text: string): readonly number[] => [0, text.length, ...Buffer.from(text)];

describe("DNS messages in packets", () => {
  it("NAME-05: a UDP datagram is one DNS message, and none if it has fewer bytes than its header says", () => {
    const udp = (length: number) => ip(17, [0, 53, 0x9c, 0x40, 0, length, 0, 0, ...Buffer.from("answer")]);
    assert.deepEqual(texts(new AnswerPackets(), udp(14)), ["answer"]);
    assert.deepEqual(texts(new AnswerPackets(), udp(15)), []);
  });

  it("NAME-05: two messages by TCP are found wherever segments divide them, also beyond the highest sequence number", () => {
    const stream = [...framed("first"), ...framed("second")];
    for (let at = 1; at < stream.length; at++) {
      const segments = [
        tcp(FIRST, [], SYN_ACK),
        tcp(FIRST + 1, stream.slice(0, at)),
        tcp(FIRST + 1 + at, stream.slice(at)),
      ];
      assert.deepEqual(texts(new AnswerPackets(), ...segments), ["first", "second"]);
    }
  });

  it("NAME-05: a segment that is sent again, whole or with more, is read once; a gap ends the reading", () => {
    const [start, stream] = [tcp(FIRST, [], SYN_ACK), framed("answer")];
    const first = tcp(FIRST + 1, stream.slice(0, 4));
    assert.deepEqual(texts(new AnswerPackets(), start, first, first, tcp(FIRST + 1, stream)), ["answer"]);
    assert.deepEqual(texts(new AnswerPackets(), start, tcp(FIRST + 2, stream.slice(1)), tcp(FIRST + 1, stream)), []);
  });

  it("NAME-05: a connection whose beginning was not seen, or that has ended, gives nothing", () => {
    const segment = tcp(FIRST + 1, framed("answer"));
    assert.deepEqual(texts(new AnswerPackets(), segment), []);
    assert.deepEqual(texts(new AnswerPackets(), tcp(FIRST, [], SYN_ACK), tcp(FIRST + 1, [], FIN), segment), []);
  });

  it("NAME-05: a connection is read however many messages it carries, and of more than 1,024 connections the oldest is not", () => {
    const packets = new AnswerPackets();
    // A longest message, in pieces, and then short ones.
    const longest = [0xff, 0xff, ...Array.from({ length: 65_535 }, () => 0)];
    const stream = [...longest, ...Array.from({ length: 100 }, () => framed("answer")).flat()];
    const segments = Array.from({ length: Math.ceil(stream.length / 1000) }, (_, i) =>
      tcp(FIRST + 1 + 1000 * i, stream.slice(1000 * i, 1000 * (i + 1))),
    );
    const read = texts(packets, tcp(FIRST, [], SYN_ACK), ...segments);
    assert.deepEqual([read.length, read[0]?.length, read.at(-1)], [101, 65_535, "answer"]);
    const starts = Array.from({ length: 1025 }, (_, i) => tcp(FIRST, [], SYN_ACK, 1000 + i));
    assert.deepEqual(texts(packets, ...starts, tcp(FIRST + 1, framed("first"), DATA, 1000)), []);
    assert.deepEqual(texts(packets, tcp(FIRST + 1, framed("second"), DATA, 1001)), ["second"]);
  });
});
