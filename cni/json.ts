import { invalidField } from "./error.ts";

/**
 * The types of a configuration's values: "any" for a value that is only passed on, one shape in a list for each of the
 * list's elements. All members of an object are optional, as in Go.
 */
export type Shape =
  | "string"
  | "number"
  | "boolean"
  | "object"
  | "any"
  | readonly [Shape]
  | { readonly [key: string]: Shape };

/** The type that {@link decode} returns for a shape. */
export type Decoded<S> = S extends "string"
  ? string
  : S extends "number"
    ? number
    : S extends "boolean"
      ? boolean
      : S extends "object"
        ? object
        : S extends "any"
          ? unknown
          : S extends readonly [infer E]
            ? readonly Decoded<E>[]
            : { readonly [K in keyof S]?: Decoded<S[K]> };

/**
 * Reads a JSON value as Go's decoder does: keys match without case and the last of several wins, null counts as an
 * absent key, unknown keys are ignored, a wrong type is an error.
 *
 * containerd sends runtime data as `HostPort` and `IngressRate`, CRI-O as `hostPort` and `ingressRate`: a plugin that
 * reads only one spelling misses every hostPort of the other runtime.
 *
 * @param path names the value in an error ("ipam.ranges[0]")
 * @throws CniError 7 naming the field, its value and the expected type
 */
export function decode<const S extends Shape>(value: unknown, shape: S, path = "configuration"): Decoded<S> {
  // oxlint-disable-next-line no-unsafe-type-assertion -- this is the gate: each branch has checked its type
  return decodeValue(value, shape, path) as Decoded<S>;
}

function decodeValue(value: unknown, shape: Shape, path: string): unknown {
  if (shape === "any") return value;
  if (shape === "object" || typeof shape === "string") {
    const isRight = shape === "object" ? isObject(value) : typeof value === shape;
    if (!isRight) throw invalidField(path, value, shape);
    return value;
  }
  return isListShape(shape) ? decodeList(value, shape[0], path) : decodeObject(value, shape, path);
}

function decodeList(value: unknown, shape: Shape, path: string): unknown {
  if (!Array.isArray(value)) throw invalidField(path, value, "list");
  const list: unknown[] = [];
  for (let i = 0; i < value.length; i++) list.push(decodeValue(value[i], shape, `${path}[${i}]`));
  return list;
}

function decodeObject(value: unknown, shape: { readonly [key: string]: Shape }, path: string): unknown {
  if (!isObject(value)) throw invalidField(path, value, "object");
  const prefix = path === "configuration" ? "" : `${path}.`;
  const spelling = new Map<string, string>();
  for (const key in shape) spelling.set(key.toLowerCase(), key);
  const decoded: Record<string, unknown> = {};
  for (const key of Object.keys(value)) {
    const name = spelling.get(key.toLowerCase());
    const inner = name === undefined ? undefined : shape[name];
    const element = value[key];
    if (name === undefined || inner === undefined || element === null) continue;
    decoded[name] = decodeValue(element, inner, `${prefix}${name}`);
  }
  return decoded;
}

/** Returns a value as the text that a runtime reads and people may, too. */
export function formatJson(value: object): string {
  return JSON.stringify(value, undefined, 4);
}

/** Whether a value nests deeper than `levels`: JSON.stringify overflows the stack at a few thousand. */
export function isNestedDeeper(value: unknown, levels: number): boolean {
  if (value === null || typeof value !== "object") return false;
  if (levels === 0) return true;
  for (const inner of Object.values(value)) if (isNestedDeeper(inner, levels - 1)) return true;
  return false;
}

/** Whether a value is a JSON object, not a list. */
export function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function isListShape(shape: Shape): shape is readonly [Shape] {
  return Array.isArray(shape);
}
