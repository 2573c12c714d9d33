import type { Cidr } from "../../ip/cidr.ts";
import type { Address } from "../../ip/address.ts";
import type { Scalar } from "./data_type.ts";
import type { Concatenation, ConnectionName, Expression, JenkinsHash, MapLookup, Selector } from "./expression.ts";

/** The fate of a packet, or the chain in which it continues. */
export type Verdict =
  | { readonly kind: "accept" | "drop" | "return" }
  | { readonly kind: "jump" | "goto"; readonly chain: string };

/** The right side of a match. */
export type Operand =
  | { readonly kind: "value"; readonly value: Scalar }
  | { readonly kind: "range"; readonly first: Scalar; readonly last: Scalar }
  | { readonly kind: "prefix"; readonly cidr: Cidr }
  /** Interface names with this prefix. */
  | { readonly kind: "wildcard"; readonly prefix: string }
  /** At least one of these bits is set (with "!=": none). */
  | { readonly kind: "flags"; readonly names: readonly string[] }
  /** The bits under a mask have this value. */
  | { readonly kind: "masked"; readonly mask: number; readonly value: number }
  | { readonly kind: "set"; readonly name: string }
  /** A constant set that only this rule uses. */
  | { readonly kind: "anonymous"; readonly values: readonly Scalar[] };

/** A test; a packet that fails it leaves the rule. */
export interface Match {
  readonly kind: "match";
  readonly left: Exclude<Expression, MapLookup>;
  readonly isNegated: boolean;
  readonly right: Operand;
}

/** The new destination of a packet: the data of a map, an address or an address and a port. */
export interface NatTarget {
  readonly lookup: MapLookup;
  readonly family: "ip" | "ip6";
  readonly hasPort: boolean;
}

export interface RateLimit {
  readonly kind: "limit";
  readonly rate: number;
  readonly unit: "second" | "hour";
  /** In packets. */
  readonly burst: number;
  /** True to match packets above the rate, false for those within it. */
  readonly isOver: boolean;
}

/** The address fields of a packet. */
export type AddressField = "ip saddr" | "ip daddr" | "ip6 saddr" | "ip6 daddr";

/** One part of a rule. Parts are executed from left to right. */
export type Statement =
  | Match
  | RateLimit
  | { readonly kind: "counter" }
  | { readonly kind: "verdict"; readonly verdict: Verdict }
  /** The verdict of a map for a key. With a mask, the key is a mark or a priority of which only these bits count. */
  | {
      readonly kind: "vmap";
      readonly key: Selector | Concatenation;
      readonly mask?: number;
      readonly map: string;
    }
  | { readonly kind: "log"; readonly prefix: string; readonly group: number; readonly snapLength: number }
  /** The packet waits for a program's verdict; without a program at the queue it continues after its base chain. */
  | { readonly kind: "queue"; readonly number: number }
  | { readonly kind: "dnat"; readonly target: NatTarget }
  /** With `ports` the source port becomes one of these; the rule must test `meta l4proto` first. */
  | {
      readonly kind: "masquerade";
      readonly ports?: { readonly first: number; readonly last: number };
    }
  /** mark = mark | bits, or mark & bits */
  | { readonly kind: "set mark"; readonly operation: "or" | "and"; readonly bits: number }
  | { readonly kind: "set priority from"; readonly from: MapLookup }
  /** priority = priority & bits */
  | { readonly kind: "mask priority"; readonly bits: number }
  /** Resets the priority to that of a packet without one. */
  | { readonly kind: "clear priority" }
  | { readonly kind: "set label"; readonly bit: number }
  /** The kernel reports each rule and policy that the packet meets from here on. */
  | { readonly kind: "set trace" }
  /** Writes an address into the packet but not into its connection, so the kernel does not translate the answers. */
  | { readonly kind: "set address"; readonly field: AddressField; readonly value: Address | ConnectionName }
  | { readonly kind: "reject"; readonly reply: "icmpx port-unreachable" | "tcp reset" }
  | {
      readonly kind: "dynamic";
      readonly operation: "add" | "update" | "delete";
      readonly set: string;
      readonly key: Selector | Concatenation;
      /** In milliseconds; the set's default when absent. */
      readonly timeout?: number;
      /** The data of a map's element. */
      readonly data?: Selector | JenkinsHash;
      /** For a set: each element has its own rate; that of the packet's element decides whether the rule continues. */
      readonly limit?: RateLimit;
    };

/** One rule: its statements in order and a comment in readable form. */
export interface Rule {
  readonly statements: readonly Statement[];
  readonly comment?: string;
}

export function rule(...statements: readonly Statement[]): Rule {
  return { statements };
}

/** Returns a rule that counts and drops matching packets. Its comment gives the reason and identifies its counter. */
export function dropping(reason: string, ...conditions: readonly Statement[]): Rule {
  return { ...rule(...conditions, counter, drop), comment: reason };
}

/** `left == value` */
export function equals(left: Match["left"], value: Scalar): Match {
  return { kind: "match", left, isNegated: false, right: { kind: "value", value } };
}

/** `left @set` */
export function inSet(left: Match["left"], name: string): Match {
  return { kind: "match", left, isNegated: false, right: { kind: "set", name } };
}

/** `left { a, b }` */
export function oneOf(left: Match["left"], values: readonly Scalar[]): Match {
  return { kind: "match", left, isNegated: false, right: { kind: "anonymous", values } };
}

/** `left first-last`: one of these numbers */
export function inRange(left: Selector, first: number, last: number): Match {
  return { kind: "match", left, isNegated: false, right: { kind: "range", first, last } };
}

/** `left 10.0.0.0/8` */
export function inPrefix(left: Selector, cidr: Cidr): Match {
  return { kind: "match", left, isNegated: false, right: { kind: "prefix", cidr } };
}

/** `left a,b`: at least one of the bits is set */
export function anyFlag(left: Selector, ...names: readonly string[]): Match {
  return { kind: "match", left, isNegated: false, right: { kind: "flags", names } };
}

/** `left & bit == bit` for one bit */
export function hasBit(left: Selector, bit: number): Match {
  return { kind: "match", left, isNegated: false, right: { kind: "masked", mask: bit, value: bit } };
}

/** `left & mask == value`, of a mark or a priority */
export function hasBits(left: Selector, mask: number, value: number): Match {
  return { kind: "match", left, isNegated: false, right: { kind: "masked", mask, value } };
}

/** `left "prefix*"` */
export function startsWith(left: "iifname" | "oifname", prefix: string): Match {
  return { kind: "match", left, isNegated: false, right: { kind: "wildcard", prefix } };
}

/** Returns the opposite of a match. */
export function not(match: Match): Match {
  return { ...match, isNegated: !match.isNegated };
}

/** Returns the statement that writes a constant, or an address of the packet's connection, into the packet. */
export function setAddress(field: AddressField, value: Address | ConnectionName): Statement {
  return { kind: "set address", field, value };
}

export const counter: Statement = { kind: "counter" };
export const accept: Statement = { kind: "verdict", verdict: { kind: "accept" } };
export const drop: Statement = { kind: "verdict", verdict: { kind: "drop" } };
export const returnToCaller: Statement = { kind: "verdict", verdict: { kind: "return" } };

/** Continues in a chain and returns to the statement after this one. */
export function jumpTo(chain: string): Statement {
  return { kind: "verdict", verdict: { kind: "jump", chain } };
}

/** Continues in a chain and does not return here. */
export function goTo(chain: string): Statement {
  return { kind: "verdict", verdict: { kind: "goto", chain } };
}

/** Sets one bit of the packet's mark and preserves the others. */
export function setMarkBit(bit: number): Statement {
  return { kind: "set mark", operation: "or", bits: bit };
}

/** Clears bits of the packet's mark and preserves the others. */
export function clearMarkBits(bits: number): Statement {
  return { kind: "set mark", operation: "and", bits: ~bits >>> 0 };
}
