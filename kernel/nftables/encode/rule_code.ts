import { DrawbridgeError } from "../../error.ts";
import type { DataType, Scalar } from "../model/data_type.ts";
import {
  connectionKeys,
  type ConnectionName,
  type Expression,
  expressionTypes,
  extensionKeys,
  fibKeys,
  isConnection,
  isExtension,
  isMeta,
  isPayload,
  type KeyField,
  type MapLookup,
  metaKeys,
  payloadFields,
  type PayloadName,
  type Presence,
  type Selector,
} from "../model/expression.ts";
import { checkInteger } from "../model/identifier.ts";
import { type Instruction, instruction } from "./instruction.ts";
import type { TableFamily } from "../model/object.ts";
import { register, REGISTERS, registersOf, valueBytes } from "./register.ts";

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
  readonly isInterval: boolean;
  readonly elements: readonly (readonly KeyField[])[];
}

/**
 * One rule during its translation: the instructions so far, and the protocols that the rule has tested.
 *
 * A header field exists only in packets of its protocol, so a test precedes its first use in a rule. As in nft, the
 * test is `meta nfproto` in an inet table, and `meta protocol` in a bridge table.
 */
export class RuleCode {
  readonly instructions: Instruction[] = [];
  readonly anonymousSets: AnonymousSet[] = [];
  readonly family: TableFamily;
  readonly #nextSetId: () => number;
  readonly #explicit = new Set<"network" | "transport">();
  /** nft takes a set of protocols for its first member, and then refuses addresses of any other. */
  #hasVagueNetworkTest = false;
  /** The network protocols that the rule tests explicitly. */
  readonly #testedNetworks = new Set<"ip" | "ip6">();
  #network: Presence["network"];
  #connectionNetwork: Presence["network"];
  #transport: Presence["transport"];
  #hasTransport = false;
  #hasGeneralPort = false;
  #hasProtocolTest = false;
  #isForeign = false;

  constructor(family: TableFamily, nextSetId: () => number) {
    this.family = family;
    this.#nextSetId = nextSetId;
    if (family === "ip" || family === "ip6") this.#network = family;
  }

  /** Whether the rule is known to match one transport protocol, which has ports. */
  get hasPorts(): boolean {
    return this.#hasTransport;
  }

  /** Whether the rule has tested the transport protocol explicitly, for one or for several. */
  get hasProtocolTest(): boolean {
    return this.#hasProtocolTest;
  }

  /** Whether a field has implied TCP. */
  get isTcp(): boolean {
    return this.#transport === "tcp";
  }

  /**
   * Returns the network protocol that the rule's fields imply.
   *
   * @throws DrawbridgeError ERR_NFTABLES_VALUE when there is no reply for it, or for an explicit test of the rule,
   *   which nft would drop from its listing
   */
  networkForReply(what: string): "ip" | "ip6" | undefined {
    if (this.#network === "arp") throw conflict(what, "a packet of arp");
    if (this.#network === undefined && this.#explicit.has("network")) {
      throw conflict(what, "its protocol by a test of its own");
    }
    return this.#network;
  }

  /** Emits the test that a TCP reply needs. */
  requireTcpForReply(what: string): void {
    if (this.#hasGeneralPort) throw conflict(what, "ports of any protocol: take tcp sport or tcp dport");
    const isListed = this.family === "inet" || this.family === "bridge" || this.isTcp;
    if (this.#explicit.has("network")) throw conflict(what, "its protocol by a test of its own");
    if (!isListed) throw conflict(what, "no transport protocol: take a field of tcp before it");
    this.requireTransport("tcp", what);
  }

  /** Throws for addresses of one family in a rule about packets of the other. */
  checkAddressFamily(network: "ip" | "ip6", what: string): void {
    const known = this.#network ?? this.#connectionNetwork ?? network;
    if (known !== network) throw conflict(what, `a packet of ${known}`);
    if (this.#hasVagueNetworkTest) throw conflict(what, "its protocol by a test for several");
    for (const tested of this.#testedNetworks) if (tested !== network) throw conflict(what, `a test for ${tested}`);
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

  /**
   * Records an explicit test of the rule. nft drops such a test from its listing where a field implies it, so a rule
   * with both would not read back as written.
   *
   * @param value the value it tests for; undefined for any comparison but equality
   */
  settle(selector: Selector, value: Scalar | undefined): void {
    if (selector === "meta nfproto" || selector === "meta protocol" || selector === "ether type") {
      this.#settleNetwork(selector, value);
    }
    if (selector === "meta l4proto") this.#settleTransport(value);
  }

  #settleNetwork(selector: "meta nfproto" | "meta protocol" | "ether type", value: Scalar | undefined): void {
    const settled = this.family === "ip" || this.family === "ip6" ? undefined : this.#network;
    if (settled !== undefined) throw conflict(selector, `a packet of ${settled}`);
    this.#isForeign ||= selector !== "meta nfproto" && value !== "ip" && value !== "ip6";
    if (this.#connectionNetwork !== undefined) throw conflict(selector, `a connection of ${this.#connectionNetwork}`);
    this.#explicit.add("network");
    this.#hasVagueNetworkTest ||= value === undefined;
    if (value === "ip" || value === "ipv4") this.#testedNetworks.add("ip");
    if (value === "ip6" || value === "ipv6") this.#testedNetworks.add("ip6");
  }

  #settleTransport(value: Scalar | undefined): void {
    if (this.#transport !== undefined) throw conflict("meta l4proto", `a packet of ${this.#transport}`);
    this.#hasProtocolTest = true;
    if (value === undefined) return;
    this.#explicit.add("transport");
    this.#hasTransport ||= value === "tcp" || value === "udp" || value === "sctp";
  }

  /** Emits the tests that the fields of an expression need and that the rule does not have yet. */
  require(expression: Expression): void {
    const selectors = selectorsOf(expression);
    const hadTransport = this.#hasTransport;
    const isLookup = typeof expression === "object" && expression.kind === "lookup";
    if (isLookup && selectors.some((selector) => selector.startsWith("fib ")))
      throw conflict("fib", "the key of a map");
    for (const selector of selectors) {
      if (selector === "ct original proto-dst" && expression !== selector) throw conflict(selector, "others beside it");
      this.#checkFamily(selector);
      if (isConnection(selector)) this.#agree(selector);
      if (isPayload(selector)) this.#requireField(selector);
      if (isExtension(selector)) this.requireNetwork("ip6", selector);
    }
    // For nft a field in a concatenation implies nothing about the packet, unless the concatenation is a map's key.
    if (typeof expression === "object" && !isLookup) this.#hasTransport = hadTransport;
    const general = selectors.find((selector) => selector.startsWith("th "));
    if (general === undefined) return;
    this.#hasGeneralPort = true;
    if (this.#explicit.has("transport") || this.#transport !== undefined) {
      throw conflict(general, "one transport protocol: take its own field");
    }
  }

  #checkFamily(selector: Selector): void {
    const isOfOneFamily = this.family === "ip" || this.family === "ip6";
    if (
      (selector === "meta nfproto" && this.family !== "inet") ||
      (selector === "meta protocol" && isOfOneFamily) ||
      (isPayload(selector) && payloadFields[selector].base === "link" && this.family !== "bridge")
    ) {
      throw conflict(selector, `the family ${this.family}`);
    }
  }

  #requireField(selector: PayloadName): void {
    const { presence }: { presence: Presence } = payloadFields[selector];
    this.requireNetwork(presence.network, selector);
    this.requireTransport(presence.transport, selector);
  }

  /** Checks a connection's address. It needs no test, but for nft it implies the packet's protocol. */
  #agree(selector: ConnectionName): void {
    if (selector === "ct original proto-dst" && !this.#hasTransport) {
      throw conflict(selector, "no transport protocol: nft knows a connection's port only after a test of it");
    }
    const type = connectionKeys[selector].type.name;
    if (type !== "ipv4_addr" && type !== "ipv6_addr") return;
    if (this.#explicit.has("network")) throw conflict(selector, "its protocol by a test of its own");
    const network = type === "ipv4_addr" ? "ip" : "ip6";
    const known = this.#network ?? this.#connectionNetwork ?? network;
    if (known !== network) throw conflict(selector, `a packet of ${known}`);
    this.#connectionNetwork = network;
  }

  requireNetwork(network: Presence["network"], what: string): void {
    if (network === undefined || network === this.#network) return;
    const known = this.#connectionNetwork ?? network;
    if (known !== network) throw conflict(what, `a connection of ${known}`);
    if (this.#network !== undefined || (network === "arp" && this.family !== "bridge")) {
      throw conflict(what, `a packet of ${this.#network ?? this.family}`);
    }
    if (network === "arp" && this.#transport !== undefined) throw conflict(what, `a packet of ${this.#transport}`);
    if (this.#explicit.has("network")) throw conflict(what, "its protocol by a test of its own");
    this.#network = network;
    if (this.family === "bridge") this.test("meta protocol", network);
    else this.test("meta nfproto", network === "ip" ? "ipv4" : "ipv6");
  }

  requireTransport(transport: Presence["transport"], what: string): void {
    if (transport === undefined || transport === this.#transport) return;
    if (this.#isForeign) throw conflict(what, "another protocol than IP");
    const other = this.#transport ?? (this.#network === "arp" ? "arp" : undefined);
    if (other !== undefined) throw conflict(what, `a packet of ${other}`);
    if (this.#hasProtocolTest) throw conflict(what, "its protocol by a test of its own");
    this.#transport = transport;
    this.#hasTransport = transport === "tcp" || transport === "udp" || transport === "sctp";
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
   * @throws DrawbridgeError ERR_NFTABLES_VALUE when it takes more than the sixteen registers
   */
  load(expression: Exclude<Expression, MapLookup>, position: number): number {
    const end = position + registersOf(expressionTypes(expression));
    if (end > REGISTERS) {
      throw new DrawbridgeError(
        "ERR_NFTABLES_VALUE",
        `nftables key: ${4 * end} bytes; expected at most ${4 * REGISTERS}`,
      );
    }
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
    } else {
      this.emit(instruction("fib", { target, result: FIB_RESULT_ADDRESS_TYPE, flags: fibKeys[selector].flags }));
    }
  }
}

/** Returns the selectors that an expression reads. */
export function selectorsOf(expression: Expression): readonly Selector[] {
  if (typeof expression === "string") return [expression];
  if (expression.kind === "lookup") return selectorsOf(expression.key);
  if (expression.kind === "concatenation") return expression.parts.flatMap((part) => selectorsOf(part));
  return expression.kind === "jhash" ? expression.of : [];
}

/** @throws DrawbridgeError ERR_NFTABLES_VALUE for a modulus that the kernel would refuse */
export function checkModulus(modulus: number): number {
  return checkInteger("modulus", modulus, 1, 0xffffffff);
}

function conflict(what: string, known: string): DrawbridgeError {
  return new DrawbridgeError(
    "ERR_NFTABLES_VALUE",
    `nftables rule: "${what}" after the rule settled on ${known}; expected fields of one packet: write two rules`,
  );
}
