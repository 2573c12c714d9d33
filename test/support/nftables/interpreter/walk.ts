import { protocolNumber } from "../../../../kernel/ip/protocol.ts";
import type { BaseChain, Chain } from "../../../../kernel/nftables/model/object.ts";
import { type FlowTable, reversed, translated } from "./flow_table.ts";
import { hasPorts, type WalkedPacket } from "./packet.ts";
import type { LoadedTable, Ruleset } from "./ruleset.ts";
import type { Translation } from "./translation.ts";
import type { Surroundings } from "./surroundings.ts";
import type { Rule, Statement } from "../../../../kernel/nftables/model/statement.ts";
import type { Scope } from "./expression.ts";
import { carryOut, type Effect } from "./statement.ts";

/** The decision of a base chain. `rule` names the rule that made it, undefined for the chain's policy. */
interface Decision {
  readonly kind: "accept" | "drop" | "reject" | "translate";
  readonly rule: string | undefined;
  readonly reply?: Extract<Statement, { readonly kind: "reject" }>["reply"];
  readonly translation?: Translation;
}

type Decisive = Exclude<Effect, { readonly kind: "next" } | { readonly kind: "break" }>;

/** NFT_JUMP_STACK_SIZE: the kernel refuses to load deeper jumps. */
const DEEPEST = 16;

/** Walks a base chain and the chains that it leads to; after the last rule the chain's policy decides. */
function walkBaseChain(scope: Scope, chain: Chain): Decision {
  return walkChain(scope, chain, 0) ?? { kind: chain.base?.policy ?? "accept", rule: undefined };
}

/** @returns undefined when the chain ends or returns without a decision */
function walkChain(scope: Scope, chain: Chain, depth: number): Decision | undefined {
  if (depth > DEEPEST) throw new Error(`chain ${chain.name}: more than ${DEEPEST} jumps`);
  for (const rule of chain.rules) {
    const effect = walkRule(scope, chain, rule);
    if (effect === undefined) continue;
    const name = scope.table.ruleName(chain, rule);
    if (effect.kind === "reject") return { kind: "reject", rule: name, reply: effect.reply };
    if (effect.kind === "translate") return { kind: "translate", rule: name, translation: effect.translation };
    const { verdict } = effect;
    if (verdict.kind === "accept" || verdict.kind === "drop") return { kind: verdict.kind, rule: name };
    if (verdict.kind === "return") return undefined;
    if ("chain" in verdict) {
      const decision = walkChain(scope, scope.table.chain(verdict.chain), depth + (verdict.kind === "jump" ? 1 : 0));
      // The target of a goto replaces the rest of this chain.
      if (decision !== undefined || verdict.kind === "goto") return decision;
    }
  }
  return undefined;
}

/** @returns undefined when the rule decides nothing */
function walkRule(scope: Scope, chain: Chain, rule: Rule): Decisive | undefined {
  for (const statement of rule.statements) {
    if (statement.kind === "counter") {
      const name = scope.table.ruleName(chain, rule);
      scope.table.counted.set(name, (scope.table.counted.get(name) ?? 0) + 1);
    }
    const effect = carryOut(scope, statement);
    if (effect.kind === "break") return undefined;
    if (effect.kind === "next") continue;
    return effect;
  }
  return undefined;
}

export type Hook = BaseChain["hook"];

/** A node's packet filter: the ruleset, and the sets and flows that passing packets change. */
export interface Machine {
  readonly ruleset: Ruleset;
  readonly flows: FlowTable;
  readonly surroundings: Surroundings;
}

/** The outcome for a packet: its verdict, and the translations of its connection that were made here. */
export interface Outcome {
  readonly verdict: "accept" | "drop" | "reject";
  readonly hook: Hook | undefined;
  readonly decision: Decision | undefined;
  readonly translations: readonly Translation[];
}

interface Step {
  readonly priority: number;
  readonly run: (packet: WalkedPacket) => { readonly decision?: Decision; readonly translation?: Translation };
}

/** The priority at which conntrack sees a packet first (NF_IP_PRI_CONNTRACK). */
const TRACKING = -200;

/**
 * The priority of NAT at each hook, whatever a chain's own priority: chains of type nat run in one place, in the order
 * of their priorities (nf_nat_register_fn, NF_IP_PRI_NAT_DST and _SRC).
 */
const NAT = {
  prerouting: { priority: -100, half: "destination" },
  output: { priority: -100, half: "destination" },
  input: { priority: 100, half: "source" },
  postrouting: { priority: 100, half: "source" },
} as const;

/**
 * Sends a packet through hooks, one after the other, until one does not accept it. The packet is changed on the way.
 */
export function walkHooks(machine: Machine, packet: WalkedPacket, hooks: readonly Hook[]): Outcome {
  const translations: Translation[] = [];
  for (const hook of hooks) {
    for (const step of stepsOf(machine, packet, hook)) {
      const { decision, translation } = step.run(packet);
      if (translation !== undefined) translations.push(translation);
      if (decision !== undefined && decision.kind !== "accept" && decision.kind !== "translate") {
        return { verdict: decision.kind, hook, decision, translations };
      }
    }
  }
  return { verdict: "accept", hook: undefined, decision: undefined, translations };
}

/**
 * Sends a packet all its way: an incoming packet is routed by its destination after prerouting, and one from the node
 * to itself comes in again.
 */
export function walkThrough(machine: Machine, packet: WalkedPacket, from: "outside" | "node"): Outcome {
  const { fib, outDevice } = machine.surroundings;
  if (from === "node") packet.out = outDevice(packet.tuple.destination);
  const first = walkHooks(machine, packet, from === "node" ? ["output"] : ["prerouting"]);
  if (first.verdict !== "accept") return first;
  const isLocal = fib(packet.tuple.destination) === "local";
  // A packet that NAT has changed is routed again after the output hook (nf_nat_ipv4_local_fn).
  if (from === "node" || !isLocal) packet.out = outDevice(packet.tuple.destination);
  const rest: readonly Hook[] = isLocal ? ["input"] : ["forward", "postrouting"];
  const second = walkHooks(machine, packet, from === "node" ? ["postrouting"] : rest);
  const outcome = { ...second, translations: [...first.translations, ...second.translations] };
  if (outcome.verdict !== "accept") return outcome;
  machine.flows.confirm(packet);
  if (from !== "node" || !isLocal) return outcome;
  Object.assign(packet, { in: packet.out, out: undefined });
  const third = walkHooks(machine, packet, ["prerouting", "input"]);
  return { ...third, translations: [...outcome.translations, ...third.translations] };
}

function stepsOf(machine: Machine, packet: WalkedPacket, hook: Hook): readonly Step[] {
  const steps: Step[] = [];
  const nat: { readonly table: LoadedTable; readonly chain: Chain; readonly priority: number }[] = [];
  for (const table of machine.ruleset.tables) {
    if (table.table.family !== "inet") continue;
    for (const chain of table.table.chains) {
      if (chain.base?.hook !== hook) continue;
      const { type, priority } = chain.base;
      if (type === "nat") nat.push({ table, chain, priority });
      else steps.push({ priority, run: () => ({ decision: walkBaseChain(scopeOf(machine, table, packet), chain) }) });
    }
  }
  if (hook !== "forward") {
    const chains = nat.toSorted((a, b) => a.priority - b.priority);
    steps.push({ priority: NAT[hook].priority, run: () => runNat(machine, packet, hook, chains) });
  }
  if (hook === "prerouting" || hook === "output") {
    steps.push({
      priority: TRACKING,
      run: () => {
        machine.flows.track(packet);
        return {};
      },
    });
  }
  return steps.toSorted((a, b) => a.priority - b.priority);
}

function scopeOf({ surroundings }: Machine, table: LoadedTable, packet: WalkedPacket) {
  return { packet, table, surroundings };
}

/**
 * Carries out a connection's translation of one half. Chains are evaluated once, for the first packet: the first that
 * decides settles the translation, and if none does, it is settled as untranslated (nf_nat_inet_fn).
 */
function runNat(
  machine: Machine,
  packet: WalkedPacket,
  hook: Exclude<Hook, "forward">,
  chains: readonly { readonly table: LoadedTable; readonly chain: Chain }[],
): ReturnType<Step["run"]> {
  const { half } = NAT[hook];
  const { connection } = packet;
  if (connection === undefined) return {};
  let done: Translation | undefined;
  if (packet.state === "new" && !connection.settled.has(half)) {
    for (const { table, chain } of chains) {
      const decision = walkBaseChain(scopeOf(machine, table, packet), chain);
      if (decision.kind === "drop" || decision.kind === "reject") return { decision };
      if (decision.translation === undefined) continue;
      done = decision.translation;
      if (done.half !== half) throw new Error(`${done.by} at ${hook}: the kernel refuses to load it`);
      settle(packet, done);
      break;
    }
    connection.settled.add(half);
  }
  packet.tuple = translated(packet, half);
  return done === undefined ? {} : { translation: done };
}

/** A translation that changes nothing leaves no trace in the status (nf_nat_setup_info). */
function settle({ connection, tuple }: WalkedPacket, { half, address, port }: Translation): void {
  if (connection === undefined) return;
  if (port !== undefined && !hasPorts(tuple.protocol)) throw new Error(`a port for ${protocolNumber(tuple.protocol)}`);
  const current = reversed(connection.reply);
  const changed =
    half === "source"
      ? { ...current, source: address ?? current.source, sourcePort: port ?? current.sourcePort }
      : { ...current, destination: address ?? current.destination, destinationPort: port ?? current.destinationPort };
  const isSame =
    changed.source === current.source &&
    changed.sourcePort === current.sourcePort &&
    changed.destination === current.destination &&
    changed.destinationPort === current.destinationPort;
  connection.reply = reversed(changed);
  if (!isSame) connection.status.add(half === "source" ? "snat" : "dnat");
}
