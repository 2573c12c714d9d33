import { decodeAttributes } from "../../../../kernel/netlink/attribute_decoder.ts";
import { NetlinkError } from "../../../../kernel/netlink/error.ts";
import { Errno } from "../../../../kernel/syscall/errno.ts";
import { instructions } from "../../../../kernel/nftables/encode/instruction.ts";
import { ANONYMOUS_NAME } from "../../../../kernel/nftables/encode/match_code.ts";
import type { Element } from "../../../../kernel/nftables/model/object.ts";
import type { ObservedChain } from "../table_state.ts";
import type { RuleState, SetState } from "../../../../kernel/nftables/decode/state.ts";

/** The content of a table in memory. */
export interface Holdings {
  readonly chains: ReadonlyMap<string, ObservedChain>;
  readonly sets: ReadonlyMap<string, SetState>;
  readonly content: ReadonlyMap<string, ReadonlyMap<string, Element>>;
}

interface References {
  readonly sets: readonly string[];
  readonly chains: readonly string[];
}

const known = new WeakMap<RuleState, References>();

/** Returns the sets and chains that a rule names. */
function referencesOf(rule: RuleState): References {
  const references = known.get(rule) ?? decoded(rule);
  known.set(rule, references);
  return references;
}

function decoded({ instructions: code }: RuleState): References {
  const sets: string[] = [];
  const chains: string[] = [];
  for (const { name, data } of code) {
    if (name === "lookup" || name === "dynset") {
      const { set } = decodeAttributes(instructions[name], data);
      if (set !== undefined && set !== ANONYMOUS_NAME) sets.push(set);
    } else if (name === "immediate") {
      const chain = decodeAttributes(instructions.immediate, data).data?.verdict?.chain;
      if (chain !== undefined) chains.push(chain);
    }
  }
  return { sets, chains };
}

function chainOf({ data }: Element): string | undefined {
  return data !== undefined && "chain" in data ? data.chain : undefined;
}

/** @throws NetlinkError ENOENT, EOPNOTSUPP when a rule names a missing object or a base chain */
export function checkRule(operation: string, table: Holdings, rule: RuleState): void {
  const { sets, chains } = referencesOf(rule);
  const missing = sets.find((name) => !table.sets.has(name));
  if (missing !== undefined) throw new NetlinkError(`${operation} with set ${missing}`, Errno.ENOENT);
  for (const name of chains) checkTarget(operation, table, name);
}

/** @throws NetlinkError ENOENT, EOPNOTSUPP when an element jumps to a missing chain or a base chain */
export function checkElement(operation: string, table: Holdings, element: Element): void {
  const chain = chainOf(element);
  if (chain !== undefined) checkTarget(operation, table, chain);
}

function checkTarget(operation: string, table: Holdings, chain: string): void {
  const target = table.chains.get(chain);
  if (target === undefined) throw new NetlinkError(`${operation} to chain ${chain}`, Errno.ENOENT);
  if (target.attributes.hook !== undefined) throw new NetlinkError(`${operation} to ${chain}`, Errno.EOPNOTSUPP);
}

/** @throws NetlinkError EBUSY when an element or a rule of another chain names a chain */
export function checkUnusedChain({ chains, content }: Holdings, chain: string): void {
  for (const [name, { rules }] of chains) {
    const isNamed = name !== chain && rules.some((rule) => referencesOf(rule).chains.includes(chain));
    if (isNamed) throw new NetlinkError(`delete chain ${chain}, which ${name} names`, Errno.EBUSY);
  }
  for (const [set, elements] of content) {
    for (const element of elements.values()) {
      if (chainOf(element) === chain) throw new NetlinkError(`delete chain ${chain}, which ${set} names`, Errno.EBUSY);
    }
  }
}

/** @throws NetlinkError EBUSY when a rule names a set */
export function checkUnusedSet({ chains }: Holdings, set: string): void {
  for (const [name, { rules }] of chains) {
    if (rules.some((rule) => referencesOf(rule).sets.includes(set))) {
      throw new NetlinkError(`delete set ${set}, which ${name} names`, Errno.EBUSY);
    }
  }
}
