const INITIAL = 0xdeadbeef;

/**
 * The kernel's `jhash` of bytes (include/linux/jhash.h), as an unsigned 32-bit number, on a little-endian machine: the
 * kernel reads words in its own order, and all machines Node runs on are of that kind.
 */
export function jenkinsHash(bytes: Uint8Array, seed: number): number {
  // The kernel fills up with zeros what is missing in the last block.
  const view = new DataView(new ArrayBuffer(Math.max(1, Math.ceil(bytes.length / 12)) * 12));
  new Uint8Array(view.buffer).set(bytes);
  let a = (INITIAL + bytes.length + seed) | 0;
  let b = a;
  let c = a;
  for (let offset = 0; offset < view.byteLength; offset += 12) {
    const isLast = offset + 12 >= view.byteLength;
    if (isLast && bytes.length === 0) return c >>> 0;
    a = (a + view.getInt32(offset, true)) | 0;
    b = (b + view.getInt32(offset + 4, true)) | 0;
    c = (c + view.getInt32(offset + 8, true)) | 0;
    if (isLast) break;
    [a, b, c] = mix(a, b, c);
  }
  return finish(a, b, c);
}

/** The number below a modulus that nft's hash expressions make of a hash (reciprocal_scale). */
export function scaled(hash: number, modulus: number): number {
  return Number((BigInt(hash) * BigInt(modulus)) >> 32n);
}

function rotate(word: number, by: number): number {
  return (word << by) | (word >>> (32 - by));
}

function mix(first: number, second: number, third: number): [number, number, number] {
  let [a, b, c] = [first, second, third];
  a = ((a - c) ^ rotate(c, 4)) | 0;
  c = (c + b) | 0;
  b = ((b - a) ^ rotate(a, 6)) | 0;
  a = (a + c) | 0;
  c = ((c - b) ^ rotate(b, 8)) | 0;
  b = (b + a) | 0;
  a = ((a - c) ^ rotate(c, 16)) | 0;
  c = (c + b) | 0;
  b = ((b - a) ^ rotate(a, 19)) | 0;
  a = (a + c) | 0;
  c = ((c - b) ^ rotate(b, 4)) | 0;
  b = (b + a) | 0;
  return [a, b, c];
}

function finish(first: number, second: number, third: number): number {
  let [a, b, c] = [first, second, third];
  c = ((c ^ b) - rotate(b, 14)) | 0;
  a = ((a ^ c) - rotate(c, 11)) | 0;
  b = ((b ^ a) - rotate(a, 25)) | 0;
  c = ((c ^ b) - rotate(b, 16)) | 0;
  a = ((a ^ c) - rotate(c, 4)) | 0;
  b = ((b ^ a) - rotate(a, 14)) | 0;
  c = ((c ^ b) - rotate(b, 24)) | 0;
  return c >>> 0;
}
