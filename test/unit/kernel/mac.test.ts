import assert from "node:assert/strict";
import fc from "fast-check";
import { macFromBytes, macToBytes, parseMac } from "../../../kernel/ip/mac.ts";

describe("kernel/ip/mac", () => {
  it("reads a MAC address with colons or dashes", () => {
    assert.equal(parseMac("0A-58-0A-F4-01-07"), "0a:58:0a:f4:01:07");
  });

  const bad = [
    "",
    "00:00:00:00:00:00",
    "01:00:5e:00:00:01",
    "a:58:a:f4:1:7",
    "0a:58:0a:f4:01:07:08",
    "0a:58-0a:f4:01:07",
    "0a580af40107",
    "0a:58:0a:f4:01:0g",
    "0a:58:0a:f4:01:07\n",
  ];
  for (const text of bad) {
    it(`refuses ${JSON.stringify(text)} and names field and value`, () => {
      assert.throws(
        () => parseMac(text, "args.cni.mac"),
        (error: unknown) => {
          assert.ok(error instanceof Error && "code" in error);
          assert.equal(error.code, "ERR_ADDRESS");
          assert.ok(error.message.startsWith(`args.cni.mac: ${JSON.stringify(text)} is not a unicast`), error.message);
          return true;
        },
      );
    });
  }

  it("accepts exactly the six bytes the kernel accepts on an interface (is_valid_ether_addr)", () => {
    fc.assert(
      fc.property(fc.uint8Array({ minLength: 6, maxLength: 6 }), (bytes) => {
        const mac = macFromBytes(bytes);
        const isGroup = ((bytes[0] ?? 0) & 1) === 1;
        const isZero = bytes.every((byte) => byte === 0);
        if (isGroup || isZero) assert.throws(() => parseMac(mac), { code: "ERR_ADDRESS" });
        else assert.equal(parseMac(mac.toUpperCase()), mac);
        assert.deepEqual(macToBytes(mac), bytes);
      }),
    );
  });

  it("refuses bytes of any other length", () => {
    for (const length of [0, 5, 7, 8]) {
      assert.throws(() => macFromBytes(new Uint8Array(length)), { code: "ERR_ADDRESS" });
    }
  });
});
