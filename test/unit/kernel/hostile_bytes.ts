import assert from "node:assert/strict";
import fc from "fast-check";
import { littleEndian } from "../../../kernel/byte_order.ts";
import { DrawbridgeError } from "../../../kernel/error.ts";

/** Functions by name through which bytes of the kernel, or of a packet, enter our code. */
export type Decoders = Readonly<Record<string, (bytes: Uint8Array) => unknown>>;

/** Returns a decoder's value, or the message of its ERR_NETLINK_MALFORMED; any other error is thrown. */
export function outcome(decode: (bytes: Uint8Array) => unknown, bytes: Uint8Array): unknown {
  try {
    return { value: decode(bytes) };
  } catch (error) {
    if (error instanceof DrawbridgeError && error.code === "ERR_NETLINK_MALFORMED") return { refused: error.message };
    throw error;
  }
}

/**
 * Asserts that decoding the bytes by themselves and inside two buffers with different surroundings has the same
 * outcome.
 */
export function assertDecodersHold(decoders: Decoders, bytes: Uint8Array, surrounding = 0xa5): void {
  for (const [name, decode] of Object.entries(decoders)) {
    const alone = outcome(decode, bytes.slice());
    for (const filler of [surrounding, surrounding ^ 0xff]) {
      const larger = new Uint8Array(bytes.length + 96).fill(filler);
      larger.set(bytes, 48);
      const inside = outcome(decode, larger.subarray(48, 48 + bytes.length));
      assert.deepEqual(inside, alone, `${name}: bytes outside of the buffer matter`);
    }
  }
}

/**
 * Adds a test that decoders hold on messages cut anywhere or with hostile lengths, with bytes overwritten, and on
 * random bytes alone and after a message's header.
 */
export function itHolds(decoders: Decoders, bodies: readonly Uint8Array[], numRuns: number, header = 4): void {
  it("the decoders hold on messages that are cut or changed, and on random bytes", function () {
    this.timeout(120_000);
    for (const body of bodies) {
      for (let length = 0; length <= body.length; length++) assertDecodersHold(decoders, body.subarray(0, length));
      for (let offset = 0; offset + 2 <= body.length; offset += 2) {
        for (const length of [0, 1, 3, 4, 5, 0x7fff, 0xffff]) {
          const hostile = body.slice();
          new DataView(hostile.buffer).setUint16(offset, length, littleEndian);
          for (const decode of Object.values(decoders)) outcome(decode, hostile);
        }
      }
    }
    const changes = fc.array(fc.tuple(fc.nat(599), fc.nat(255)), { maxLength: 8 });
    const random = fc.uint8Array({ maxLength: 300 });
    fc.assert(
      fc.property(fc.constantFrom(...bodies), changes, random, fc.nat(255), (body, changed, bytes, surrounding) => {
        const copy = body.slice();
        for (const [offset, value] of changed) copy[offset % body.length] = value;
        assertDecodersHold(decoders, copy, surrounding);
        assertDecodersHold(decoders, bytes, surrounding);
        assertDecodersHold(decoders, Uint8Array.of(...body.subarray(0, header), ...bytes));
      }),
      { numRuns },
    );
  });
}
