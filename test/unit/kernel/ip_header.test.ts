import assert from "node:assert/strict";
import { parseAddress } from "../../../kernel/ip/address.ts";
import { type IpHeader, parseIpHeader } from "../../../kernel/packets/ip_header.ts";
import { itHolds } from "./hostile_bytes.ts";

const V4_ENDS = "0a090102" + "0a600001";
const V6_ENDS = "fd000000000000000000000000000001" + "fd000000000000000000000000000002";
const PORTS = "12340050";

/** @param fragment the 16 bits of flags and offset */
function ipv4(protocol: string, payload: string, { fragment = "0000", options = "" } = {}): string {
  const words = (5 + options.length / 8).toString(16);
  return `4${words}000000` + `0001${fragment}` + `40${protocol}0000` + V4_ENDS + options + payload;
}

function ipv6(next: string, payload: string): string {
  return `60000000` + `0000${next}40` + V6_ENDS + payload;
}

function parse(hex: string): IpHeader | undefined {
  return parseIpHeader(new Uint8Array(Buffer.from(hex, "hex")));
}

/** Extension headers: hop-by-hop options of 16 bytes, routing, destination options, authentication of 16 bytes. */
const CHAIN = "2b01" + "00".repeat(14) + "3c00" + "00".repeat(6) + "3300" + "00".repeat(6) + "0602" + "00".repeat(14);
const packets: readonly (readonly [what: string, hex: string, expected: Partial<IpHeader>])[] = [
  ["TCP over IPv4", ipv4("06", PORTS), { protocol: "tcp", sourcePort: 0x1234, destinationPort: 80 }],
  [
    "UDP after IPv4 options",
    ipv4("11", PORTS, { options: "0101010101010101" }),
    { protocol: "udp", destinationPort: 80 },
  ],
  ["SCTP over IPv6", ipv6("84", PORTS), { protocol: "sctp", sourcePort: 0x1234, destinationPort: 80 }],
  ["ICMP", ipv4("01", "0301"), { protocol: "icmp", sourcePort: undefined }],
  ["ICMPv6", ipv6("3a", "8000"), { protocol: "icmpv6", sourcePort: undefined }],
  ["ICMP's number in IPv6", ipv6("01", "0301"), { protocol: "icmp", sourcePort: undefined }],
  ["GRE", ipv4("2f", "00000800"), { protocol: 47, sourcePort: undefined }],
  ["the first fragment", ipv4("11", PORTS, { fragment: "2000" }), { sourcePort: 0x1234, isLaterFragment: false }],
  [
    "a later fragment of IPv4",
    ipv4("11", PORTS, { fragment: "2001" }),
    { protocol: "udp", sourcePort: undefined, isLaterFragment: true },
  ],
  [
    "the last fragment",
    ipv4("01", "0301", { fragment: "0001" }),
    { protocol: "icmp", sourcePort: undefined, isLaterFragment: true },
  ],
  [
    "a chain of extension headers",
    ipv6("00", CHAIN + PORTS),
    { protocol: "tcp", sourcePort: 0x1234, destinationPort: 80 },
  ],
  ["a first IPv6 fragment", ipv6("2c", `1100000100000000${PORTS}`), { protocol: "udp", destinationPort: 80 }],
  [
    "a later fragment of IPv6",
    ipv6("2c", `1100000800000000${PORTS}`),
    { protocol: "udp", sourcePort: undefined, isLaterFragment: true },
  ],
  [
    "options split over fragments",
    ipv6("2c", `3c00000800000000${PORTS}`),
    { protocol: undefined, isLaterFragment: true },
  ],
  ["ESP", ipv6("32", PORTS), { protocol: 50, sourcePort: undefined }],
  ["no next header", ipv6("3b", PORTS), { protocol: 59, sourcePort: undefined }],
  ["ports cut off", ipv4("06", "123400"), { protocol: "tcp", sourcePort: undefined, destinationPort: undefined }],
  ["an extension header cut off", ipv6("00", "0600"), { protocol: undefined, sourcePort: undefined }],
  [
    "an extension header longer than the packet",
    ipv6("00", "06ff000000000000"),
    { protocol: "tcp", sourcePort: undefined },
  ],
];

describe("kernel/packets/ip_header", () => {
  for (const [what, hex, expected] of packets) {
    it(`reads ${what}`, () => {
      const header = parse(hex);
      assert.ok(header !== undefined);
      for (const [name, value] of Object.entries(expected)) assert.deepEqual(Reflect.get(header, name), value, name);
      const [source, destination] = header.family === 4 ? ["10.9.1.2", "10.96.0.1"] : ["fd00::1", "fd00::2"];
      assert.deepEqual([header.source, header.destination], [parseAddress(source), parseAddress(destination)]);
    });
  }

  it("bytes that are not an IP packet give undefined", () => {
    const refused = ["", "45", "00".repeat(60), `5${ipv4("06", PORTS).slice(1)}`, `44${ipv4("06", PORTS).slice(2)}`];
    for (const hex of [...refused, ipv4("06", "").slice(0, -2), ipv6("06", "").slice(0, -2)]) {
      assert.equal(parse(hex), undefined);
    }
  });

  itHolds(
    { header: parseIpHeader },
    packets.map(([, hex]) => new Uint8Array(Buffer.from(hex, "hex"))),
    1000,
    40,
  );

  it("the longest possible chain of extension headers is walked to its end", () => {
    const chain = "3c00000000000000".repeat(8000);
    assert.equal(parse(ipv6("3c", chain))?.protocol, undefined);
    assert.equal(parse(ipv6("3c", `${chain}0600000000000000${PORTS}`))?.destinationPort, 80);
  });
});
