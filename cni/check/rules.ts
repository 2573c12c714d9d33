import { withSocket } from "../../kernel/netlink/socket.ts";
import type { AttachmentRecord } from "../../attachment/attachment.ts";
import { NetlinkError } from "../../kernel/netlink/error.ts";
import { keyText, keyTypes } from "../../kernel/nftables/encode/element.ts";
import { formatKey } from "../../kernel/nftables/text/element_text.ts";
import type { Element, SetDefinition, Table, TableReference } from "../../kernel/nftables/model/object.ts";
import { NftablesSocket } from "../../kernel/nftables/socket.ts";
import type { BridgeConfiguration } from "../configuration/configuration.ts";
import type { PluginMachine } from "../host.ts";
import { decideNodeRules, elementsOf, isOurs } from "../node_rules/node_tables.ts";
import { isOfDaemon } from "../../attachment/our_tables.ts";
import { CLOSED_TABLES, KNOWN_SETS, VERDICT_MAPS } from "../node_rules/without_policyd.ts";

/** The part of nftables that CHECK reads. */
export type RulesReader = Pick<NftablesSocket, "head" | "rulesOf" | "elements">;

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
export const GUARD_PORTS: SetDefinition = { name: "podmac", key: ["ifname", "ether_addr"] };

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
