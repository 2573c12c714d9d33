import assert from "node:assert/strict";
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
