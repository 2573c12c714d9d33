import assert from "node:assert/strict";
import { DrawbridgeError } from "../../../kernel/error.ts";

/** Ways bytes of the kernel, or of a packet, enter our code. */
export type Decoders = Readonly<Record<string, (bytes: Uint8Array) => unknown>>;

/** What a decoder makes of bytes: a value, or the message of ERR_NETLINK_MALFORMED. Any other error is a failure. */
export function outcome(decode: (bytes: Uint8Array) => unknown, bytes: Uint8Array): unknown {
  try {
    return { value: decode(bytes) };
  } catch (error) {
    if (error instanceof DrawbridgeError && error.code === "ERR_NETLINK_MALFORMED") return { refused: error.message };
    throw error;
  }
}

/** Decodes the bytes alone and inside two buffers of different surroundings: the outcome must be the same. */
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
