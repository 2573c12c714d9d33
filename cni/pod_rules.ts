import { withSocket } from "../kernel/netlink/socket.ts";
import { deleteFlowsAtOnce } from "../kernel/conntrack/table.ts";
import { DrawbridgeError } from "../kernel/error.ts";
import { acquireFileLock } from "../kernel/file_lock.ts";
import type { Address } from "../kernel/ip/address.ts";
import { NetlinkError } from "../kernel/netlink/error.ts";
import { type Change, tableChanges } from "../kernel/nftables/encode/change.ts";
import { keyText, keyTypes } from "../kernel/nftables/encode/element.ts";
import type { Element, SetDefinition, Table, TableReference } from "../kernel/nftables/model/object.ts";
import { type Nftables, NftablesSocket } from "../kernel/nftables/socket.ts";
import { SyscallError } from "../kernel/syscall/syscalls.ts";
import type { BridgeConfiguration } from "./configuration/configuration.ts";
import type { Attachment } from "./environment.ts";
import { portTaken } from "../attachment/host_port_claim.ts";
import { freeOwners } from "./del/ended_sandbox.ts";
import { claimSets, findConflict, hostPortSets } from "./node_rules/host_ports.ts";
import type { PluginMachine } from "./host.ts";
import {
  decideNodeRules,
  elementsOf,
  holderIn,
  ipTable,
  isOurs,
  type NodeRules,
  ownerIn,
  planTable,
  sharedSets,
  type TableElements,
  tablesOf,
  type TableUse,
} from "./node_rules/node_tables.ts";
import { forgetFlowsTo, staleFlows } from "./node_rules/stale_flows.ts";
import type { Wiring } from "./wiring/wiring.ts";
import type { AttachmentRecord } from "../attachment/attachment.ts";
import { formatKey } from "../kernel/nftables/text/element_text.ts";
import { isOfDaemon } from "../attachment/our_tables.ts";
import { CLOSED_TABLES, KNOWN_SETS, VERDICT_MAPS } from "./node_rules/without_policyd.ts";

export { givingWay, noteEnded } from "./del/ended_sandbox.ts";
export { demandClosed, forgetAddresses } from "./node_rules/without_policyd.ts";

/**
 * Writes the elements that an attachment's configuration asks for into the node's tables, all of them or nothing, and
 * makes the tables where they are missing.
 *
 * This happens before the link exists, so that no packet leaves unchecked or with the pod's own address.
 *
 * @throws DrawbridgeError ERR_HOST_PORT_TAKEN naming the holder of a port, ERR_FOREIGN_OBJECT for a foreign table of
 *   our name, ERR_LOCK_TIMEOUT, NetlinkError when the kernel refuses
 */
export function publish(
  node: PluginMachine,
  configuration: BridgeConfiguration,
  attachment: Attachment,
  wiring: Wiring,
): void {
  const rules = decideNodeRules(configuration, wiring, attachment.containerId);
  if (rules === undefined) return;
  const isFree = freeOwners(node, configuration.runDir, {
    containerId: attachment.containerId,
    ...(attachment.arguments.pod === undefined ? {} : { pod: attachment.arguments.pod }),
  });
  withTables(node, configuration.runDir, (tables) => claimIn(tables, rules, isFree));
  const { asked, isMeant } = staleFlows(node.syscalls, { ...rules, serviceCidrs: configuration.serviceCidrs });
  deleteFlowsAtOnce(node.syscalls, asked, isMeant);
}

/**
 * Removes an attachment's elements from the node's tables, and nothing else: each element names its owner. A port or an
 * address that another pod has by now stays, and so does a foreign table.
 *
 * @param owner the name of the host end
 * @param use says which tables may hold something; without a record, all tables are searched
 * @throws DrawbridgeError ERR_LOCK_TIMEOUT, NetlinkError when the kernel refuses
 */
export function withdraw(
  node: PluginMachine,
  runDir: string,
  owner: string,
  use: (TableUse & { readonly addresses: readonly Address[] }) | undefined,
): void {
  const candidates = tablesOf(use);
  if (candidates.length === 0 || (use === undefined && !hasTables(node, candidates))) return;
  withTables(node, runDir, (tables) => withdrawFrom(tables, candidates, owner));
  if (use !== undefined) forgetFlowsTo(node.syscalls, use.portMappings, use.addresses);
}

/** Whether one of the tables exists and is ours. A kernel without nftables has none, and refuses the question. */
function hasTables(node: PluginMachine, candidates: readonly Table[]): boolean {
  try {
    return withSocket(new NftablesSocket(node.syscalls), (tables) =>
      candidates.some((table) => {
        const found = tables.head(table);
        return found !== undefined && isOurs(found);
      }),
    );
  } catch (error) {
    if (error instanceof NetlinkError || error instanceof SyscallError) return false;
    throw error;
  }
}

/**
 * Runs an action under the lock of the node's tables, so that nothing changes between a call's reads and its writes.
 * The kernel makes each commit atomic, so a killed call leaves nothing half done.
 */
function withTables(node: PluginMachine, runDir: string, action: (tables: Nftables) => void): void {
  node.files.makeDirectory(runDir, 0o700);
  // Closing the socket comes last: it waits some milliseconds for deleted objects (nft_rcv_nl_event).
  withSocket(new NftablesSocket(node.syscalls), (tables) => {
    const release = acquireFileLock(node.syscalls, `${runDir}/nftables.lock`);
    try {
      action(tables);
    } finally {
      release();
    }
  });
}

/**
 * Does the part of {@link publish} that works on the tables, with the tables open and the lock held.
 *
 * @param isFree whether the host ports of a host end are free because its pod has ended without DEL
 */
export function claimIn(tables: Nftables, rules: NodeRules, isFree: (owner: string) => boolean = () => false): void {
  const preparations = rules.tables.flatMap(({ table }) => prepare(tables, table));
  if (preparations.length > 0) tables.commit(preparations);
  const released = refuseConflict(tables, rules, isFree);
  if (released.length > 0) tables.commit(released);
  try {
    tables.commit(rules.tables.flatMap(additions));
  } catch (error) {
    if (!isTaken(error)) throw error;
    tables.commit([
      ...rules.tables.flatMap((wanted) => removalsOfStale(tables, wanted, rules)),
      ...rules.tables.flatMap(additions),
    ]);
  }
}

/** Does the part of {@link withdraw} that works on the tables, with the tables open and the lock held. */
export function withdrawFrom(tables: Nftables, candidates: readonly Table[], owner: string): void {
  const changes = candidates.flatMap((table): readonly Change[] => {
    const found = tables.head(table);
    if (found === undefined || !isOurs(found)) return [];
    const sets = found.comment === table.comment ? table.sets : sharedSets(table, tables.sets(table));
    return sets.flatMap((set) => {
      const elements = elementsOf(owner, tables.elements(table, set));
      return elements.length === 0 ? [] : [{ kind: "delete elements", table, set, elements } as const];
    });
  });
  if (changes.length > 0) tables.commit(changes);
}

function prepare(tables: Nftables, table: Table): readonly Change[] {
  const plan = planTable(table, tables.head(table));
  switch (plan) {
    case "keep":
      return [];
    case "create":
      return tableChanges(table, new Map());
    case "replace": {
      const shared = sharedSets(table, tables.sets(table));
      const elements = new Map(shared.map((set) => [set.name, tables.elements(table, set)]));
      return [{ kind: "delete table", table }, ...tableChanges(table, elements)];
    }
    case "foreign":
      throw new DrawbridgeError(
        "ERR_FOREIGN_OBJECT",
        `nftables table ${table.family} ${table.name} is not ours: it has no comment "${table.comment ?? ""}"; expected no table of that name: rename or remove it`,
      );
  }
}

function additions({ table, sets }: TableElements): readonly Change[] {
  return sets.map(({ set, elements }) => ({ kind: "add elements", table, set, elements, isNew: true }));
}

/** Returns the removals of host ports whose holders have ended. @throws DrawbridgeError ERR_HOST_PORT_TAKEN */
function refuseConflict(tables: Nftables, rules: NodeRules, isFree: (owner: string) => boolean): readonly Change[] {
  if (rules.mappings.length === 0) return [];
  const present = new Map(
    claimSets.map((set) => [set.name, tables.elements(ipTable, set).filter((element) => !isStale(element, rules))]),
  );
  const free = new Set<string>();
  for (;;) {
    const conflict = findConflict(rules, present);
    if (conflict === undefined) break;
    const owner = ownerIn(conflict.holder);
    if (owner === undefined || free.has(owner) || !isFree(owner))
      throw portTaken(conflict.claim.mapping, holderIn(conflict.holder));
    free.add(owner);
    for (const [name, elements] of present)
      present.set(
        name,
        elements.filter((one) => ownerIn(one.comment) !== owner),
      );
  }
  return free.size === 0 ? [] : hostPortSets.flatMap((set) => hostPortRemoval(tables, set, free));
}

/** Returns the removal of some owners' host ports from a set. */
function hostPortRemoval(tables: Nftables, set: SetDefinition, owners: ReadonlySet<string>): readonly Change[] {
  const elements = tables.elements(ipTable, set).filter(({ comment }) => owners.has(ownerIn(comment) ?? ""));
  return elements.length === 0 ? [] : [{ kind: "delete elements", table: ipTable, set, elements }];
}

/**
 * Whether an element's port leads to an address that the new pod has now, or belongs to the attachment itself: its
 * former pod is gone, and the DEL never came.
 */
function isStale(element: Element, { owner, addresses }: NodeRules): boolean {
  const target = element.data !== undefined && !("kind" in element.data) ? element.data[0] : undefined;
  return elementsOf(owner, [element]).length > 0 || addresses.some((address) => address === target);
}

/** Whether an element with this key exists already. For a map's element with other data, older kernels answer EBUSY. */
function isTaken(error: unknown): boolean {
  return error instanceof NetlinkError && (error.errnoName === "EEXIST" || error.errnoName === "EBUSY");
}

/** Returns the removals of stale elements whose keys are addresses or the host end that the new pod has now. */
function removalsOfStale(tables: Nftables, { table, sets }: TableElements, rules: NodeRules): readonly Change[] {
  return sets.flatMap(({ set, elements }) => {
    const wanted = new Set(elements.map(({ key }) => keyText(key)));
    const stale = tables
      .elements(table, set)
      .filter((element) => wanted.has(keyText(element.key)) && (!isClaimed(set) || isStale(element, rules)));
    return stale.length === 0 ? [] : [{ kind: "delete elements", table, set, elements: stale } as const];
  });
}

/** Whether another pod may hold a key of this set, as it may hold a port, but not an address or a host end. */
function isClaimed(set: SetDefinition): boolean {
  return claimSets.some(({ name }) => name === set.name);
}

/** The part of nftables that CHECK reads. */
type RulesReader = Pick<NftablesSocket, "head" | "rulesOf" | "elements">;

/**
 * Describes everything that an attachment lacks among the plugin's own elements, rules and tables.
 *
 * @returns one message for each table, chain or set
 * @throws NetlinkError when the kernel refuses
 */
export function ownRuleDifferences(
  tables: RulesReader,
  configuration: BridgeConfiguration,
  record: AttachmentRecord,
): readonly string[] {
  const { portMappings, ipMasq = false, macspoofchk = false } = record;
  const rules = decideNodeRules(
    { ...configuration, portMappings, ipMasq, macspoofchk },
    { ...record, podMac: record.mac, alias: record.containerId },
    record.containerId,
  );
  if (rules === undefined) return [];
  return rules.tables.flatMap(({ table, sets }) => {
    const where = nameOf(table);
    const head = tables.head(table);
    if (head === undefined) return [`nftables table ${where} is missing`];
    if (!isOurs(head)) return [`nftables table ${where} is not ours: it has no comment "${table.comment ?? ""}"`];
    // In another version's table, sets of the same name are the same; the chains are that version's own.
    const empty = head.comment === table.comment ? chainsWithoutRules(tables, table) : [];
    return [
      ...empty.map((chain) => `chain ${chain} of nftables table ${where} has no rules`),
      ...sets.flatMap(({ set, elements }) => {
        if (elements.length === 0) return [];
        const present = keysIn(tables, table, set, (found) => elementsOf(rules.owner, found));
        return elements
          .filter(({ key }) => !present.has(keyText(key)))
          .map((element) => elementMissing(table, set, element));
      }),
    ];
  });
}

function chainsWithoutRules(tables: RulesReader, table: Table): readonly string[] {
  return table.chains.map(({ name }) => name).filter((name) => tables.rulesOf(table, name).length === 0);
}

/** The guard's set of ports with their MAC addresses (policyd/node/tables/guard.ts). */
const GUARD_PORTS: SetDefinition = { name: "podmac", key: ["ifname", "ether_addr"] };

const GUARD_TABLE: TableReference = { family: "bridge", name: "drawbridge" };

/**
 * Returns the elements of an attachment that are missing in the daemon's tables: its port in the guard's set, and its
 * addresses in the sets of those with policies in force and in the maps of verdicts. A missing table is not reported:
 * the daemon removes the policy table when it is configured not to enforce any, and restores the others by itself.
 *
 * @throws NetlinkError when the kernel refuses
 */
export function daemonRuleDifferences(tables: RulesReader, record: AttachmentRecord): readonly string[] {
  const { hostInterface, mac, addresses } = record;
  const wanted: readonly (readonly [TableReference, SetDefinition, readonly Element[]])[] = [
    [GUARD_TABLE, GUARD_PORTS, [{ key: [hostInterface, mac] }]],
    ...CLOSED_TABLES.filter(({ family }) => family === "inet").flatMap((table) =>
      [...KNOWN_SETS, ...VERDICT_MAPS].map((set) => {
        const isIpv4 = set.key[0] === "ipv4_addr";
        const own = addresses.filter(({ address }) => (typeof address === "number") === isIpv4);
        return [table, set, own.map(({ address }) => ({ key: [address] }))] as const;
      }),
    ),
  ];
  return wanted.flatMap(([table, set, elements]) => {
    if (elements.length === 0 || !isOfDaemon(tables.head(table)?.comment)) return [];
    const present = keysIn(tables, table, set);
    return elements
      .filter(({ key }) => !present.has(keyText(key)))
      .map((element) => elementMissing(table, set, element));
  });
}

/** Runs {@link ownRuleDifferences} or {@link daemonRuleDifferences} on the kernel's tables. */
export function readRules<T>(node: Pick<PluginMachine, "syscalls">, read: (tables: RulesReader) => T): T {
  return withSocket(new NftablesSocket(node.syscalls), read);
}

/** Returns the keys of a set's elements; none if the table lacks the set, or has just lost it. */
function keysIn(
  tables: RulesReader,
  table: TableReference,
  set: SetDefinition,
  isOwn: (elements: readonly Element[]) => readonly Element[] = (elements) => elements,
): ReadonlySet<string> {
  try {
    return new Set(isOwn(tables.elements(table, set)).map(({ key }) => keyText(key)));
  } catch (error) {
    if (error instanceof NetlinkError && error.errnoName === "ENOENT") return new Set();
    throw error;
  }
}

function elementMissing(table: TableReference, set: SetDefinition, { key }: Element): string {
  return `nftables element ${formatKey(keyTypes(set.key), key)} is missing in set ${set.name} of table ${nameOf(table)}`;
}

function nameOf({ family, name }: TableReference): string {
  return `${family} ${name}`;
}
