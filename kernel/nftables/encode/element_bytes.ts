/** Compares byte strings as the kernel does (memcmp). */
export function compareBytes(a: Uint8Array, b: Uint8Array): number {
  for (let i = 0; i < a.length && i < b.length; i++) {
    const difference = (a[i] ?? 0) - (b[i] ?? 0);
    if (difference !== 0) return difference;
  }
  return a.length - b.length;
}

/** Returns the next byte string of the same length; undefined after the last. */
export function successor(bytes: Uint8Array): Uint8Array | undefined {
  const next = bytes.slice();
  for (let i = next.length - 1; i >= 0; i--) {
    next[i] = ((next[i] ?? 0) + 1) & 0xff;
    if (next[i] !== 0) return next;
  }
  return undefined;
}

/** Returns the previous byte string, because the end of an interval is stored as the first value after it. */
export function predecessor(bytes: Uint8Array): Uint8Array {
  const previous = bytes.slice();
  for (let i = previous.length - 1; i >= 0; i--) {
    previous[i] = ((previous[i] ?? 0) - 1) & 0xff;
    if (previous[i] !== 0xff) break;
  }
  return previous;
}
