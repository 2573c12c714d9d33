/** The answer to a question; "unknown" when it depends on something unknown. */
export type Ternary = "yes" | "no" | "unknown";

/** Bytes of which some may be unknown. */
export type KnownBytes = readonly (number | undefined)[];

/** Returns the conjunction of two answers. */
export function both(a: Ternary, b: Ternary): Ternary {
  if (a === "no" || b === "no") return "no";
  return a === "yes" && b === "yes" ? "yes" : "unknown";
}

/** Returns the disjunction of two answers. */
export function either(a: Ternary, b: Ternary): Ternary {
  return opposite(both(opposite(a), opposite(b)));
}

export function opposite(a: Ternary): Ternary {
  if (a === "unknown") return "unknown";
  return a === "yes" ? "no" : "yes";
}

export function ternary(isSo: boolean): Ternary {
  return isSo ? "yes" : "no";
}

/** Returns this number of unknown bytes. */
export function unknownBytes(length: number): KnownBytes {
  return Array.from({ length }, () => undefined);
}

/** Tells whether bytes equal others of the same length. One known difference is enough for "no". */
export function equals(bytes: KnownBytes, other: ArrayLike<number>): Ternary {
  let answer: Ternary = bytes.length < other.length ? "unknown" : "yes";
  for (let i = 0; i < other.length; i++) {
    const byte = bytes[i];
    if (byte === undefined) answer = "unknown";
    else if (byte !== other[i]) return "no";
  }
  return answer;
}

/** Tells whether bytes, as a number in network order, are between two others, both included. */
export function isBetween(bytes: KnownBytes, first: ArrayLike<number>, last: ArrayLike<number>): Ternary {
  return both(isAtLeast(bytes, first), opposite(isAbove(bytes, last)));
}

/** Tells whether bytes, as a number in network order, are not below another number. */
export function isAtLeast(bytes: KnownBytes, bound: ArrayLike<number>): Ternary {
  if (compare(bytes, bound, 0) >= 0) return "yes";
  return compare(bytes, bound, 0xff) < 0 ? "no" : "unknown";
}

/** Tells whether bytes, as a number in network order, are above another number. */
export function isAbove(bytes: KnownBytes, bound: ArrayLike<number>): Ternary {
  if (compare(bytes, bound, 0) > 0) return "yes";
  return compare(bytes, bound, 0xff) <= 0 ? "no" : "unknown";
}

/** Compares as memcmp does, with `unknown` in place of unknown bytes. */
function compare(bytes: KnownBytes, bound: ArrayLike<number>, unknown: number): number {
  for (let i = 0; i < bound.length; i++) {
    const difference = (bytes[i] ?? unknown) - (bound[i] ?? 0);
    if (difference !== 0) return difference;
  }
  return 0;
}

/** Returns `(bytes & mask) ^ xor`. A bit that the mask clears is known. */
export function masked(bytes: KnownBytes, mask: ArrayLike<number>, xor: ArrayLike<number>): KnownBytes {
  return bytes.map((byte, i) => {
    const bits = mask[i] ?? 0;
    if (byte === undefined) return bits === 0 ? (xor[i] ?? 0) : undefined;
    return (byte & bits) ^ (xor[i] ?? 0);
  });
}

/** Returns the bytes that two possible values have in common. */
export function eitherBytes(a: KnownBytes, b: KnownBytes): KnownBytes {
  return a.map((byte, i) => (byte === b[i] ? byte : undefined));
}
