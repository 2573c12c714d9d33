/** Whether something is so, where that may not be known. */
export type Ternary = "yes" | "no" | "unknown";

/** Bytes of which some are not known. */
export type KnownBytes = readonly (number | undefined)[];

/** Both are so. */
export function both(a: Ternary, b: Ternary): Ternary {
  if (a === "no" || b === "no") return "no";
  return a === "yes" && b === "yes" ? "yes" : "unknown";
}

/** One of them is so. */
export function either(a: Ternary, b: Ternary): Ternary {
  return opposite(both(opposite(a), opposite(b)));
}

export function opposite(a: Ternary): Ternary {
  if (a === "unknown") return "unknown";
  return a === "yes" ? "no" : "yes";
}

/** "yes" or "no". */
export function ternary(isSo: boolean): Ternary {
  return isSo ? "yes" : "no";
}

/** As many bytes of which none is known. */
export function unknownBytes(length: number): KnownBytes {
  return Array.from({ length }, () => undefined);
}

/** Whether bytes equal others of the same length: one that differs is enough for "no", whatever is not known. */
export function equals(bytes: KnownBytes, other: ArrayLike<number>): Ternary {
  let answer: Ternary = bytes.length < other.length ? "unknown" : "yes";
  for (let i = 0; i < other.length; i++) {
    const byte = bytes[i];
    if (byte === undefined) answer = "unknown";
    else if (byte !== other[i]) return "no";
  }
  return answer;
}

/** Whether bytes are between two others, both included, as numbers in network order. */
export function isBetween(bytes: KnownBytes, first: ArrayLike<number>, last: ArrayLike<number>): Ternary {
  return both(isAtLeast(bytes, first), opposite(isAbove(bytes, last)));
}

/** Whether bytes are a number in network order that is not below another. */
export function isAtLeast(bytes: KnownBytes, bound: ArrayLike<number>): Ternary {
  if (compare(bytes, bound, 0) >= 0) return "yes";
  return compare(bytes, bound, 0xff) < 0 ? "no" : "unknown";
}

/** Whether bytes are a number in network order that is above another. */
export function isAbove(bytes: KnownBytes, bound: ArrayLike<number>): Ternary {
  if (compare(bytes, bound, 0) > 0) return "yes";
  return compare(bytes, bound, 0xff) <= 0 ? "no" : "unknown";
}

/** Compares as memcmp does, with this value for what is not known. */
function compare(bytes: KnownBytes, bound: ArrayLike<number>, unknown: number): number {
  for (let i = 0; i < bound.length; i++) {
    const difference = (bytes[i] ?? unknown) - (bound[i] ?? 0);
    if (difference !== 0) return difference;
  }
  return 0;
}

/** `(bytes & mask) ^ xor`: a bit that the mask takes away is known. */
export function masked(bytes: KnownBytes, mask: ArrayLike<number>, xor: ArrayLike<number>): KnownBytes {
  return bytes.map((byte, i) => {
    const bits = mask[i] ?? 0;
    if (byte === undefined) return bits === 0 ? (xor[i] ?? 0) : undefined;
    return (byte & bits) ^ (xor[i] ?? 0);
  });
}

/** The common knowledge of bytes that are the one or the other. */
export function eitherBytes(a: KnownBytes, b: KnownBytes): KnownBytes {
  return a.map((byte, i) => (byte === b[i] ? byte : undefined));
}
