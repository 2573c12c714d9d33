import type { DataType, Scalar } from "../model/data_type.ts";
import {
  connectionKeys,
  type Expression,
  expressionTypes,
  extensionKeys,
  fibKeys,
  isConnection,
  isExtension,
  isMeta,
  isPayload,
  isRoute,
  type MapLookup,
  metaKeys,
  payloadFields,
  type Presence,
  routeKeys,
  type Selector,
} from "../model/expression.ts";
import { checkInteger } from "../model/identifier.ts";
import { type Instruction, instruction } from "./instruction.ts";
import type { TableFamily } from "../model/object.ts";
import { register, registersOf, valueBytes } from "./register.ts";

/** NFT_PAYLOAD_LL_HEADER, …_NETWORK_HEADER, …_TRANSPORT_HEADER */
const bases = { link: 0, network: 1, transport: 2 } as const;
const FIB_RESULT_ADDRESS_TYPE = 3;
/** NFT_EXTHDR_F_PRESENT: loads whether the header exists instead of its content. */
const EXTENSION_IS_PRESENT = 1;
const NUMGEN_RANDOM = 1;
const HASH_JENKINS = 0;
const IP_CT_DIR = { original: 0, reply: 1 } as const;
export const CompareOperator = { EQUAL: 0, NOT_EQUAL: 1, LESS_OR_EQUAL: 3, GREATER_OR_EQUAL: 5 } as const;

/** A set that belongs to one rule: it is created and deleted with the rule. */
export interface AnonymousSet {
  /** Its number within the batch, by which the rule refers to it (NFTA_LOOKUP_SET_ID). */
  readonly id: number;
  readonly types: readonly DataType[];
  readonly values: readonly Scalar[];
}

/**
 * One rule during its translation: the instructions so far, and the protocols that the rule's fields imply.
 *
 * A header field exists only in packets of its protocol, so a test precedes its first use in a rule. As in nft, the
 * test is `meta nfproto` in an inet table, and `meta protocol` in a bridge table.
 */
export class RuleCode {
  readonly instructions: Instruction[] = [];
  readonly anonymousSets: AnonymousSet[] = [];
  readonly #family: TableFamily;
  readonly #nextSetId: () => number;
  #network: Presence["network"];
  #transport: Presence["transport"];

  constructor(family: TableFamily, nextSetId: () => number) {
    this.#family = family;
    this.#nextSetId = nextSetId;
  }

  /** The network protocol that a field has implied. */
  get network(): Presence["network"] {
    return this.#network;
  }

  /** Whether a field has implied TCP. */
  get isTcp(): boolean {
    return this.#transport === "tcp";
  }

  emit(one: Instruction): void {
    this.instructions.push(one);
  }

  /** Adds a set that only this rule uses. @returns its number */
  addAnonymousSet(set: Omit<AnonymousSet, "id">): number {
    const id = this.#nextSetId();
    this.anonymousSets.push({ ...set, id });
    return id;
  }

  /** Emits the tests that the fields of an expression need and that the rule does not have yet. */
  require(expression: Expression): void {
    for (const selector of selectorsOf(expression)) {
      if (isExtension(selector)) this.#requireNetwork("ip6");
      if (!isPayload(selector)) continue;
      const { presence }: { presence: Presence } = payloadFields[selector];
      this.#requireNetwork(presence.network);
      this.requireTransport(presence.transport);
    }
  }

  #requireNetwork(network: Presence["network"]): void {
    if (network === undefined || network === this.#network) return;
    this.#network = network;
    if (this.#family === "bridge") this.test("meta protocol", network);
    else this.test("meta nfproto", network === "ip" ? "ipv4" : "ipv6");
  }

  requireTransport(transport: Presence["transport"]): void {
    if (transport === undefined || transport === this.#transport) return;
    this.#transport = transport;
    this.test("meta l4proto", transport);
  }

  /** Emits `selector == value`. */
  test(selector: Selector, value: Scalar): void {
    const [type] = expressionTypes(selector);
    if (type === undefined) return;
    this.load(selector, 0);
    this.compare(CompareOperator.EQUAL, valueBytes([type], [value]));
  }

  /** Emits a comparison of the first register with bytes. */
  compare(operator: number, value: Uint8Array): void {
    this.emit(instruction("cmp", { source: register(0), operator, data: { value } }));
  }

  /** Emits register = (register & mask) ^ xor for the first register. */
  mask(mask: Uint8Array, xor: Uint8Array = new Uint8Array(mask.length)): void {
    const both = { mask: { value: mask }, xor: { value: xor } };
    this.emit(instruction("bitwise", { source: register(0), target: register(0), length: mask.length, ...both }));
  }

  /** Emits a test whether at least one of the given bits of the first register is set, or, negated, none. */
  testBits(bits: Uint8Array, isNegated: boolean): void {
    this.mask(bits);
    this.compare(isNegated ? CompareOperator.EQUAL : CompareOperator.NOT_EQUAL, new Uint8Array(bits.length));
  }

  /** Emits the load of a constant into the registers from a position on. */
  immediate(position: number, value: Uint8Array): void {
    this.emit(instruction("immediate", { target: register(position), data: { value } }));
  }

  /**
   * Emits the load of an expression's value into the registers from a position on. Each field takes whole registers.
   *
   * @returns the position after it
   */
  load(expression: Exclude<Expression, MapLookup>, position: number): number {
    const end = position + registersOf(expressionTypes(expression));
    const target = register(position);
    if (typeof expression === "string") this.#loadSelector(expression, target);
    else if (expression.kind === "concatenation") {
      let next = position;
      for (const part of expression.parts) next = this.load(part, next);
    } else if (expression.kind === "numgen") {
      const modulus = checkModulus(expression.modulus);
      this.emit(instruction("numgen", { target, modulus, type: NUMGEN_RANDOM, offset: 0 }));
    } else {
      // The hash's input is loaded after its result, because the fields before are still needed.
      const source = (end + 3) & ~3;
      let next = source;
      for (const part of expression.of) next = this.load(part, next);
      const [only, ...others] = expressionTypes({ kind: "concatenation", parts: expression.of });
      const length = only !== undefined && others.length === 0 ? only.size : 4 * (next - source);
      const modulus = checkModulus(expression.modulus);
      const seed = checkInteger("seed", expression.seed, 0, 0xffffffff);
      this.emit(instruction("hash", { source: register(source), target, length, modulus, seed, type: HASH_JENKINS }));
    }
    return end;
  }

  #loadSelector(selector: Selector, target: number): void {
    if (isPayload(selector)) {
      const { base, offset, type } = payloadFields[selector];
      this.emit(instruction("payload", { target, base: bases[base], offset, length: type.size }));
    } else if (isMeta(selector)) {
      this.emit(instruction("meta", { target, key: metaKeys[selector].number }));
    } else if (isConnection(selector)) {
      const key: { number: number; direction?: "original" | "reply" } = connectionKeys[selector];
      const direction = key.direction === undefined ? {} : { direction: IP_CT_DIR[key.direction] };
      this.emit(instruction("ct", { target, key: key.number, ...direction }));
    } else if (isExtension(selector)) {
      const { number: type } = extensionKeys[selector];
      this.emit(instruction("exthdr", { target, type, offset: 0, length: 1, flags: EXTENSION_IS_PRESENT }));
    } else if (isRoute(selector)) {
      this.emit(instruction("rt", { target, key: routeKeys[selector].number }));
    } else {
      this.emit(instruction("fib", { target, result: FIB_RESULT_ADDRESS_TYPE, flags: fibKeys[selector].flags }));
    }
  }
}

/** Returns the selectors that an expression reads. */
function selectorsOf(expression: Expression): readonly Selector[] {
  if (typeof expression === "string") return [expression];
  if (expression.kind === "lookup") return selectorsOf(expression.key);
  if (expression.kind === "concatenation") return expression.parts.flatMap((part) => selectorsOf(part));
  return expression.kind === "jhash" ? expression.of : [];
}

/** @throws DrawbridgeError ERR_NFTABLES_VALUE for a modulus that the kernel would refuse */
export function checkModulus(modulus: number): number {
  return checkInteger("modulus", modulus, 1, 0xffffffff);
}
