import assert from "node:assert/strict";
import fc from "fast-check";
import { parseAddress } from "../../../kernel/ip/address.ts";
import { parseSnmp, parseSnmp6 } from "./counters.ts";
import { crc32c } from "./crc32c.ts";
import { decodeEndpoint, encodeEndpoint } from "./endpoint.ts";
import { echoRequest } from "./icmp.ts";
import { internetChecksum, payloadOf } from "./raw_packet.ts";
import type { SctpPacket } from "./sctp_packet.ts";
import { ChunkType, decodeSctp, encodeSctp } from "./sctp_packet.ts";

const ascii = (text: string): Uint8Array => new TextEncoder().encode(text);

describe("packets of the probes", () => {
  it("crc32c gives the check values of the literature", () => {
    assert.equal(crc32c(ascii("123456789")), 0xe3069283);
    // RFC 3720 appendix B.4
    assert.equal(crc32c(new Uint8Array(32)), 0x8a9136aa);
    assert.equal(crc32c(new Uint8Array(32).fill(0xff)), 0x62a8ab43);
  });

  it("the Internet checksum gives the example of RFC 1071", () => {
    assert.equal(internetChecksum(Uint8Array.of(0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7)), 0x220d);
  });

  it("an ICMP echo request sums up to zero", () => {
    fc.assert(
      fc.property(fc.uint8Array({ minLength: 16, maxLength: 16 }), (token) => {
        assert.equal(internetChecksum(echoRequest(4, token)), 0);
      }),
    );
  });

  it("an IPv4 payload starts behind the header, options included", () => {
    const packet = new Uint8Array(30);
    packet[0] = 0x46;
    packet[24] = 7;
    assert.equal(payloadOf(4, packet)?.[0], 7);
    assert.equal(payloadOf(4, packet.subarray(0, 20)), undefined);
    assert.equal(payloadOf(6, packet), packet);
  });

  const sctpPacket: fc.Arbitrary<SctpPacket> = fc.record({
    sourcePort: fc.nat(0xffff),
    destinationPort: fc.nat(0xffff),
    verificationTag: fc.nat(0xffff_ffff),
    chunkType: fc.constantFrom(ChunkType.INIT, ChunkType.INIT_ACK),
    initiateTag: fc.integer({ min: 1, max: 0xffff_ffff }),
    token: fc.uint8Array({ minLength: 16, maxLength: 16 }),
  });

  it("an SCTP packet survives encoding, and no single flipped bit does", () => {
    fc.assert(
      fc.property(sctpPacket, fc.nat(), (packet, position) => {
        const bytes = encodeSctp(packet);
        assert.deepEqual(decodeSctp(bytes), { ...packet, token: Uint8Array.from(packet.token) });
        const bit = position % (bytes.length * 8);
        bytes[bit >> 3] = (bytes[bit >> 3] ?? 0) ^ (1 << (bit & 7));
        assert.equal(decodeSctp(bytes), undefined);
      }),
    );
  });

  it("no truncated or random bytes are an SCTP packet", () => {
    fc.assert(fc.property(fc.uint8Array({ maxLength: 80 }), (bytes) => decodeSctp(bytes) === undefined));
    fc.assert(
      fc.property(
        sctpPacket,
        fc.nat(51),
        (packet, length) => decodeSctp(encodeSctp(packet).subarray(0, length)) === undefined,
      ),
    );
  });

  it("socket addresses survive encoding", () => {
    for (const text of ["10.244.1.7", "fd00:244::7"]) {
      const endpoint = { address: parseAddress(text), port: 8080 };
      assert.deepEqual(decodeEndpoint(encodeEndpoint(endpoint)), endpoint);
    }
  });

  it("counters are read by name", () => {
    const snmp = "Ip: Forwarding\nIp: 1\nIcmp: InMsgs InRedirects\nIcmp: 4 2\n";
    assert.equal(parseSnmp(snmp, "Icmp").get("InRedirects"), 2);
    assert.equal(parseSnmp6("Icmp6InMsgs    \t5\nIcmp6InRedirects \t3\n").get("Icmp6InRedirects"), 3);
  });
});
