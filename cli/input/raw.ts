import { member } from "../../policyd/sources/api/json_member.ts";

/** Returns the value at a path of unknown JSON; undefined where it is null or absent. */
export function at(value: unknown, ...path: readonly (string | number)[]): unknown {
  return member(value, ...path) ?? undefined;
}

/** Returns the elements of a list; none for anything else. */
export function listAt(value: unknown, ...path: readonly (string | number)[]): readonly unknown[] {
  const found = at(value, ...path);
  return Array.isArray(found) ? found : [];
}

/** Returns the members of an object with their names; none for anything else. */
export function membersAt(
  value: unknown,
  ...path: readonly (string | number)[]
): readonly (readonly [string, unknown])[] {
  const found = at(value, ...path);
  return typeof found === "object" && found !== null && !Array.isArray(found) ? Object.entries(found) : [];
}

/** Returns a text; undefined for anything else. */
export function textAt(value: unknown, ...path: readonly (string | number)[]): string | undefined {
  const found = at(value, ...path);
  return typeof found === "string" ? found : undefined;
}

/** Returns the members of an object that are texts. */
export function textsAt(value: unknown, ...path: readonly string[]): readonly (readonly [string, string])[] {
  return membersAt(value, ...path).flatMap(([key, text]) => (typeof text === "string" ? [[key, text] as const] : []));
}
