/** One value by itself or a list of several: a node has tens of thousands of these, and nearly all have one value. */
export type OneOrMore<T> = T | readonly T[];

const NONE: readonly never[] = [];

/** Returns the values as a list; an empty one for undefined. */
export function listOf<T extends object | string>(values: OneOrMore<T> | undefined): readonly T[] {
  if (values === undefined) return NONE;
  return isList(values) ? values : [values];
}

/** Stores the values of a key; an empty list removes the key. */
export function putList<K, T extends object | string>(map: Map<K, OneOrMore<T>>, key: K, values: readonly T[]): void {
  const [first] = values;
  if (first === undefined) map.delete(key);
  else map.set(key, values.length === 1 ? first : values);
}

function isList<T>(values: OneOrMore<T>): values is readonly T[] {
  return Array.isArray(values);
}
