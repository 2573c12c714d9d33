function groupBy<K, T>(items: Iterable<T>, keyOf: (item: T, index: number) => K): Map<K, T[]> {
  const groups = new Map<K, T[]>();
  let index = 0;
  for (const item of items) {
    const key = keyOf(item, index++);
    const group = groups.get(key);
    if (group === undefined) groups.set(key, [item]);
    else group.push(item);
  }
  return groups;
}

/**
 * Adds what the language lacks in Node 20: `Map.groupBy` came with 21. Administrators run the command line on whatever
 * Node they have; the daemon brings its own.
 */
export function completeOlderNode(): void {
  if (Object.hasOwn(Map, "groupBy")) return;
  Object.defineProperty(Map, "groupBy", { value: groupBy, configurable: true, writable: true });
}
