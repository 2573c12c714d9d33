const INITIAL = 0xdeadbeef;

/**
 * Returns the kernel's `jhash` of bytes (include/linux/jhash.h) as an unsigned 32-bit number, on a little-endian
 * machine: the kernel reads words in the machine's byte order, and we run on little-endian machines only.
 */
export function jenkinsHash(bytes: Uint8Array, seed: number): number {
  let a = (INITIAL + bytes.length + seed) | 0;
  let b = a;
  let c = a;
  if (bytes.length === 0) return c >>> 0;
  for (let offset = 0; ; offset += 12) {
    a = (a + word(bytes, offset)) | 0;
    b = (b + word(bytes, offset + 4)) | 0;
    c = (c + word(bytes, offset + 8)) | 0;
    if (offset + 12 >= bytes.length) return finish(a, b, c);
    [a, b, c] = mix(a, b, c);
  }
}

/** Reads four bytes as a word; bytes missing in the last block are zero, as in the kernel. */
function word(bytes: Uint8Array, offset: number): number {
  const byte0 = bytes[offset] ?? 0;
  const byte1 = bytes[offset + 1] ?? 0;
  const byte2 = bytes[offset + 2] ?? 0;
  const byte3 = bytes[offset + 3] ?? 0;
  return byte0 | (byte1 << 8) | (byte2 << 16) | (byte3 << 24);
}

/** Returns the number below a modulus that nft's hash expressions derive from a hash (reciprocal_scale). */
export function scaled(hash: number, modulus: number): number {
  return Number((BigInt(hash) * BigInt(modulus)) >> 32n);
}

function rotate(bits: number, by: number): number {
  return (bits << by) | (bits >>> (32 - by));
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
