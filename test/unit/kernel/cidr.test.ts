import assert from "node:assert/strict";
import fc from "fast-check";
import { addressFromValue, bitsOf, compareAddresses, formatAddress, parseAddress } from "../../../kernel/ip/address.ts";
import {
  type Cidr,
  cidrContains,
  cidrFamily,
  formatCidr,
  hasHostBits,
  lastAddress,
  networkAddress,
  outermost,
  parseCidr,
} from "../../../kernel/ip/cidr.ts";

const anyCidr: fc.Arbitrary<Cidr> = fc.constantFrom<4 | 6>(4, 6).chain((family) =>
  fc
    .tuple(fc.bigInt({ min: 0n, max: (1n << BigInt(bitsOf(family))) - 1n }), fc.nat(bitsOf(family)))
    .map(([value, prefixLength]) => {
      const address = addressFromValue(family, value);
      assert.ok(address !== undefined);
      return { address, prefixLength };
    }),
);

/**
 * Returns the prefix as a string of binary digits: a slow second computation, with which the masks below are compared.
 */
function binary(cidr: Cidr): string {
  return BigInt(cidr.address)
    .toString(2)
    .padStart(bitsOf(cidrFamily(cidr)), "0");
}

describe("kernel/ip/cidr", () => {
  const table: readonly (readonly [text: string, network: string, last: string, hostBits: boolean])[] = [
    ["10.244.1.7/24", "10.244.1.0", "10.244.1.255", true],
    ["0.0.0.0/0", "0.0.0.0", "255.255.255.255", false],
    ["10.0.0.1/32", "10.0.0.1", "10.0.0.1", false],
    ["FD00:244::7/64", "fd00:244::", "fd00:244::ffff:ffff:ffff:ffff", true],
  ];
  for (const [text, network, last, hostBits] of table) {
    it(`reads ${text}`, () => {
      const cidr = parseCidr(text);
      assert.equal(formatAddress(networkAddress(cidr)), network);
      assert.equal(formatAddress(lastAddress(cidr)), last);
      assert.equal(hasHostBits(cidr), hostBits);
      assert.ok(Object.isFrozen(cidr));
    });
  }

  const bad = [
    "10.0.0.0",
    "10.0.0.0/",
    "/24",
    "10.0.0.0/33",
    "::/129",
    "10.0.0.0/024",
    "10.0.0.0/-1",
    "10.0.0.0/8/8",
    "10.0.0.0/8\n",
    "10.0.0.0/255.0.0.0",
    "010.0.0.0/8",
  ];
  for (const text of bad) {
    it(`refuses ${JSON.stringify(text)} and names field and value`, () => {
      assert.throws(
        () => parseCidr(text, "ipam.subnet"),
        (error: unknown) => {
          assert.ok(error instanceof Error && "code" in error);
          assert.equal(error.code, "ERR_ADDRESS");
          assert.ok(error.message.startsWith(`ipam.subnet: ${JSON.stringify(text)} is not a prefix`), error.message);
          return true;
        },
      );
    });
  }

  it("a CIDR contains the addresses that share its prefix, and none of the other family", () => {
    fc.assert(
      fc.property(anyCidr, anyCidr, (cidr, other) => {
        const sameFamily = cidrFamily(cidr) === cidrFamily(other);
        const prefix = binary(cidr).slice(0, cidr.prefixLength);
        assert.equal(cidrContains(cidr, other.address), sameFamily && binary(other).startsWith(prefix));
        assert.ok(cidrContains(cidr, networkAddress(cidr)) && cidrContains(cidr, lastAddress(cidr)));
      }),
    );
    assert.equal(cidrContains(parseCidr("::/0"), parseAddress("10.0.0.1")), false);
    assert.equal(cidrContains(parseCidr("0.0.0.0/0"), parseAddress("::1")), false);
  });

  it("outermost returns the networks that no other contains, each once and in order", () => {
    // Of few bits, so that networks contain each other.
    const nested = fc
      .tuple(fc.constantFrom("10.0.0.0", "fd00::"), fc.nat(15), fc.nat(4))
      .map(([base, value, length]): Cidr => {
        const first = parseAddress(base);
        const bits = bitsOf(cidrFamily({ address: first, prefixLength: 0 }));
        const address = addressFromValue(bits === 32 ? 4 : 6, BigInt(first) + BigInt(value));
        const prefixLength = bits - 4 + length;
        return { address: networkAddress({ address: address ?? first, prefixLength }), prefixLength };
      });
    fc.assert(
      fc.property(fc.array(nested, { maxLength: 12 }), (cidrs) => {
        const isInside = (one: Cidr, other: Cidr): boolean =>
          other.prefixLength < one.prefixLength && cidrContains(other, one.address);
        const texts = cidrs.filter((one) => !cidrs.some((other) => isInside(one, other))).map(formatCidr);
        const found = outermost(cidrs);
        assert.deepEqual(new Set(found.map(formatCidr)), new Set(texts));
        assert.equal(found.length, new Set(texts).size);
        assert.deepEqual(
          found,
          found.toSorted((a, b) => compareAddresses(a.address, b.address)),
        );
      }),
    );
    assert.deepEqual(outermost([parseCidr("10.0.0.0/8"), parseCidr("::/0")]).map(formatCidr), ["10.0.0.0/8", "::/0"]);
    assert.deepEqual(outermost([parseCidr("10.0.0.0/8"), parseCidr("0.0.0.0/0")]).map(formatCidr), ["0.0.0.0/0"]);
  });
});
