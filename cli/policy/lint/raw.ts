/** What an object of unknown JSON has at a path; undefined where the path leads nowhere. Only own members are seen. */
export function at(value: unknown, ...path: readonly (string | number)[]): unknown {
  let current: unknown = value;
  for (const step of path) {
    if (typeof current !== "object" || current === null || !Object.hasOwn(current, step)) return undefined;
    current = new Map<string, unknown>(Object.entries(current)).get(String(step));
  }
  return current ?? undefined;
}

/** The elements of a list; none of anything else. */
export function listAt(value: unknown, ...path: readonly (string | number)[]): readonly unknown[] {
  const found = at(value, ...path);
  return Array.isArray(found) ? found : [];
}

/** The members of an object by their names; none of anything else. */
export function membersAt(
  value: unknown,
  ...path: readonly (string | number)[]
): readonly (readonly [string, unknown])[] {
  const found = at(value, ...path);
  return typeof found === "object" && found !== null && !Array.isArray(found) ? Object.entries(found) : [];
}

/** A text; undefined for anything else. */
export function textAt(value: unknown, ...path: readonly (string | number)[]): string | undefined {
  const found = at(value, ...path);
  return typeof found === "string" ? found : undefined;
}
