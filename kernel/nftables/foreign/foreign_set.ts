import type { AttributeValues } from "../../netlink/attribute.ts";
import type { setAttributes } from "../encode/message.ts";
import { verdictOf } from "../encode/lowering.ts";
import type { Verdict } from "../model/statement.ts";
import type { ForeignElement } from "./foreign_ruleset.ts";
import { both, equals, isAtLeast, isBetween, type KnownBytes, opposite, type Ternary } from "./ternary.ts";

/** The largest set that is evaluated. */
export const MOST_ELEMENTS = 20_000;
/** NFT_SET_INTERVAL, NFT_SET_OBJECT. */
const INTERVAL = 0x4;
const OBJECT = 0x40;
/** NFT_SET_ELEM_INTERVAL_END, NFT_SET_ELEM_CATCHALL. */
const INTERVAL_END = 0x1;
const CATCH_ALL = 0x2;
const EMPTY = new Uint8Array();

/** The value of an element: a verdict, data or neither. */
interface Held {
  readonly verdict: Verdict | undefined;
  readonly data: Uint8Array | undefined;
  /** Whether a rate or a quota of its own decides whether the lookup finds it. */
  readonly isConditional: boolean;
}

/** A range of keys from `first`: in each field up to `last`, both included, or below `end`. */
interface Entry extends Held {
  readonly first: Uint8Array;
  readonly last: Uint8Array | undefined;
  readonly end: Uint8Array | undefined;
}

/** A set or a map of another program. */
export interface ForeignSet {
  /** The size of each field of a key in bytes. */
  readonly fields: readonly number[];
  readonly keyLength: number;
  readonly isInterval: boolean;
  readonly entries: readonly Entry[];
  readonly otherwise: Held | undefined;
  /** The reason why it cannot be evaluated, if any. */
  readonly obstacle: string | undefined;
}

/** Returns a set built from the kernel's description and its elements. */
export function foreignSet(
  { name = "", flags = 0, keyLength = 0, description, dataType }: AttributeValues<typeof setAttributes>,
  elements: readonly ForeignElement[],
): ForeignSet {
  const isInterval = (flags & INTERVAL) !== 0;
  const obstacle =
    elements.length > MOST_ELEMENTS
      ? `set ${name} has more than ${MOST_ELEMENTS} elements`
      : (flags & OBJECT) !== 0 && dataType !== undefined
        ? `map ${name} holds objects`
        : undefined;
  const fields = description?.fields?.map(({ length = 0 }) => length) ?? [];
  const catchAll = elements.find((one) => ((one.flags ?? 0) & CATCH_ALL) !== 0);
  const keyed = obstacle === undefined ? elements.filter(({ key }) => key?.value !== undefined) : [];
  return {
    fields: fields.length > 0 ? fields : [keyLength],
    keyLength,
    isInterval,
    entries: isInterval && fields.length <= 1 ? ranges(keyed) : keyed.map(entryOf),
    otherwise: catchAll === undefined ? undefined : heldBy(catchAll),
    obstacle,
  };
}

function heldBy({ data, instruction, expressions }: ForeignElement): Held {
  const { verdict, value } = data ?? {};
  const name = instruction?.name ?? "";
  return {
    verdict: verdict?.code === undefined ? undefined : verdictOf(verdict.code, verdict.chain),
    data: value,
    isConditional: expressions !== undefined || (name !== "" && name !== "counter" && name !== "last"),
  };
}

function entryOf(element: ForeignElement): Entry {
  const first = element.key?.value ?? EMPTY;
  return { ...heldBy(element), first, last: element.keyEnd?.value ?? first, end: undefined };
}

/** Each element that is not an end begins a range up to the next element of the set; the last range is open. */
function ranges(elements: readonly ForeignElement[]): readonly Entry[] {
  const isEnd = (one: ForeignElement): boolean => ((one.flags ?? 0) & INTERVAL_END) !== 0;
  const sorted = [...elements].sort((a, b) => {
    const order = compareBytes(a.key?.value ?? EMPTY, b.key?.value ?? EMPTY);
    return order !== 0 ? order : Number(isEnd(b)) - Number(isEnd(a));
  });
  return sorted.flatMap((one, i) => {
    if (isEnd(one)) return [];
    const last = one.keyEnd?.value;
    return [{ ...entryOf(one), last, end: last === undefined ? sorted[i + 1]?.key?.value : undefined }];
  });
}

function compareBytes(a: Uint8Array, b: Uint8Array): number {
  for (let i = 0; i < Math.max(a.length, b.length); i++) {
    const difference = (a[i] ?? 0) - (b[i] ?? 0);
    if (difference !== 0) return difference;
  }
  return 0;
}

/** The result of a lookup. */
export interface Finding {
  /** "yes" only when one element is found for certain. */
  readonly isFound: Ternary;
  /** All elements that may be found, in any order. */
  readonly candidates: readonly Held[];
}

/** Looks up a key of which some bytes may be unknown. */
export function lookUp(set: ForeignSet, key: KnownBytes): Finding {
  const candidates: Held[] = [];
  let isFound: Ternary = "no";
  for (const entry of set.entries) {
    const isThis = isIn(set, entry, key);
    if (isThis === "no") continue;
    candidates.push(entry);
    if (isThis === "yes" && !entry.isConditional) isFound = "yes";
    else if (isFound === "no") isFound = "unknown";
    if (isThis === "yes" && set.fields.length <= 1) return { isFound, candidates };
  }
  if (isFound !== "yes" && set.otherwise !== undefined) {
    candidates.push(set.otherwise);
    isFound = set.otherwise.isConditional ? "unknown" : "yes";
  }
  return { isFound, candidates };
}

function isIn({ fields, isInterval }: ForeignSet, { first, last, end }: Entry, key: KnownBytes): Ternary {
  if (!isInterval) return equals(key.slice(0, first.length), first);
  if (fields.length <= 1) {
    const bytes = key.slice(0, first.length);
    if (last !== undefined) return isBetween(bytes, first, last);
    return both(isAtLeast(bytes, first), end === undefined ? "yes" : opposite(isAtLeast(bytes, end)));
  }
  let answer: Ternary = "yes";
  let offset = 0;
  for (const length of fields) {
    const [from, to] = [offset, offset + length];
    answer = both(answer, isBetween(key.slice(from, to), first.subarray(from, to), (last ?? first).subarray(from, to)));
    offset += (length + 3) & ~3;
  }
  return answer;
}
