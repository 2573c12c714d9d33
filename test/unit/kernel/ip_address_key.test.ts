import assert from "node:assert/strict";
import fc from "fast-check";
import { type Address, addressFromValue, parseAddress } from "../../../kernel/ip/address.ts";
import { addressKey } from "../../../kernel/ip/address_key.ts";

const low = (key: number | bigint): bigint => BigInt.asUintN(64, BigInt(key));

describe("the key of an address in a large table", () => {
  it("keys are equal exactly where the addresses are equal", () => {
    const half = fc.bigInt({ min: 0n, max: (1n << 64n) - 1n });
    const address6 = (high: bigint, host: bigint): Address =>
      addressFromValue(6, (high << 64n) | host) ?? assert.fail();
    const addresses = fc.oneof(
      fc.bigInt({ min: 0n, max: (1n << 32n) - 1n }).map((value) => addressFromValue(4, value) ?? assert.fail()),
      fc.tuple(half, half).map(([high, host]) => address6(high, host)),
    );
    fc.assert(fc.property(addresses, addresses, (a, b) => (addressKey(a) === addressKey(b)) === (a === b)));
    fc.assert(
      fc.property(half, half, half, (a, b, host) => {
        assert.equal(addressKey(address6(a, host)) === addressKey(address6(b, host)), a === b);
      }),
    );
  });

  it("the low halves of keys, which are hashed, differ for networks and for the first pods of nodes", () => {
    const forms = [
      (n: string) => `fd00:244:${n}::`,
      (n: string) => `fd00:244:${n}::2`,
      (n: string) => `fd00:244:0:${n}::`,
    ];
    for (const form of forms) {
      const keys = Array.from({ length: 5000 }, (_, n) => addressKey(parseAddress(form(n.toString(16)))));
      assert.equal(new Set(keys.map(low)).size, 5000);
    }
  });
});
