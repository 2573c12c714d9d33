/**
 * Returns a value in which every text with another name in the lab is renamed, whether it is a whole name or is
 * followed by a prefix length.
 */
export function renamed<T>(value: T, names: ReadonlyMap<string, string>): T {
  return replaced(value, names) as T;
}

function replaced(value: unknown, names: ReadonlyMap<string, string>): unknown {
  if (typeof value === "string") return replacedText(value, names);
  if (Array.isArray(value)) return value.map((member) => replaced(member, names));
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([key, member]) => [key, replaced(member, names)]));
}

function replacedText(text: string, names: ReadonlyMap<string, string>): string {
  const [, address = text, length = ""] = /^([^/]+)(\/\d+)$/.exec(text) ?? [];
  const known = names.get(text);
  if (known !== undefined) return known;
  const found = names.get(address);
  return found === undefined ? text : found + length;
}
