import { member } from "../../policyd/source/api/member.ts";

/** What an object of unknown JSON has at a path; undefined where that is null, too, or the path leads nowhere. */
export function at(value: unknown, ...path: readonly (string | number)[]): unknown {
  return member(value, ...path) ?? undefined;
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
