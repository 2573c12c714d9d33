import { requestsOf } from "../../kernel/nftables/change.ts";
import type { Instruction } from "../../kernel/nftables/instruction.ts";
import { chainLayout, ruleLayout, setLayout } from "../../kernel/nftables/message.ts";
import type { Chain, SetDefinition, Table } from "../../kernel/nftables/object.ts";
import type { ChainState, SetState, TableState } from "../../kernel/nftables/state.ts";
import { decodeBody } from "../../kernel/netlink/message.ts";

/**
 * In what a table of the kernel is not the one we would write, in words; empty when it is.
 *
 * Elements are not looked at. Definitions are compared attribute by attribute with what we would send, rules by their
 * instructions: the kernel adds defaults to attributes, so the bytes of an instruction are only comparable with what the
 * kernel itself showed for the same rule before (`known`).
 */
export function staticDifferences(table: Table, state: TableState, known: KnownRules | undefined): readonly string[] {
  return [
    ...(state.comment === table.comment ? [] : [`table: comment ${JSON.stringify(state.comment ?? "")}`]),
    ...(hasTableFlags(table, state) ? [] : [`table: flags ${state.flags}`]),
    ...missingAndForeign("chain", namesOf(table.chains), state.chains),
    ...missingAndForeign("set", namesOf(table.sets), state.sets),
    ...table.sets.flatMap((set) => setDifferences(table, set, state.sets.get(set.name))),
    ...table.chains.flatMap((chain) => chainDifferences(table, chain, state.chains.get(chain.name))),
    ...(known === undefined ? [] : ruleDifferences(known, knownRules(state))),
  ];
}

/** The instructions of each chain's rules as the kernel shows them, in one text without what counts or names by itself. */
export type KnownRules = ReadonlyMap<string, string>;

/** What the kernel shows of a table's rules right after we wrote them. */
export function knownRules(state: TableState): KnownRules {
  return new Map([...state.chains].map(([name, { rules }]) => [name, rules.map(ruleText).join("\n")]));
}

function ruleText({ instructions }: { readonly instructions: readonly Instruction[] }): string {
  return instructions.map(({ name, data }) => (name === "counter" ? name : `${name} ${hex(data)}`)).join(", ");
}

function hex(bytes: Uint8Array): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString("hex");
}

function namesOf(objects: readonly { readonly name: string }[]): ReadonlySet<string> {
  return new Set(objects.map(({ name }) => name));
}

function missingAndForeign(
  kind: string,
  wanted: ReadonlySet<string>,
  present: ReadonlyMap<string, unknown>,
): readonly string[] {
  return [
    ...[...wanted].filter((name) => !present.has(name)).map((name) => `${kind} ${name}: missing`),
    ...[...present.keys()].filter((name) => !wanted.has(name)).map((name) => `${kind} ${name}: not ours`),
  ];
}

/** NFT_TABLE_F_PERSIST: the table outlives its owner. Its flag OWNER is gone while nobody owns it. */
const PERSIST = 4;

function hasTableFlags(table: Table, state: TableState): boolean {
  return table.isOwned === true ? (state.flags & PERSIST) !== 0 : state.flags === 0;
}

/** The attributes of a set that decide what it holds and how; the others are numbers of the kernel's or of nft's. */
const SET_ATTRIBUTES = ["flags", "keyType", "keyLength", "dataType", "dataLength", "timeout"] as const;

/** In what a set of the kernel is not as defined: its elements could not be read or moved by the definition. */
export function setDifferences(table: Table, set: SetDefinition, state: SetState | undefined): readonly string[] {
  const [request] = requestsOf([{ kind: "add set", table, set }]);
  if (state === undefined || request === undefined) return [];
  const wanted = decodeBody(setLayout, request.body).attributes;
  return SET_ATTRIBUTES.filter((name) => (wanted[name] ?? 0) !== (state[name] ?? 0) && wanted[name] !== undefined).map(
    (name) => `set ${set.name}: ${name} ${String(state[name])}`,
  );
}

function chainDifferences(table: Table, chain: Chain, state: ChainState | undefined): readonly string[] {
  if (state === undefined) return [];
  const requests = requestsOf([
    { kind: "add chain", table, chain },
    ...chain.rules.map((rule) => ({ kind: "add rule", table, chain: chain.name, rule }) as const),
  ]);
  const [added] = requests;
  const wanted = added === undefined ? {} : decodeBody(chainLayout, added.body).attributes;
  const isBaseSame =
    wanted.type === state.attributes.type &&
    wanted.policy === state.attributes.policy &&
    wanted.hook?.number === state.attributes.hook?.number &&
    wanted.hook?.priority === state.attributes.hook?.priority;
  const names = (instructions: readonly Instruction[]): string => instructions.map(({ name }) => name).join(" ");
  const wantedRules = requests
    .filter(({ layout }) => layout === ruleLayout)
    .map(({ body }) => names(decodeBody(ruleLayout, body).attributes.instructions ?? []));
  const presentRules = state.rules.map(({ instructions }) => names(instructions));
  return [
    ...(isBaseSame ? [] : [`chain ${chain.name}: another hook`]),
    ...(wantedRules.join("\n") === presentRules.join("\n") ? [] : [`chain ${chain.name}: other rules`]),
  ];
}

function ruleDifferences(known: KnownRules, present: KnownRules): readonly string[] {
  return [...known]
    .filter(([name, text]) => present.has(name) && present.get(name) !== text)
    .map(([name]) => `chain ${name}: a rule was replaced`);
}
