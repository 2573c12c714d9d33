/** A value with every text in it that has another name in the lab, whole or before a prefix length, under that name. */
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
