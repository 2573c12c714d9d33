import type { Chain, Element, SetDefinition, Table } from "../../../kernel/nftables/model/object.ts";
import type { Nftables } from "../../../kernel/nftables/socket.ts";
import { tableKey } from "../desired/desired_element.ts";
import type { DesiredElements } from "../desired/desired_elements.ts";
import type { DesiredObjects } from "../desired/desired_objects.ts";
import { readElements } from "./element_reading.ts";
import { type KnownRules, rulesDigest } from "./known_rules.ts";
import { emptyTable, type Mirror, type MirroredTable } from "./mirror.ts";
import type { Pending, TablePending } from "../pending.ts";
import { isWrittenByRules } from "../schema.ts";
import { mark, markElements, takeChains, takeSets, takeTable } from "./table_objects.ts";
import { isOfDaemon } from "../../../attachment/our_tables.ts";
import { requestsOf } from "../../../kernel/nftables/encode/change.ts";
import { chainLayout, setLayout } from "../../../kernel/nftables/encode/message.ts";
import type { ChainState, SetState, TableHead } from "../../../kernel/nftables/decode/state.ts";
import { decodeBody } from "../../../kernel/netlink/message.ts";

export interface ReadingSources {
  readonly kernel: Pick<Nftables, "head" | "chains" | "sets" | "rulesOf" | "elements" | "elementsInPieces">;
  readonly objects: DesiredObjects;
  readonly elements: DesiredElements;
  readonly known: KnownRules;
  /** Records what the kernel shows. */
  readonly mirror: Mirror;
  /** Records every difference from the desired state. */
  readonly pending: Pending;
}

/** How a table differs from what it was believed to be. */
export interface TableFindings {
  readonly table: Table;
  /** The table has to be written as a whole, since it is missing or unfit. */
  readonly isWhole: boolean;
  /** The faults of the table, its chains and its sets, in words. */
  readonly problems: readonly string[];
  /** The number of wrong elements, and the sets that they are in. */
  readonly wrongElements: number;
  readonly wrongSets: readonly string[];
  /** The comment of the existing table. */
  readonly comment: string | undefined;
  readonly isPresent: boolean;
}

/** The number of chains or sets that take as long to list as the rules of a chain to read. */
const NAMES_PER_UNIT = 16;

/**
 * Reads a table and compares it with the desired state, piece by piece. At the end of each piece the mirror has what
 * was read and every difference is pending, so anything may be committed between two pieces.
 *
 * A table with different flags or without a comment of ours, or with a set or a chain that has our name but another
 * shape, can only be replaced as a whole. Objects that are missing, foreign or have other rules are repaired one by
 * one. All rules of a table that another process has written are written again: they may have been changed in ways that
 * cannot be detected.
 *
 * @returns the findings; it yields the work of each piece, a chain or a set being 1
 * @throws NetlinkError, SyscallError when the kernel cannot be read
 */
export function* readTable(table: Table, sources: ReadingSources): Generator<number, TableFindings> {
  const { kernel, objects, known } = sources;
  const head = kernel.head(table);
  if (head === undefined) return writeWhole(table, sources, emptyTable("absent"), ["missing"], undefined);
  const chains = kernel.chains(table);
  const unfit = [...headDifferences(table, head), ...unfitChains(table, chains, objects)];
  const problems: string[] = [];
  if (unfit.length === 0) {
    const mirrored = takeTable(table, sources);
    takeChains(tableKey(table), chains, sources, mirrored, problems);
    yield chains.length / NAMES_PER_UNIT;
    if (known.has(tableKey(table))) yield* readRules(table, chains, sources, mirrored, problems);
    const found = yield* readSets(table, sources, mirrored, problems);
    if ("wrongSets" in found)
      return { table, isWhole: false, problems, ...found, comment: head.comment, isPresent: true };
    unfit.push(...found.unfit);
  }
  return writeWhole(table, sources, emptyTable("unfit", written(table, sources)), unfit, head.comment);
}

/** Compares the rules of the chains that this process wrote. */
function* readRules(
  table: Table,
  chains: readonly ChainState[],
  { kernel, known, pending }: ReadingSources,
  mirrored: MirroredTable,
  problems: string[],
): Generator<number, void> {
  const key = tableKey(table);
  for (const { name = "" } of chains) {
    if (mirrored.chains.get(name) !== "ours") continue;
    const digest = known.get(key)?.get(name);
    if (digest !== rulesDigest(kernel.rulesOf(table, name))) {
      mirrored.chains.set(name, "unsure");
      // The digest is missing when another program committed something while we wrote, so the rules may be anybody's.
      if (digest === undefined) pending.table(key).chains.add(name);
      else mark(pending.table(key).chains, name, `chain ${name}: other rules`, problems);
    }
    yield 1;
  }
}

/** Compares sets and their elements. @returns why the table has to be replaced, or which elements are wrong */
function* readSets(
  table: Table,
  sources: ReadingSources,
  mirrored: MirroredTable,
  problems: string[],
): Generator<number, { readonly unfit: readonly string[] } | Pick<TableFindings, "wrongElements" | "wrongSets">> {
  const key = tableKey(table);
  const sets = sources.kernel.sets(table);
  takeSets(table, sets, sources, mirrored, problems);
  yield sets.length / NAMES_PER_UNIT;
  const wrongSets: string[] = [];
  let wrongElements = 0;
  for (const state of sets) {
    const { name = "" } = state;
    const set = sources.objects.set(key, name);
    if (set === undefined || !mirrored.sets.has(name)) continue;
    const unfit = setDifferences(table, set, state);
    if (unfit.length > 0) return { unfit };
    if (isWrittenByRules(set)) continue;
    const wrong = yield* readElements(table, set, sources, mirrored);
    wrongElements += wrong;
    if (wrong > 0) wrongSets.push(name);
    yield 1;
  }
  return { wrongElements, wrongSets };
}

function writeWhole(
  table: Table,
  { objects, elements, known, mirror, pending: allPending }: ReadingSources,
  mirrored: MirroredTable,
  problems: readonly string[],
  comment: string | undefined,
): TableFindings {
  const key = tableKey(table);
  known.delete(key);
  mirror.load(key, mirrored);
  const pending: TablePending = { sets: new Set(), chains: new Set(), elements: new Map() };
  for (const set of objects.sets(key)) {
    const { name } = set;
    pending.sets.add(name);
    // It may be added in slices. A set of the schema gets its elements marked when it is added (`settle`).
    const mayBeSliced = mirrored.state === "absent" && objects.isProvided({ table: key, kind: "set", name });
    if (mayBeSliced) markElements(pending, set, elements.keys(key, name));
  }
  for (const { name } of objects.chains(key)) pending.chains.add(name);
  allPending.load(key, pending);
  return {
    table,
    isWhole: true,
    problems,
    wrongElements: 0,
    wrongSets: [],
    comment,
    isPresent: mirrored.state === "unfit",
  };
}

function unfitChains(table: Table, chains: readonly ChainState[], objects: DesiredObjects): readonly string[] {
  const found: string[] = [];
  for (const attributes of chains) {
    const chain = objects.chain(tableKey(table), attributes.name ?? "");
    if (chain !== undefined) found.push(...chainDifferences(table, chain, attributes));
  }
  return found;
}

/**
 * Returns what rules have written into sets with the same name and shape as ours. Elements of sets with counters are
 * not retained: an element without its count is useless, and there may be very many.
 */
function written(table: Table, { kernel, objects }: ReadingSources): ReadonlyMap<string, readonly Element[]> {
  const kept = new Map<string, readonly Element[]>();
  for (const state of kernel.sets(table)) {
    const set = objects.set(tableKey(table), state.name ?? "");
    if (set === undefined || !isWrittenByRules(set) || set.hasCounters === true) continue;
    if (setDifferences(table, set, state).length > 0) continue;
    kept.set(set.name, kernel.elements(table, set));
  }
  return kept;
}

/**
 * Returns why an existing table cannot be taken over, in words. Its content is not checked, and a table of another
 * version can be taken over.
 */
export function headDifferences(table: Table, state: TableHead): readonly string[] {
  return [
    ...(isOfDaemon(state.comment) ? [] : [`table: comment ${JSON.stringify(state.comment ?? "")}`]),
    ...(hasTableFlags(table, state) ? [] : [`table: flags ${state.flags}`]),
  ];
}

/** NFT_TABLE_F_PERSIST: the table outlives its owner. The flag OWNER is absent while nobody owns the table. */
const PERSIST = 4;

function hasTableFlags(table: Table, state: TableHead): boolean {
  return table.isOwned === true ? (state.flags & PERSIST) !== 0 : state.flags === 0;
}

/** The attributes of a set that decide what it holds and how; the others are numbers that the kernel or nft assigns. */
const SET_ATTRIBUTES = ["flags", "keyType", "keyLength", "dataType", "dataLength", "timeout", "collection"] as const;

/**
 * Returns how an existing set differs from its definition, so that its elements could not be read or changed by the
 * definition. The attributes that we would send are compared one by one.
 */
export function setDifferences(table: Table, set: SetDefinition, state: SetState | undefined): readonly string[] {
  const [request] = requestsOf([{ kind: "add set", table, set }]);
  if (state === undefined || request === undefined) return [];
  const wanted = decodeBody(setLayout, request.body).attributes;
  const size = state.description?.size;
  return [
    ...SET_ATTRIBUTES.filter((name) => (wanted[name] ?? 0) !== (state[name] ?? 0) && wanted[name] !== undefined).map(
      (name) => `set ${set.name}: ${name} ${String(state[name])}`,
    ),
    ...(wanted.description?.size === size ? [] : [`set ${set.name}: size ${size}`]),
    ...((wanted.instruction === undefined) === (state.instruction === undefined) ? [] : [`set ${set.name}: counters`]),
  ];
}

/** Returns how an existing chain differs from its definition, apart from its rules. */
export function chainDifferences(table: Table, chain: Chain, attributes: ChainState): readonly string[] {
  if (chain.base === undefined) return attributes.hook === undefined ? [] : [`chain ${chain.name}: another hook`];
  const [request] = requestsOf([{ kind: "add chain", table, chain }]);
  const wanted = request === undefined ? {} : decodeBody(chainLayout, request.body).attributes;
  const isSame =
    wanted.type === attributes.type &&
    wanted.policy === attributes.policy &&
    wanted.hook?.number === attributes.hook?.number &&
    wanted.hook?.priority === attributes.hook?.priority;
  return isSame ? [] : [`chain ${chain.name}: another hook`];
}
