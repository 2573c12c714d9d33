import workers from "node:worker_threads";
import zlib from "node:zlib";

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

function createZstdDecompress(): never {
  throw new Error("the server's answer is compressed by zstd, which takes Node 22.15 or later");
}

/**
 * Adds functions that older versions of Node lack: `Map.groupBy` came with 21, `markAsUncloneable` with 22.10, and zstd
 * with 22.15. The API client binds zstd when it is loaded, though no API server uses it. Administrators run the command
 * line on whatever Node they have; the daemon brings its own.
 */
export function completeOlderNode(): void {
  addMissing(Map, "groupBy", groupBy);
  // No worker is started: the API client only marks what it would not send to one.
  addMissing(workers, "markAsUncloneable", () => undefined);
  addMissing(zlib, "createZstdDecompress", createZstdDecompress);
}

function addMissing(object: object, name: string, value: unknown): void {
  if (!(name in object)) Object.defineProperty(object, name, { value, configurable: true, writable: true });
}
