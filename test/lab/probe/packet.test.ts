import assert from "node:assert/strict";
import fc from "fast-check";
import { addressToBytes, parseAddress } from "../../../kernel/ip/address.ts";
import { parseMac } from "../../../kernel/ip/mac.ts";
import { parseSnmp, parseSnmp6 } from "./counters.ts";
import { crc32c } from "./crc32c.ts";
import { decodeEndpoint, encodeEndpoint } from "./endpoint.ts";
import { encodeArp, encodeFrame, encodeIcmpv6, encodeIp, encodeUdp, EtherType, multicastMac } from "./frame.ts";
import { echoRequest } from "./icmp.ts";
import { internetChecksum, payloadOf } from "./raw_packet.ts";
import { decodeSctp, encodeSctp, type SctpPacket } from "./sctp_packet.ts";
import { ChunkType } from "./sctp_chunk.ts";

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

  it("IP packets, UDP datagrams and ICMPv6 messages sum up to zero, with the addresses they travel between", () => {
    const pairs = [
      [parseAddress("10.244.1.7"), parseAddress("255.255.255.255")],
      [parseAddress("fd00:244::7"), parseAddress("ff02::1")],
    ] as const;
    fc.assert(
      fc.property(fc.constantFrom(...pairs), fc.uint8Array({ maxLength: 80 }), ([from, to], data) => {
        const packets = [encodeUdp(from, to, 53, data)];
        if (typeof from !== "number") packets.push(encodeIcmpv6(from, to, 136, [...data]));
        for (const packet of packets) {
          const { protocol, payload } = packet;
          const length = [payload.length >> 8, payload.length & 0xff];
          const pseudo = [...addressToBytes(from), ...addressToBytes(to), ...length, 0, protocol];
          assert.equal(internetChecksum(Uint8Array.of(...pseudo, ...payload)), 0);
          const encoded = encodeIp(packet).payload;
          if (typeof from === "number") assert.equal(internetChecksum(encoded.subarray(0, 20)), 0);
          assert.deepEqual(encoded.subarray(typeof from === "number" ? 20 : 40), payload);
        }
      }),
    );
  });

  it("a tagged ARP frame is byte for byte what the standards say", () => {
    const [from, to] = [parseMac("02:00:00:00:00:01"), multicastMac(parseAddress("ff02::1:ff00:7"))];
    const arp = encodeArp({
      operation: "reply",
      senderMac: from,
      sender: parseAddress("10.0.0.1"),
      targetMac: parseMac("02:00:00:00:00:02"),
      target: parseAddress("10.0.0.2"),
    });
    const tags = [{ type: EtherType.VLAN, id: 5 }];
    assert.equal(
      Buffer.from(encodeFrame({ from, to, tags, ...arp })).toString("hex"),
      "3333ff000007" +
        "020000000001" +
        "81000005" +
        "0806" +
        "0001080006040002" +
        "0200000000010a000001" +
        "0200000000020a000002",
    );
  });

  it("IPv6 hop-by-hop options stand before the payload and name its protocol", () => {
    const packet = encodeUdp(parseAddress("fd00::1"), parseAddress("fd00::2"), 1, new Uint8Array(2));
    const { payload } = encodeIp({ ...packet, hopByHop: Uint8Array.of(1, 4, 0, 0, 0, 0) });
    assert.deepEqual([payload[6], payload[4], payload[5]], [0, 0, 18]);
    assert.deepEqual([...payload.subarray(40, 48)], [17, 0, 1, 4, 0, 0, 0, 0]);
  });
});
