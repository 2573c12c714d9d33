import type { ForeignChain, ForeignHook, ForeignTable } from "./foreign_ruleset.ts";
import { evaluateRule } from "./rule_evaluation.ts";
import type { PacketState, SamplePacket } from "./sample_packet.ts";
import { eitherBytes } from "./ternary.ts";

/** The most rules evaluated for one packet and base chain. */
const MOST_RULES = 100_000;
/** NFT_JUMP_STACK_SIZE. */
const DEEPEST = 16;

/** One way in which a packet may leave a base chain. */
export interface ChainEnd {
  readonly kind: "pass" | "drop" | "reject" | "unknown";
  /** The chain with the deciding rule. */
  readonly chain: string;
  /** The handle of that rule; undefined for the base chain's policy, or the end of the evaluation. */
  readonly handle: bigint | undefined;
  readonly state: PacketState;
}

/** A rule that may or may not match. */
export interface Doubt {
  readonly chain: string;
  readonly handle: bigint;
  /** The names of everything in it that cannot be evaluated. */
  readonly about: readonly string[];
}

/** All ways in which a packet may leave a base chain; only one when everything is known. */
export interface ChainWalk {
  readonly ends: readonly ChainEnd[];
  readonly doubts: readonly Doubt[];
}

/** Walks a base chain and all chains that it may lead to. */
export function walkBaseChain(
  table: ForeignTable,
  base: ForeignChain,
  hook: ForeignHook,
  packet: SamplePacket,
  state: PacketState,
): ChainWalk {
  const walk = new Walk(table, hook, packet);
  const rest = walk.chain(base.name, state, 0);
  if (rest !== undefined) {
    const kind = base.base?.policy === "drop" ? "drop" : "pass";
    walk.ends.push({ kind, chain: base.name, handle: undefined, state: rest });
  }
  return { ends: walk.ends, doubts: [...walk.doubts.values()] };
}

class Walk {
  readonly ends: ChainEnd[] = [];
  readonly doubts = new Map<bigint, Doubt>();
  readonly #table: ForeignTable;
  readonly #hook: ForeignHook;
  readonly #packet: SamplePacket;
  #rules = 0;

  constructor(table: ForeignTable, hook: ForeignHook, packet: SamplePacket) {
    this.#table = table;
    this.#hook = hook;
    this.#packet = packet;
  }

  /** @returns the state of a packet that passes the chain's end; undefined when none does */
  chain(name: string, before: PacketState, depth: number): PacketState | undefined {
    let state = before;
    let returned: PacketState | undefined;
    for (const { handle, steps } of this.#table.chains.get(name)?.rules ?? []) {
      const place = { chain: name, handle };
      if (++this.#rules > MOST_RULES || depth > DEEPEST) {
        this.#leaveOpen(place, [`more than ${MOST_RULES} rules`], state);
        return returned;
      }
      const effect = evaluateRule(steps, this.#packet, state, this.#hook, this.#table.sets);
      const { ends, mayGoOn, state: after, doubts } = effect;
      if (ends.length > 0 && doubts.length > 0) this.doubts.set(handle, { ...place, about: doubts });
      let rest: PacketState | undefined = mayGoOn ? after : undefined;
      for (const end of ends) {
        if (end.kind === "jump") rest = eitherState(rest, this.chain(end.chain, after, depth + 1));
        else if (end.kind === "goto") returned = eitherState(returned, this.chain(end.chain, after, depth + 1));
        else if (end.kind === "return") returned = eitherState(returned, after);
        else if (end.kind === "hand over") this.#leaveOpen(place, [...doubts, end.to], after);
        else this.ends.push({ kind: KINDS[end.kind], ...place, state: after });
      }
      if (rest === undefined) return returned;
      state = rest;
    }
    return eitherState(returned, state);
  }

  #leaveOpen(place: Omit<Doubt, "about">, about: readonly string[], state: PacketState): void {
    this.ends.push({ kind: "unknown", ...place, state });
    this.doubts.set(place.handle, { ...place, about });
  }
}

/** The ends of a rule as ends of a chain. A translated packet passes, as after "accept". */
const KINDS = { accept: "pass", translate: "pass", continue: "pass", drop: "drop", reject: "reject" } as const;

/** Returns what two possible states of a packet have in common; undefined stands for an impossible one. */
export function eitherState(a: PacketState | undefined, b: PacketState | undefined): PacketState | undefined {
  if (a === undefined || b === undefined) return a ?? b;
  return {
    mark: eitherBytes(a.mark, b.mark),
    connectionMark: eitherBytes(a.connectionMark, b.connectionMark),
    isTracked: a.isTracked === b.isTracked ? a.isTracked : undefined,
  };
}
