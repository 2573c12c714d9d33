import { bytes, string } from "../../netlink/attribute.ts";
import { decodeAttributes } from "../../netlink/attribute_decoder.ts";
import { decodeBody } from "../../netlink/message.ts";
import type { NetlinkSocket } from "../../netlink/socket.ts";
import { littleEndian } from "../../byte_order.ts";
import { TableFlag } from "../encode/change.ts";
import { type Instruction, instructions } from "../encode/instruction.ts";
import { chainLayout, Message, nftablesRequest, ruleLayout, tableLayout } from "../encode/message.ts";
import { verdictCodes } from "../encode/lowering.ts";
import { VERDICT_REGISTER } from "../encode/register.ts";
import { commentOf } from "../encode/userdata.ts";

/** NFPROTO_* (include/uapi/linux/netfilter.h), including the families that our tables do not use. */
const FAMILIES: ReadonlyMap<number, string> = new Map([
  [1, "inet"],
  [2, "ip"],
  [3, "arp"],
  [5, "netdev"],
  [7, "bridge"],
  [10, "ip6"],
]);

/** NF_INET_*; bridge tables use the same numbers for these hooks. */
const HOOKS = ["prerouting", "input", "forward", "output", "postrouting", "ingress"];
/** NF_NETDEV_* */
const DEVICE_HOOKS = ["ingress", "egress"];

/** A table made by any program. */
export interface TableOverview {
  readonly family: string;
  readonly name: string;
  readonly comment: string | undefined;
  /** Whether it has or had an owner: only a program that takes it over can change it. */
  readonly isOwned: boolean;
}

/** A chain of any table; `base` is set when it has a hook that sees packets. */
export interface ChainOverview {
  readonly family: string;
  readonly table: string;
  readonly name: string;
  /** The number of its rules that can drop, reject or queue a packet, or look up what to do with it. */
  readonly dropping: number;
  readonly base:
    | {
        readonly type: string;
        readonly hook: string;
        readonly priority: number;
        readonly policy: "accept" | "drop";
      }
    | undefined;
}

/** A rule that writes the marks of packets. */
export interface MarkWrite {
  readonly family: string;
  readonly table: string;
  readonly chain: string;
  /** The bits that are written; all 32 for a rule that sets the whole mark. */
  readonly bits: number;
}

/** All tables of a namespace, and the parts of them that matter to other programs. */
export interface RulesetOverview {
  readonly tables: readonly TableOverview[];
  readonly chains: readonly ChainOverview[];
  readonly markWrites: readonly MarkWrite[];
}

/**
 * Reads the nftables state of all programs, including iptables-nft. It reads rules one by one, so the memory used does
 * not grow with their number. Netlink does not show the rules of the older iptables (legacy).
 *
 * @throws NetlinkError EPERM without CAP_NET_ADMIN
 */
export function readOverview(socket: NetlinkSocket): RulesetOverview {
  const dormant = new Set<string>();
  const tables = socket
    .dump(nftablesRequest("list tables", { message: Message.GET_TABLE, family: undefined, layout: tableLayout }, {}))
    .map((message): TableOverview => {
      const { header, attributes } = decodeBody(tableLayout, message.body);
      const { name = "", userdata, flags = 0 } = attributes;
      if ((flags & TableFlag.DORMANT) !== 0) dormant.add(`${header.family} ${name}`);
      const isOwned = (flags & TableFlag.OWNER) !== 0;
      return { family: familyName(header.family), name, comment: commentOf(userdata), isOwned };
    });
  const chains = socket
    .dump(nftablesRequest("list chains", { message: Message.GET_CHAIN, family: undefined, layout: chainLayout }, {}))
    .map((message) => chainOf(message.body, dormant));
  const rules = { message: Message.GET_RULE, family: undefined, layout: ruleLayout };
  const { markWrites, dropping } = socket.collect(
    nftablesRequest("list rules", rules, {}),
    () => ({ markWrites: [] as MarkWrite[], dropping: new Map<string, number>() }),
    (found, { body }) => {
      const { header, attributes } = decodeBody(ruleLayout, body);
      const bits = writtenMarkBits(attributes.instructions ?? []);
      const { table = "", chain = "" } = attributes;
      const family = familyName(header.family);
      if (bits !== 0) found.markWrites.push({ family, table, chain, bits });
      const key = `${family} ${table} ${chain}`;
      if (canDrop(attributes.instructions ?? [])) found.dropping.set(key, (found.dropping.get(key) ?? 0) + 1);
    },
  );
  const counted = chains.map((chain) => {
    const { family, table, name } = chain;
    return { ...chain, dropping: dropping.get(`${family} ${table} ${name}`) ?? 0 };
  });
  return { tables, chains: counted, markWrites };
}

/** Returns the word for a number NFPROTO_*. */
export function familyName(number: number): string {
  return FAMILIES.get(number) ?? String(number);
}

function chainOf(body: Uint8Array, dormant: ReadonlySet<string>): Omit<ChainOverview, "dropping"> {
  const { header, attributes } = decodeBody(chainLayout, body);
  const { table = "", name = "", hook, policy, type = "filter" } = attributes;
  const number = hook?.number ?? 0;
  const hooks = header.family === NETDEV ? DEVICE_HOOKS : HOOKS;
  return {
    family: familyName(header.family),
    table,
    name,
    base:
      hook === undefined || dormant.has(`${header.family} ${table}`)
        ? undefined
        : {
            type,
            hook: hooks[number] ?? String(number),
            priority: (hook.priority ?? 0) | 0,
            policy: policy === 0 ? "drop" : "accept",
          },
  };
}
const NETDEV = 5;
const REFUSING_TARGETS: readonly (string | undefined)[] = ["REJECT", "DROP", "NFQUEUE"];

/** Returns whether a rule's verdict may be to drop, reject or queue a packet, whatever packets it matches. */
function canDrop(rule: readonly Instruction[]): boolean {
  return rule.some(({ name, data }) => {
    switch (name) {
      case "immediate":
        return decodeAttributes(instructions.immediate, data).data?.verdict?.code === verdictCodes.drop;
      case "lookup":
        return decodeAttributes(instructions.lookup, data).target === VERDICT_REGISTER;
      case "target":
        return REFUSING_TARGETS.includes(decodeAttributes(targetAttributes, data).name);
      default:
        return name === "reject" || name === "queue";
    }
  });
}

/** NFT_META_MARK */
const META_MARK = 3;
const ALL_BITS = 0xffff_ffff;
/** NFTA_TARGET_*: an iptables target in a rule of iptables-nft. */
const targetAttributes = { name: [1, string], info: [3, bytes] } as const;

/**
 * Returns the bits of the packet's mark that a rule's instructions write. `mark = (mark & mask) ^ xor` changes the bits
 * outside of mask and those of xor, `meta mark set VALUE` all. The iptables target MARK has its own mark and mask.
 */
export function writtenMarkBits(rule: readonly Instruction[]): number {
  const bitsOf = new Map<number, number>();
  let written = 0;
  for (const { name, data } of rule) {
    if (name === "bitwise") {
      changeBits(data, bitsOf);
    } else if (name === "meta") {
      const { target, key, source } = decodeAttributes(instructions.meta, data);
      if (source !== undefined && key === META_MARK) written |= bitsOf.get(source) ?? ALL_BITS;
      if (target !== undefined) bitsOf.set(target, key === META_MARK ? 0 : ALL_BITS);
    } else if (name === "target") {
      written |= targetBits(data);
    } else {
      const target = otherTarget(name, data);
      if (target !== undefined) bitsOf.set(target, ALL_BITS);
    }
  }
  return written >>> 0;
}

function changeBits(data: Uint8Array, bitsOf: Map<number, number>): void {
  const { source = 0, target = 0, mask, xor } = decodeAttributes(instructions.bitwise, data);
  const before = bitsOf.get(source) ?? ALL_BITS;
  bitsOf.set(target, (before | ~word(mask?.value) | word(xor?.value)) >>> 0);
}

/** struct xt_mark_tginfo2: mark, mask. */
function targetBits(data: Uint8Array): number {
  const { name, info } = decodeAttributes(targetAttributes, data);
  return name === "MARK" && info !== undefined ? word(info) | word(info.subarray(4)) : 0;
}

/** Returns the register that an instruction loads with anything but the mark; undefined when it loads none. */
function otherTarget(name: string, data: Uint8Array): number | undefined {
  switch (name) {
    case "immediate":
    case "payload":
    case "ct":
    case "fib":
    case "rt":
    case "numgen":
    case "hash":
    case "lookup":
      return decodeAttributes(instructions[name], data).target;
    default:
      return undefined;
  }
}

function word(value: Uint8Array | undefined): number {
  if (value === undefined || value.length < 4) return 0;
  return new DataView(value.buffer, value.byteOffset, value.byteLength).getUint32(0, littleEndian);
}
