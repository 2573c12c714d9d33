import { withSocket } from "../../kernel/netlink/socket.ts";
import type { AttachmentRecord } from "../../attachment/attachment.ts";
import { flowQuestions, isFlowOf } from "../../kernel/conntrack/flows_of_addresses.ts";
import { deleteFlowsAtOnce } from "../../kernel/conntrack/table.ts";
import { DrawbridgeError } from "../../kernel/error.ts";
import { type Address, formatAddress } from "../../kernel/ip/address.ts";
import { decodeAttributes } from "../../kernel/netlink/attribute_decoder.ts";
import { NetlinkError } from "../../kernel/netlink/error.ts";
import { instructions } from "../../kernel/nftables/encode/instruction.ts";
import type { Element, SetDefinition, TableReference } from "../../kernel/nftables/model/object.ts";
import { NftablesSocket } from "../../kernel/nftables/socket.ts";
import type { RuleState } from "../../kernel/nftables/decode/state.ts";
import { SyscallError } from "../../kernel/syscall/syscalls.ts";
import type { PluginMachine } from "../host.ts";
import { BRIDGE_TABLE, isOfDaemon, POLICY_TABLE } from "../../attachment/our_tables.ts";

/** One of the daemon's tables, reduced to the parts that keep an unknown pod closed. */
export interface ClosedTable extends TableReference {
  /** Its base chains and the numbers of their hooks (enum nf_inet_hooks, NF_BR_*). */
  readonly chains: readonly (readonly [name: string, hook: number])[];
  /** The chain whose rules name the bridge; undefined if the rules apply to all pods' ports. */
  readonly bridgeChain: string | undefined;
}

/**
 * The tables that keep a pod closed that is not registered with the daemon. The guard stops it from sending through the
 * bridge; the policies stop it from sending around the bridge and from receiving.
 */
export const CLOSED_TABLES: readonly ClosedTable[] = [
  {
    ...BRIDGE_TABLE,
    chains: [
      ["prerouting", 0],
      ["forward", 2],
    ],
    bridgeChain: undefined,
  },
  {
    ...POLICY_TABLE,
    chains: [
      ["forward", 2],
      ["input", 1],
      ["output", 3],
    ],
    bridgeChain: "forward",
  },
];

/** The sets of addresses whose policies are in force: no packet of another address passes. */
export const KNOWN_SETS: readonly SetDefinition[] = [
  { name: "known4", key: ["ipv4_addr"] },
  { name: "known6", key: ["ipv6_addr"] },
];

/** The maps from addresses to the chains of their policies. Without an element, no packet of an address passes. */
export const VERDICT_MAPS: readonly SetDefinition[] = (["egress", "ingress"] as const).flatMap((direction) =>
  KNOWN_SETS.map(({ key }) => ({
    name: `${direction}${key[0] === "ipv4_addr" ? 4 : 6}`,
    key,
    data: "verdict",
  })),
);

const decoder = new TextDecoder();

/** NFT_TABLE_F_DORMANT: the table's chains exist but are not attached to the hooks. */
const DORMANT = 1;

/**
 * Makes sure that a pod can neither send nor receive until the daemon has found its record: that the daemon's tables
 * are loaded and apply to this bridge, and that they do not know the pod's addresses from an earlier pod.
 *
 * @param reason why the daemon does not accept the pod
 * @throws DrawbridgeError ERR_UNAVAILABLE when the tables do not keep it closed, with both reasons
 */
export function demandClosed(node: PluginMachine, { bridge, addresses }: AttachmentRecord, reason: string): void {
  const obstacle = obstacleTo(
    node,
    bridge,
    addresses.map(({ address }) => address),
  );
  if (obstacle === undefined) return;
  throw new DrawbridgeError(
    "ERR_UNAVAILABLE",
    `${reason}; policyd.onUnavailable: "closed" does not hold here: ${obstacle}`,
  );
}

/**
 * Makes the kernel forget the addresses of a removed pod: takes them out of the policies' sets and maps, and deletes
 * every flow from and to them. This is normally the daemon's work, and is done here when the daemon is away (POD-20).
 *
 * @throws NetlinkError, SyscallError when the kernel refuses
 */
export function forgetAddresses(node: PluginMachine, addresses: readonly Address[]): void {
  if (addresses.length === 0) return;
  // First, so that no new flow begins after the flows were listed.
  whereThere(() =>
    withSocket(new NftablesSocket(node.syscalls), (tables) => {
      // Each set separately: a table of another version, or one that is being removed, may lack some.
      for (const set of [...KNOWN_SETS, ...VERDICT_MAPS]) {
        whereThere(() => removeKnown(tables, [set], addresses), NO_SUCH_OBJECT);
      }
    }),
  );
  const gone = new Set(addresses);
  whereThere(() => deleteFlowsAtOnce(node.syscalls, flowQuestions(gone), (flow) => isFlowOf(flow, gone)));
}

/**
 * Runs an action, and ignores the refusal of a kernel without nftables or connection tracking, which has nothing to
 * forget.
 *
 * @param absent the errnos of that refusal
 */
function whereThere(action: () => void, absent: readonly string[] = NO_SUCH_SUBSYSTEM): void {
  try {
    action();
  } catch (error) {
    const isRefusal = error instanceof SyscallError || error instanceof NetlinkError;
    if (!isRefusal || !absent.includes(error.errnoName)) throw error;
  }
}

/**
 * The answers of netlink when a subsystem, or netfilter as a whole, is missing: the kernel refuses the socket or each
 * request (netlink_create, nfnetlink_rcv_msg).
 */
const NO_SUCH_SUBSYSTEM: readonly string[] = ["EINVAL", "EOPNOTSUPP", "EPROTONOSUPPORT"];

/** The answer of nftables when a set, or an element to be deleted, does not exist. */
const NO_SUCH_OBJECT: readonly string[] = ["ENOENT"];

function obstacleTo(node: PluginMachine, bridge: string, addresses: readonly Address[]): string | undefined {
  try {
    return withSocket(new NftablesSocket(node.syscalls), (tables) => {
      for (const table of CLOSED_TABLES) {
        const problem = problemOf(tables, table, bridge);
        if (problem !== undefined) return problem;
      }
      return removeKnown(tables, [...KNOWN_SETS, ...VERDICT_MAPS], addresses);
    });
  } catch (error) {
    if (error instanceof DrawbridgeError) return error.message;
    throw error;
  }
}

function problemOf(tables: NftablesSocket, table: ClosedTable, bridge: string): string | undefined {
  const where = `table ${table.family} ${table.name}`;
  const head = tables.head(table);
  if (head === undefined) return `${where} is not loaded: start policyd once on this node`;
  if (!isOfDaemon(head.comment)) return `${where} is not policyd's: it has no such comment`;
  if ((head.flags & DORMANT) !== 0) return `${where} is dormant`;
  const hooks = new Map(tables.chains(table).map(({ name, hook }) => [name, hook?.number]));
  for (const [name, hook] of table.chains) {
    if (hooks.get(name) !== hook) return `${where} has no base chain ${name}`;
    const rules = tables.rulesOf(table, name);
    if (rules.length === 0) return `chain ${name} of ${where} is empty`;
    if (name === table.bridgeChain && !rules.some((rule) => namesInterface(rule, bridge))) {
      return `chain ${name} of ${where} is not about bridge ${JSON.stringify(bridge)}: give policyd the same bridge`;
    }
  }
  return undefined;
}

/** Whether a rule compares a value with the name of an interface. */
function namesInterface({ instructions: parts }: RuleState, name: string): boolean {
  return parts.some((part) => {
    if (part.name !== "cmp") return false;
    const { value = new Uint8Array() } = decodeAttributes(instructions.cmp, part.data).data ?? {};
    const end = value.indexOf(0);
    return decoder.decode(end < 0 ? value : value.subarray(0, end)) === name;
  });
}

/**
 * Removes addresses from the sets of known ones and from the maps of verdicts. A missing set counts as empty: tables of
 * an earlier version may lack it.
 *
 * @returns why this is not possible: the daemon owns the table and is running, so it removes them itself
 */
function removeKnown(
  tables: NftablesSocket,
  sets: readonly SetDefinition[],
  addresses: readonly Address[],
): string | undefined {
  const head = tables.head(POLICY_TABLE);
  if (head === undefined || !isOfDaemon(head.comment)) return undefined;
  const found = sets
    .map((set) => ({
      set,
      elements: elementsOf(tables, set).filter(({ key }) => addresses.some((address) => address === key[0])),
    }))
    .filter(({ elements }) => elements.length > 0);
  if (found.length === 0) return undefined;
  if (head.owner !== undefined) {
    return `${addresses.map(formatAddress).join(", ")} is known by another pod, and policyd owns its tables`;
  }
  tables.commit(found.map((part) => ({ kind: "delete elements", table: POLICY_TABLE, ...part })));
  return undefined;
}

function elementsOf(tables: NftablesSocket, set: SetDefinition): readonly Element[] {
  try {
    return tables.elements(POLICY_TABLE, set);
  } catch (error) {
    if (error instanceof NetlinkError && NO_SUCH_OBJECT.includes(error.errnoName)) return [];
    throw error;
  }
}
