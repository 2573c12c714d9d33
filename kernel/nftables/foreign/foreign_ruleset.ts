import { messageType, netfilterHeader, Subsystem } from "../../netlink/netfilter_message.ts";
import {
  type AttributeTable,
  type AttributeValues,
  be32,
  bytes,
  list,
  nested,
  string,
} from "../../netlink/attribute.ts";
import { type BodyLayout, decodeBody, type Request, request } from "../../netlink/message.ts";
import type { NetlinkSocket } from "../../netlink/socket.ts";
import {
  chainAttributes,
  chainLayout,
  elementAttributes,
  elementLayout,
  Message,
  ruleLayout,
  setLayout,
  tableLayout,
} from "../encode/message.ts";
import { type ForeignSet, foreignSet, MOST_ELEMENTS } from "./foreign_set.ts";
import type { Step } from "./step.ts";
import { decodeSteps } from "./step_decoder.ts";

/** The families whose rules can stop packets of pods, by NFPROTO_*. */
const FAMILIES: ReadonlyMap<number, ForeignFamily> = new Map([
  [1, "inet"],
  [2, "ip"],
  [5, "netdev"],
  [7, "bridge"],
  [10, "ip6"],
]);
/** NFT_TABLE_F_DORMANT: no chain of the table sees packets. */
const DORMANT = 0x1;
const HOOKS = ["prerouting", "input", "forward", "output", "postrouting", "ingress"] as const;
const NETDEV_HOOKS = ["ingress", "egress"] as const;

export type ForeignFamily = "inet" | "ip" | "ip6" | "netdev" | "bridge";
export type ForeignHook = (typeof HOOKS)[number] | (typeof NETDEV_HOOKS)[number];

/** A rule of another program. */
export interface ForeignRule {
  /** The number by which `nft -a list` names it. */
  readonly handle: bigint;
  readonly steps: readonly Step[];
}

/** A chain of another program with its rules; `base` is set when it has a hook. */
export interface ForeignChain {
  readonly name: string;
  readonly rules: readonly ForeignRule[];
  readonly base:
    | {
        readonly hook: ForeignHook;
        readonly priority: number;
        readonly policy: "accept" | "drop";
        /** The links whose packets it sees in the hooks ingress and egress. */
        readonly devices: readonly string[];
      }
    | undefined;
}

/** A table of another program. */
export interface ForeignTable {
  readonly family: ForeignFamily;
  readonly name: string;
  /** Whether it belongs to the ip_tables module, which nftables does not show (kernel/iptables/). */
  readonly isLegacy?: true;
  readonly chains: ReadonlyMap<string, ForeignChain>;
  readonly sets: ReadonlyMap<string, ForeignSet>;
}

/** NFTA_HOOK_DEV, and NFTA_HOOK_DEVS with NFTA_DEVICE_NAME inside. */
const hookAttributes = {
  number: [1, be32],
  priority: [2, be32],
  device: [3, string],
  devices: [4, list(1, string)],
} as const satisfies AttributeTable;
const foreignChainLayout = {
  struct: netfilterHeader,
  attributes: { ...chainAttributes, hook: [4, nested(hookAttributes)] },
} as const satisfies BodyLayout;
const elementListLayout = {
  struct: netfilterHeader,
  attributes: { elements: [3, list(1, nested({ ...elementAttributes, expressions: [11, bytes] }))] },
} as const satisfies BodyLayout;

/**
 * Reads the tables of all other programs, with rules as steps and the elements of sets.
 *
 * @param isOurs tells whether a table is ours and omitted
 * @throws NetlinkError EPERM without CAP_NET_ADMIN
 */
export function readForeignTables(
  socket: NetlinkSocket,
  isOurs: (family: string, table: string) => boolean,
): readonly ForeignTable[] {
  const tables = new Map<string, MutableTable>();
  const dormant = new Set<string>();
  for (const { body } of socket.dump(listing("tables", Message.GET_TABLE, tableLayout))) {
    const { header, attributes } = decodeBody(tableLayout, body);
    if (((attributes.flags ?? 0) & DORMANT) !== 0) dormant.add(`${header.family} ${attributes.name}`);
  }
  const tableOf = (number: number, name: string): MutableTable | undefined => {
    const family = FAMILIES.get(number);
    if (family === undefined || dormant.has(`${number} ${name}`) || isOurs(family, name)) return undefined;
    const key = `${family} ${name}`;
    const table = tables.get(key) ?? { number, family, name, chains: new Map(), sets: new Map() };
    tables.set(key, table);
    return table;
  };
  for (const { body } of socket.dump(listing("chains", Message.GET_CHAIN, chainLayout))) {
    const { header, attributes } = decodeBody(foreignChainLayout, body);
    const { table = "", name = "" } = attributes;
    tableOf(header.family, table)?.chains.set(name, { name, rules: [], base: baseOf(header.family, attributes) });
  }
  const rules = socket.collect(
    listing("rules", Message.GET_RULE, ruleLayout),
    (): (readonly [{ readonly rules: ForeignRule[] } | undefined, ForeignRule])[] => [],
    (found, { body }) => {
      const { header, attributes } = decodeBody(ruleLayout, body);
      const { table = "", chain = "", handle = 0n } = attributes;
      const steps = decodeSteps(attributes.instructions ?? []);
      found.push([tableOf(header.family, table)?.chains.get(chain), { handle, steps }]);
    },
  );
  for (const [chain, rule] of rules) chain?.rules.push(rule);
  for (const { body } of socket.dump(listing("sets", Message.GET_SET, setLayout))) {
    const { header, attributes } = decodeBody(setLayout, body);
    const { table: name = "", name: set = "" } = attributes;
    const table = tableOf(header.family, name);
    if (table !== undefined) table.sets.set(set, foreignSet(attributes, readElements(socket, table, set)));
  }
  return [...tables.values()];
}

interface MutableTable {
  readonly number: number;
  readonly family: ForeignFamily;
  readonly name: string;
  readonly chains: Map<string, ForeignChain & { readonly rules: ForeignRule[] }>;
  readonly sets: Map<string, ForeignSet>;
}

function baseOf(
  family: number,
  { hook, policy }: AttributeValues<(typeof foreignChainLayout)["attributes"]>,
): ForeignChain["base"] {
  if (hook === undefined) return undefined;
  const names: readonly ForeignHook[] = FAMILIES.get(family) === "netdev" ? NETDEV_HOOKS : HOOKS;
  const name = names[hook.number ?? 0];
  if (name === undefined) return undefined;
  return {
    hook: name,
    priority: (hook.priority ?? 0) | 0,
    policy: policy === 0 ? "drop" : "accept",
    devices: hook.devices ?? (hook.device === undefined ? [] : [hook.device]),
  };
}

/** Reads the elements of a set, but only one more than the limit when there are too many. */
function readElements(
  socket: NetlinkSocket,
  { number, name: table }: MutableTable,
  set: string,
): readonly ForeignElement[] {
  const kind = { type: messageType(Subsystem.NFTABLES, Message.GET_ELEMENTS), flags: 0, layout: elementLayout };
  return socket.collect(
    request(`list set ${table} ${set}`, kind, { family: number }, { table, set }),
    (): ForeignElement[] => [],
    (found, { body }) => {
      if (found.length <= MOST_ELEMENTS) found.push(...(decodeBody(elementListLayout, body).attributes.elements ?? []));
    },
  );
}

/** An element as the kernel reports it. */
export type ForeignElement = NonNullable<AttributeValues<(typeof elementListLayout)["attributes"]>["elements"]>[number];

function listing<A extends AttributeTable>(
  what: string,
  message: number,
  layout: BodyLayout<typeof netfilterHeader, A>,
): Request {
  return request(`list ${what}`, { type: messageType(Subsystem.NFTABLES, message), flags: 0, layout }, {}, {});
}
