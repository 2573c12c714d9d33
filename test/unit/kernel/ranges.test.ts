import assert from "node:assert/strict";
import * as fc from "fast-check";
import { type Address, addressFromValue, type Family, FAMILIES } from "../../../kernel/ip/address.ts";
import { type Cidr, cidrContains } from "../../../kernel/ip/cidr.ts";
import {
  type AddressRange,
  isInRanges,
  joinedRanges,
  rangeOf,
  unitedRanges,
  withoutRanges,
} from "../../../kernel/ip/ranges.ts";

/** The starts of three blocks of 64 addresses in each family: the first, one in the middle, and the last. */
const STARTS = { 4: [0n, 0x0a00_0000n, 0xffff_ffc0n], 6: [0n, 1n << 64n, (1n << 128n) - 64n] } as const;

function address(family: Family, value: bigint): Address {
  const found = addressFromValue(family, value);
  assert.ok(found !== undefined);
  return found;
}

const cidr: fc.Arbitrary<Cidr> = fc
  .record({
    family: fc.constantFrom(4, 6),
    start: fc.nat(2),
    value: fc.nat(63),
    hostBits: fc.nat(6),
    isEverything: fc.nat(20),
  })
  .map(({ family, start, value, hostBits, isEverything }) => ({
    address: address(family, (STARTS[family][start] ?? 0n) + BigInt(value)),
    prefixLength: isEverything === 0 ? 0 : (family === 4 ? 32 : 128) - hostBits,
  }));

const WATCHED = FAMILIES.flatMap((family) =>
  STARTS[family].flatMap((start) => Array.from({ length: 64 }, (_, i) => address(family, start + BigInt(i)))),
);

function assertInOrder(ranges: readonly AddressRange[]): void {
  for (const [index, { first, last }] of ranges.entries()) {
    assert.ok(first <= last);
    const before = ranges[index - 1];
    if (before === undefined || typeof before.last !== typeof first) continue;
    assert.ok(BigInt(first) > BigInt(before.last) + 1n, "adjacent ranges");
  }
}

describe("kernel/ip: ranges of addresses", () => {
  it("united ranges without the excluded ones contain exactly the expected addresses, sorted and not adjacent", () => {
    fc.assert(
      fc.property(fc.array(cidr, { maxLength: 6 }), fc.array(cidr, { maxLength: 4 }), (cidrs, holes) => {
        const ranges = withoutRanges(unitedRanges(cidrs.map(rangeOf)), holes.map(rangeOf));
        assertInOrder(ranges);
        for (const one of WATCHED) {
          const has = (all: readonly Cidr[]): boolean => all.some((prefix) => cidrContains(prefix, one));
          assert.equal(isInRanges(ranges, one), has(cidrs) && !has(holes), String(one));
        }
      }),
    );
  });

  it("joinedRanges returns only the united ranges of one family", () => {
    fc.assert(
      fc.property(fc.array(cidr, { maxLength: 6 }), (cidrs) => {
        const [four, six] = [joinedRanges(cidrs, 4), joinedRanges(cidrs, 6)];
        assert.deepEqual([...four, ...six], unitedRanges(cidrs.map(rangeOf)));
        assert.ok(four.every(({ first }) => typeof first === "number"));
      }),
    );
  });
});
