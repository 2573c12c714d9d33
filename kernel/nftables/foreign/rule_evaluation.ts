import type { ForeignHook, ForeignTable } from "./foreign_ruleset.ts";
import { lookUp } from "./foreign_set.ts";
import { evaluateTest } from "./extension_evaluation.ts";
import { type PacketState, readField, type SamplePacket, wordBytes } from "./sample_packet.ts";
import type { ForeignEnd, ForeignField, Step } from "./step.ts";
import {
  both,
  eitherBytes,
  equals,
  isAbove,
  isAtLeast,
  isBetween,
  type KnownBytes,
  masked,
  opposite,
  type Ternary,
  unknownBytes,
} from "./ternary.ts";

const REGISTER_BYTES = 64;
/** NFT_CMP_* */
const EQUAL = 0;
const NOT_EQUAL = 1;
const LESS = 2;
const LESS_OR_EQUAL = 3;
const GREATER = 4;

/** The names of NFT_META_* and NFT_CT_* by number, to describe a rule. */
const META =
  "len protocol priority mark iif oif iifname oifname iiftype oiftype skuid skgid nftrace rtclassid secmark nfproto l4proto ibrname obrname pkttype cpu iifgroup oifgroup cgroup random ipsec iifkind oifkind ibrpvid ibrvproto time day hour sdif sdifname".split(
    " ",
  );
const CT =
  "state direction status mark secmark expiration helper l3proto saddr daddr protocol proto-src proto-dst label packets bytes avgpkt zone event saddr daddr saddr daddr timeout id".split(
    " ",
  );

/** The effect of a rule on a packet. */
export interface RuleEffect {
  /** All ends that it may have; none for a rule that only logs or counts, or does not match. */
  readonly ends: readonly ForeignEnd[];
  /** Whether the next rule may see the packet. */
  readonly mayGoOn: boolean;
  readonly state: PacketState;
  /** The reasons for uncertainty; empty when the effect is certain. */
  readonly doubts: readonly string[];
}

/** Evaluates one rule with three-valued logic: a rule that depends on something unknown may match. */
export function evaluateRule(
  steps: readonly Step[],
  packet: SamplePacket,
  before: PacketState,
  hook: ForeignHook,
  sets: ForeignTable["sets"],
): RuleEffect {
  return new RuleEvaluation(packet, before, hook, sets).effectOf(steps);
}

class RuleEvaluation {
  readonly #packet: SamplePacket;
  readonly #hook: ForeignHook;
  readonly #sets: ForeignTable["sets"];
  readonly #registers: (number | undefined)[] = Array.from({ length: REGISTER_BYTES });
  readonly #doubts = new Set<string>();
  /** Names of loaded values that are unknown. They become a doubt when a comparison depends on them. */
  readonly #vague = new Set<string>();
  #state: PacketState;
  #matches: Ternary = "yes";

  constructor(packet: SamplePacket, state: PacketState, hook: ForeignHook, sets: ForeignTable["sets"]) {
    this.#packet = packet;
    this.#state = state;
    this.#hook = hook;
    this.#sets = sets;
  }

  effectOf(steps: readonly Step[]): RuleEffect {
    for (const step of steps) {
      const ends = this.#take(step);
      if (this.#matches === "no") break;
      if (ends === undefined) continue;
      const isCertain = this.#matches === "yes" && ends.isCertain;
      const [first] = ends.ends;
      // The verdict "continue" has the effect of a rule that does not match.
      const passes = first?.kind === "continue" && ends.ends.length === 1;
      if (passes) break;
      return {
        ends: ends.ends.filter(({ kind }) => kind !== "continue"),
        mayGoOn: !isCertain || ends.ends.some(({ kind }) => kind === "continue"),
        state: this.#state,
        doubts: isCertain ? [] : [...this.#doubts],
      };
    }
    return { ends: [], mayGoOn: true, state: this.#state, doubts: [] };
  }

  /** @returns the ends of a step that may end the rule */
  #take(step: Step): { readonly ends: readonly ForeignEnd[]; readonly isCertain: boolean } | undefined {
    switch (step.kind) {
      case "load":
        return this.#load(step.target, step.field);
      case "value":
        return this.#store(step.target, [...step.value]);
      case "bitwise":
        return this.#store(step.target, masked(this.#read(step.source, step.length), step.mask, step.xor));
      case "swap":
        return this.#store(step.target, swapped(this.#read(step.source, step.length), step.size));
      case "unknown value":
        this.#vague.add(step.name);
        return this.#store(step.target, unknownBytes(step.length));
      case "compare":
        return this.#require(this.#compare(step.source, step.operator, step.value));
      case "range": {
        const bytes = this.#read(step.source, step.first.length);
        const isIn = isBetween(bytes, step.first, step.last);
        return this.#require(step.isNegated ? opposite(isIn) : isIn);
      }
      case "lookup":
        return this.#lookUp(step);
      case "test":
        return this.#require(
          evaluateTest(step.test, this.#packet, this.#state),
          step.test.kind === "unknown" ? step.test.name : `match ${step.test.kind}`,
        );
      case "doubt":
        return this.#require("unknown", step.name);
      case "end":
        return { ends: [step.end], isCertain: true };
      default:
        return this.#change(step);
    }
  }

  #load(target: number, field: ForeignField): undefined {
    const bytes = readField(this.#packet, this.#state, this.#hook, field);
    if (bytes === undefined) return this.#require("no");
    if (bytes.includes(undefined)) this.#vague.add(nameOf(field));
    return this.#store(target, bytes);
  }

  #store(target: number, bytes: KnownBytes): undefined {
    for (const [i, byte] of bytes.entries()) this.#registers[(target + i) % REGISTER_BYTES] = byte;
    // Values are padded to the register's end.
    for (let i = bytes.length; i % 4 !== 0; i++) this.#registers[(target + i) % REGISTER_BYTES] = 0;
  }

  #read(source: number, length: number): KnownBytes {
    return Array.from({ length }, (_, i) => this.#registers[(source + i) % REGISTER_BYTES]);
  }

  #require(answer: Ternary, name?: string): undefined {
    if (answer === "unknown") for (const doubt of name === undefined ? this.#vague : [name]) this.#doubts.add(doubt);
    this.#matches = both(this.#matches, answer);
  }

  #compare(source: number, operator: number, value: Uint8Array): Ternary {
    const bytes = this.#read(source, value.length);
    switch (operator) {
      case EQUAL:
        return equals(bytes, value);
      case NOT_EQUAL:
        return opposite(equals(bytes, value));
      case LESS:
        return opposite(isAtLeast(bytes, value));
      case LESS_OR_EQUAL:
        return opposite(isAbove(bytes, value));
      case GREATER:
        return isAbove(bytes, value);
      default:
        return isAtLeast(bytes, value);
    }
  }

  #lookUp({
    set: name,
    source,
    target,
    isNegated,
  }: Extract<Step, { readonly kind: "lookup" }>):
    | { readonly ends: readonly ForeignEnd[]; readonly isCertain: boolean }
    | undefined {
    const set = this.#sets.get(name);
    if (set === undefined || set.obstacle !== undefined) {
      this.#doubts.add(set?.obstacle ?? `set ${name} is not there`);
      this.#matches = both(this.#matches, "unknown");
      if (typeof target === "number") this.#store(target, unknownBytes(16));
      return target === "verdict"
        ? { ends: [{ kind: "hand over", to: set?.obstacle ?? `map ${name}` }], isCertain: false }
        : undefined;
    }
    const { isFound, candidates } = lookUp(set, this.#read(source, Math.max(set.keyLength, 1)));
    this.#require(isNegated ? opposite(isFound) : isFound, isFound === "unknown" ? doubtOf(name, this.#vague) : name);
    if (target === "verdict") {
      const ends = candidates.flatMap(({ verdict }) => verdict ?? []);
      return { ends, isCertain: isFound === "yes" && ends.length === 1 };
    }
    if (target !== undefined) {
      const data = candidates.map((one): KnownBytes => [...(one.data ?? [])]);
      this.#store(target, data.reduce(eitherBytes, data[0] ?? unknownBytes(4)));
    }
    return undefined;
  }

  /** Applies a write. If the rule may not have matched, the old value may still hold. */
  #change(step: Extract<Step, { readonly kind: "write" | "change mark" | "untrack" | "blur" }>): undefined {
    const isCertain = this.#matches === "yes";
    const { mark, connectionMark, isTracked } = this.#state;
    if (step.kind === "untrack") {
      this.#state = { mark, connectionMark, isTracked: isCertain ? false : isTracked === false ? false : undefined };
      return;
    }
    const isOfPacket = step.kind === "change mark" || step.what === "mark";
    const old = isOfPacket ? mark : connectionMark;
    const written = writtenBytes(step, old, (source) => this.#read(source, 4));
    const value = isCertain ? written : eitherBytes(written, old);
    this.#state = isOfPacket ? { mark: value, connectionMark, isTracked } : { mark, connectionMark: value, isTracked };
  }
}

function writtenBytes(
  step: Extract<Step, { readonly kind: "write" | "change mark" | "blur" }>,
  old: KnownBytes,
  read: (source: number) => KnownBytes,
): KnownBytes {
  switch (step.kind) {
    case "write":
      return read(step.source);
    case "blur":
      return unknownBytes(4);
    case "change mark":
      return masked(old, wordBytes(step.mask), wordBytes(step.xor));
  }
}

function swapped(bytes: KnownBytes, size: number): KnownBytes {
  const found: (number | undefined)[] = [];
  for (let i = 0; i < bytes.length; i += size) found.push(...bytes.slice(i, i + size).toReversed());
  return found;
}

function doubtOf(set: string, vague: ReadonlySet<string>): string {
  const names = [...vague];
  return names.length === 0 ? `a rate in set ${set}` : names.join(" and ");
}

function nameOf(field: ForeignField): string {
  switch (field.kind) {
    case "payload":
      return field.base === 0
        ? "the frame's header"
        : `bytes ${field.offset} to ${field.offset + field.length - 1} of a header`;
    case "meta":
      return `meta ${META[field.key] ?? field.key}`;
    case "ct":
      return `ct ${CT[field.key] ?? field.key}`;
    case "fib":
      return "fib";
    case "extension header":
      return "an extension header";
    case "other":
      return field.name;
  }
}
