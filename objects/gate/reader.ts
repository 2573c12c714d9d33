import { attempt, DrawbridgeError } from "../../kernel/error.ts";
import type { ProblemList } from "../problem_list.ts";
import { type Address, parseAddress } from "../../kernel/ip/address.ts";
import { type Cidr, cidrContains, IPV4_MAPPED, networkAddress, parseCidr } from "../../kernel/ip/cidr.ts";

/** More elements than any real list has: the API server limits an object to 1.5 MiB. */
const MOST_ELEMENTS = 65_536;
const LONGEST_STRING = 4096;
const LONGEST_SHOWN = 80;

/**
 * Reads the fields of one object of unknown JSON by name and type.
 *
 * A null counts as absent, as it does for the API server. Fields that are not read are ignored. Only own members count.
 */
export class Reader {
  /** The path of this object, such as `spec.ports[0]`; empty for the whole. */
  readonly field: string;
  readonly #members: Readonly<Record<string, unknown>>;
  readonly #problems: ProblemList | undefined;

  /**
   * @param problems receives a message for each element that {@link each} omits; by default the messages are
   *   dropped
   * @throws DrawbridgeError ERR_OBJECT when the value is not an object
   */
  constructor(value: unknown, field: string, problems?: ProblemList) {
    if (!isObject(value)) {
      throw invalid(field === "" ? "object" : field, value, "an object");
    }
    this.field = field;
    this.#members = value;
    this.#problems = problems;
  }

  path(key: string): string {
    return this.field === "" ? key : `${this.field}.${key}`;
  }

  /** Returns the raw value of a key; undefined for null. */
  get(key: string): unknown {
    return Object.hasOwn(this.#members, key) ? (this.#members[key] ?? undefined) : undefined;
  }

  entries(): readonly (readonly [string, unknown])[] {
    return Object.entries(this.#members);
  }

  /** @throws DrawbridgeError ERR_OBJECT naming field, value and expectation, as do all methods below */
  string(key: string): string {
    const value = this.optionalString(key);
    if (value === undefined) throw invalid(this.path(key), value, "a string");
    return value;
  }

  optionalString(key: string, longest: number = LONGEST_STRING): string | undefined {
    const value = this.get(key);
    return value === undefined ? undefined : expectString(value, this.path(key), longest);
  }

  boolean(key: string, absent: boolean): boolean {
    const value = this.get(key) ?? absent;
    if (typeof value !== "boolean") throw invalid(this.path(key), value, "true or false");
    return value;
  }

  integer(key: string, least: number, most: number): number {
    const value = this.optionalInteger(key, least, most);
    if (value === undefined) throw invalid(this.path(key), value, `an integer from ${least} to ${most}`);
    return value;
  }

  optionalInteger(key: string, least: number, most: number): number | undefined {
    const value = this.get(key);
    return value === undefined ? undefined : expectInteger(value, this.path(key), least, most);
  }

  /** Returns one of the given words; `absent` for an absent field. */
  oneOf<const T extends string>(key: string, words: readonly T[], absent: T): T {
    const value = this.get(key) ?? absent;
    const word = words.find((candidate) => candidate === value);
    if (word === undefined) throw invalid(this.path(key), value, `one of ${words.join(", ")}`);
    return word;
  }

  /**
   * Returns the same as {@link oneOf}, for a field that is not a pointer in Go's API types: there the API server takes
   * an empty text for an absent one.
   */
  oneOfOrEmpty<const T extends string>(key: string, words: readonly T[], absent: T): T {
    return this.get(key) === "" ? absent : this.oneOf(key, words, absent);
  }

  /** Returns a nested object; one without members for an absent field. */
  object(key: string): Reader {
    return new Reader(this.get(key) ?? {}, this.path(key), this.#problems);
  }

  optionalObject(key: string): Reader | undefined {
    return this.get(key) === undefined ? undefined : this.object(key);
  }

  /** Returns the elements of a list; undefined for an absent field. */
  optionalList(key: string, most: number = MOST_ELEMENTS): readonly unknown[] | undefined {
    const value = this.get(key);
    if (value === undefined) return undefined;
    if (!isList(value)) throw invalid(this.path(key), value, "a list");
    if (value.length > most) {
      throw invalid(this.path(key), `${value.length} elements`, `at most ${most}`);
    }
    return value;
  }

  /**
   * Decodes every element of a list; none for an absent list.
   *
   * @throws DrawbridgeError that of `decode`, so one invalid element makes the whole list invalid
   */
  all<T>(key: string, decode: (value: unknown, field: string, index: number) => T, most?: number): readonly T[] {
    const elements = this.optionalList(key, most) ?? [];
    return Object.freeze(elements.map((element, index) => decode(element, `${this.path(key)}[${index}]`, index)));
  }

  /**
   * Decodes the elements of a list, and omits those for which `decode` throws. They are reported as problems: the
   * rest does not depend on them.
   */
  each<T>(
    key: string,
    decode: (value: unknown, field: string, index: number) => T | undefined,
    most?: number,
  ): readonly T[] {
    const passed: T[] = [];
    for (const [index, element] of (this.optionalList(key, most) ?? []).entries()) {
      const decoded = this.attempt(() => decode(element, `${this.path(key)}[${index}]`, index));
      if (decoded !== undefined) passed.push(decoded);
    }
    return Object.freeze(passed);
  }

  /** Does the same as {@link each} for objects. A null is an object without members, as in Go's lists of structures. */
  eachObject<T>(key: string, decode: (element: Reader, index: number) => T | undefined, most?: number): readonly T[] {
    return this.each(key, (value, field, index) => decode(new Reader(value ?? {}, field, this.#problems), index), most);
  }

  /** Returns the result of `decode`, or reports its error and returns undefined where the rest stays usable. */
  attempt<T>(decode: () => T): T | undefined {
    return attempt<T | undefined>(decode, ({ message }) => {
      this.tell(`${message} (ignored)`);
      return undefined;
    });
  }

  /** Reports a problem that leaves the object usable. */
  tell(problem: string): void {
    this.#problems?.tell(problem);
  }
}

/** @throws DrawbridgeError ERR_OBJECT */
export function expectString(value: unknown, field: string, longest: number = LONGEST_STRING): string {
  if (typeof value !== "string") throw invalid(field, value, "a string (in YAML: quote it)");
  if (value.length > longest) throw invalid(field, value, `at most ${longest} characters`);
  return value;
}

/** @throws DrawbridgeError ERR_OBJECT */
export function expectInteger(value: unknown, field: string, least: number, most: number): number {
  if (typeof value === "number" && Number.isInteger(value) && value >= least && value <= most) return value;
  throw invalid(field, value, `an integer from ${least} to ${most}`);
}

/** Returns the error for a field: `spec.ports[0].port: 70000; expected an integer from 1 to 65535`. */
export function invalid(field: string, value: unknown, expectation: string): DrawbridgeError {
  return new DrawbridgeError("ERR_OBJECT", `${field}: ${show(value)}; expected ${expectation}`);
}

/** Returns whether a value is an object, and neither null nor a list. */
export function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function isList(value: unknown): value is readonly unknown[] {
  return Array.isArray(value);
}

function show(value: unknown): string {
  // Nested values are not printed: a deep one would overflow the stack, and a Secret does not belong in a log.
  if (typeof value === "object" && value !== null) return Array.isArray(value) ? "a list" : "an object";
  const text = typeof value === "bigint" ? String(value) : (JSON.stringify(value) ?? "missing");
  return text.length <= LONGEST_SHOWN ? text : `${text.slice(0, LONGEST_SHOWN)}…`;
}

/** Returns an IP address. @throws DrawbridgeError ERR_OBJECT for another type, ERR_ADDRESS for another text */
export function expectAddress(value: unknown, field: string): Address {
  return parseAddress(expectString(value, field), field);
}

/**
 * Returns the network of a prefix, with host bits cleared, as the API server and every engine read it. IPv4-mapped
 * prefixes are refused: some read them as IPv4, as IPv6 they have no packets, and a Deny of one would deny nothing.
 *
 * @throws DrawbridgeError ERR_OBJECT for another type or mapped addresses, ERR_ADDRESS for another text
 */
export function expectNetwork(value: unknown, field: string): Cidr {
  const cidr = parseCidr(expectString(value, field), field);
  if (cidrContains(IPV4_MAPPED, cidr.address)) {
    throw invalid(field, value, 'an IPv4 prefix in its own form ("10.0.0.0/8")');
  }
  return Object.freeze({ address: networkAddress(cidr), prefixLength: cidr.prefixLength });
}
