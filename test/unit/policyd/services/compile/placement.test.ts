import assert from "node:assert/strict";
import * as fc from "fast-check";
import { addressFromValue } from "../../../../../kernel/ip/address.ts";
import { jenkinsHash, scaled } from "../../../../../policyd/services/rules/jenkins_hash.ts";
import { EXACT_MODULI, modulusFor, mostEndpoints } from "../../../../../policyd/services/rules/endpoint_draw.ts";
import { place } from "../../../../../policyd/services/elements/placement.ts";
import type { SocketAddress } from "../../../../../policyd/services/elements/socket_address.ts";

function socket(number: number): SocketAddress {
  const address = addressFromValue(4, 0x0a00_0000n + BigInt(number));
  assert.ok(address !== undefined);
  return { address, port: 80 };
}

const sockets = fc
  .uniqueArray(fc.nat(100_000), { minLength: 1, maxLength: 300 })
  .map((numbers) => numbers.map((number) => socket(number)));

function slotsOf(endpoints: readonly SocketAddress[], slots: number): ReadonlyMap<unknown, number> {
  return new Map(place(endpoints, slots).map(({ endpoint, slot }) => [endpoint.address, slot]));
}

describe("services/compile: the slots of endpoints", () => {
  it("SVC-09: each endpoint has its own slot below the modulus, in any order", () => {
    fc.assert(
      fc.property(sockets, (endpoints) => {
        const modulus = modulusFor(endpoints.length, "all");
        const slots = slotsOf(endpoints, modulus);
        assert.equal(new Set(slots.values()).size, endpoints.length);
        for (const slot of slots.values()) assert.ok(slot >= 0 && slot < modulus);
        assert.deepEqual(slotsOf(endpoints.toReversed(), modulus), slots);
      }),
    );
  });

  it("more than half of all numbers are an endpoint's slot, and all of them for up to four endpoints", () => {
    for (let count = 1; count <= mostEndpoints("all"); count++) {
      const modulus = modulusFor(count, "all");
      if (count <= EXACT_MODULI.length) assert.equal(modulus, count);
      assert.ok(count > modulus / 2 || count === modulus);
    }
    assert.throws(() => modulusFor(mostEndpoints("local") + 1, "local"), RangeError);
  });

  it("SVC-09: an endpoint that goes moves few others", () => {
    const endpoints = Array.from({ length: 100 }, (_, i) => socket(i));
    const before = slotsOf(endpoints, 128);
    const moved = endpoints.map((gone) => {
      const after = slotsOf(
        endpoints.filter((one) => one !== gone),
        128,
      );
      return [...after].filter(([address, slot]) => before.get(address) !== slot).length;
    });
    assert.ok(moved.reduce((sum, count) => sum + count, 0) / moved.length < 5);
  });

  it("SA-01: the hash equals the kernel's for lengths around its block", () => {
    const bytes = (length: number): Uint8Array => Uint8Array.from({ length }, (_, i) => i);
    assert.equal(jenkinsHash(new Uint8Array(), 0), 0xdeadbeef);
    for (const length of [8, 12, 13, 20, 24]) {
      assert.notEqual(jenkinsHash(bytes(length), 0), jenkinsHash(bytes(length), 1));
    }
    // "Four score and seven years ago" is the example of Jenkins' own lookup3.c.
    assert.equal(jenkinsHash(new TextEncoder().encode("Four score and seven years ago"), 0), 0x17770551);
    assert.equal(scaled(0xffff_ffff, 10), 9);
    assert.equal(scaled(0, 10), 0);
  });
});
