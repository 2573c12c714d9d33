import assert from "node:assert/strict";
import { isIPv6 } from "node:net";
import fc from "fast-check";
import ipaddr from "ipaddr.js";
import {
  type Address,
  addressFromBytes,
  addressFromValue,
  addressPlus,
  addressToBytes,
  formatAddress,
  parseAddress,
  tryParseAddress,
  tryParseIpv4,
  tryParseIpv6,
} from "../../../kernel/ip/address.ts";

/** An octet in the form that RFC 6943 section 3.1.1 calls strict: decimal, no leading zeros. */
const OCTET = "(0|[1-9]|[1-9][0-9]|1[0-9][0-9]|2[0-4][0-9]|25[0-5])";
const STRICT_IPV4 = new RegExp(`^${OCTET}\\.${OCTET}\\.${OCTET}\\.${OCTET}$`);

/** Groups of mostly zeros, so that runs to compress and ties between them are common. */
const ipv6Groups = fc.array(fc.oneof(fc.constant(0), fc.integer({ min: 0, max: 0xffff })), {
  minLength: 8,
  maxLength: 8,
});

function addressOf(family: 4 | 6, value: bigint): Address {
  const address = addressFromValue(family, value);
  assert.ok(address !== undefined);
  return address;
}

function valueOf(groups: readonly number[]): bigint {
  return groups.reduce((value, group) => (value << 16n) | BigInt(group), 0n);
}

describe("kernel/ip/address", () => {
  const good: readonly (readonly [text: string, canonical: string])[] = [
    ["10.244.1.7", "10.244.1.7"],
    ["FD00:0244::000A", "fd00:244::a"],
    ["1:2:3:4:5:6:7::", "1:2:3:4:5:6:7:0"],
    ["::2:3:4:5:6:7:8", "0:2:3:4:5:6:7:8"],
    ["64:ff9b::192.0.2.1", "64:ff9b::c000:201"],
    ["0000:0000:0000:0000:0000:ffff:255.255.255.255", "::ffff:ffff:ffff"],
  ];
  for (const [text, canonical] of good) {
    it(`reads ${text}`, () => {
      assert.equal(formatAddress(parseAddress(text)), canonical);
    });
  }

  /** One of each kind that the random texts below do not have, or seldom. */
  const bad = [
    "",
    "010.0.0.1",
    "0x7f.0.0.1",
    "2130706433",
    "1.2.3.4\n",
    "1.2.3.4/24",
    "1.2.3.a",
    "١.2.3.4",
    "1:2:3:4:5:6:7:8::",
    ":1::2",
    "1::2:",
    "fe80::1%eth0",
    "[::1]",
    "::1\n",
    "::ffff:1.2.3.04",
    "1.2.3.4::",
    "1:2:3:4:5:6:7:1.2.3.4",
  ];
  for (const text of bad) {
    it(`refuses ${JSON.stringify(text)} and names field and value`, () => {
      assert.equal(tryParseAddress(text), undefined);
      assert.throws(
        () => parseAddress(text, "ipam.gateway"),
        (error: unknown) => {
          assert.ok(error instanceof Error && "code" in error);
          assert.equal(error.code, "ERR_ADDRESS");
          assert.ok(error.message.startsWith(`ipam.gateway: ${JSON.stringify(text)} is not`), error.message);
          return true;
        },
      );
    });
  }

  it("accepts as IPv4 exactly what the strict expression accepts", () => {
    const octet = fc.oneof(fc.nat(300).map(String), fc.constantFrom("", "00", "01", "0", "255", "256", "1e1", "-0"));
    const nearly = fc.array(octet, { minLength: 3, maxLength: 5 }).map((parts) => parts.join("."));
    fc.assert(
      fc.property(
        fc.oneof(nearly, fc.string({ unit: fc.constantFrom("0", "1", "2", "5", "9", ".", ".", " ") })),
        (text) => {
          assert.equal(tryParseIpv4(text) !== undefined, STRICT_IPV4.test(text));
        },
      ),
      { numRuns: 2000 },
    );
  });

  it("accepts as IPv6 exactly what node:net accepts", () => {
    const piece = fc.constantFrom("0", "1", "ffff", "00a", "12345", "g", "", ":", "::", "1.2.3.4", "01.2.3.4");
    const nearly = fc.array(piece, { minLength: 1, maxLength: 9 }).map((pieces) => pieces.join(":"));
    fc.assert(
      fc.property(fc.oneof(nearly, fc.ipV6()), (text) => {
        assert.equal(tryParseIpv6(text) !== undefined, isIPv6(text));
      }),
      { numRuns: 3000 },
    );
  });

  it("reads every way to write the same IPv6 address as the same number", () => {
    const spelling = fc.record({ groups: ipv6Groups, padded: fc.boolean(), upper: fc.boolean(), dotted: fc.boolean() });
    fc.assert(
      fc.property(spelling, fc.nat(7), fc.nat(8), ({ groups, padded, upper, dotted }, start, length) => {
        const head = dotted ? groups.slice(0, 6) : groups;
        const texts = head.map((group) => group.toString(16).padStart(padded ? 4 : 1, "0"));
        const compressible = length > 0 && start + length <= head.length;
        if (compressible) groups.fill(0, start, start + length);
        const tail = dotted
          ? [
              groups
                .slice(6)
                .flatMap((group) => [group >> 8, group & 255])
                .join("."),
            ]
          : [];
        const text = compressible
          ? `${texts.slice(0, start).join(":")}::${[...texts.slice(start + length), ...tail].join(":")}`
          : [...texts, ...tail].join(":");
        assert.equal(tryParseIpv6(upper ? text.toUpperCase() : text), valueOf(groups), text);
      }),
      { numRuns: 1000 },
    );
  });

  it("prints IPv6 as ipaddr.js does by RFC 5952, and reads the same bytes", () => {
    fc.assert(
      fc.property(ipv6Groups, (groups) => {
        const theirs = new ipaddr.IPv6(groups);
        const ours = addressOf(6, valueOf(groups));
        assert.equal(formatAddress(ours), theirs.toRFC5952String());
        assert.deepEqual([...addressToBytes(ours)], theirs.toByteArray());
      }),
    );
  });

  it("refuses bytes of any other length", () => {
    for (const length of [0, 3, 5, 15, 17]) {
      assert.throws(() => addressFromBytes(new Uint8Array(length)), { code: "ERR_ADDRESS" });
    }
  });

  it("steps within the family's number space and never out of it", () => {
    assert.equal(addressPlus(parseAddress("10.0.0.255"), 1n), parseAddress("10.0.1.0"));
    assert.equal(addressPlus(parseAddress("255.255.255.255"), 1n), undefined);
    assert.equal(addressPlus(parseAddress("0.0.0.0"), -1n), undefined);
    assert.equal(addressPlus(parseAddress("::ffff:ffff"), 1n), parseAddress("::1:0:0"));
    assert.equal(addressPlus(addressOf(6, (1n << 128n) - 1n), 1n), undefined);
  });
});
