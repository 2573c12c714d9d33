import type { Address, Family } from "../ip/address.ts";
import type { Cidr } from "../ip/cidr.ts";
import { address, bytes, string, u32, u8 } from "../netlink/attribute.ts";
import {
  type BodyLayout,
  decodeBody,
  decodeStruct,
  MessageFlag,
  type ReceivedMessage,
  type Request,
  request,
} from "../netlink/message.ts";
import { addressFamilyNumber, familyFromNumber } from "../netlink/address_family.ts";
import { KERNEL_PROTOCOL, type LookedUp, ROUTE_PROTOCOL } from "./route.ts";

const RTM_NEWRULE = 32;
const RTM_DELRULE = 33;
const RTM_GETRULE = 34;

const FR_ACT_TO_TBL = 1;
/** The tables default, main and local, for which the kernel makes rules. */
const USUAL_TABLES: readonly number[] = [253, 254, 255];
/** TCP, UDP, ICMP and ICMPv6: the kernel looks up no packets of other protocols (rtm_getroute_parse_ip_proto). */
const LOOKED_UP_PROTOCOLS: readonly (number | undefined)[] = [undefined, 6, 17, 1, 58];

/** struct fib_rule_hdr and FRA_* (include/uapi/linux/fib_rules.h). */
const layout = {
  struct: {
    family: "u8",
    destinationLength: "u8",
    sourceLength: "u8",
    tos: "u8",
    table: "u8",
    reserved1: "u8",
    reserved2: "u8",
    action: "u8",
    flags: "u32",
  },
  attributes: {
    destination: [1, address],
    source: [2, address],
    inputInterface: [3, string],
    priority: [6, u32],
    table: [15, u32],
    protocol: [21, u8],
    packetProtocol: [22, u8],
    destinationPorts: [24, bytes],
  },
} as const satisfies BodyLayout;

/** A rule that first looks up packets from an input interface in a routing table, which may have no route for them. */
export interface RoutingRule {
  readonly family: Family;
  /** An interface name: the rule applies to any interface of this name. */
  readonly inputInterface: string;
  readonly table: number;
  /** Lower numbers come first; that of the main table is 32766. */
  readonly priority: number;
}

/** A rule of another program, as far as it tells packets of pods apart. */
export interface OtherRule {
  readonly family: Family;
  readonly source: Cidr | undefined;
  readonly destination: Cidr | undefined;
  /** Other properties of the packets that it is about; without them it is about all. */
  readonly traits: Pick<LookedUp, "tos" | "protocol" | "destinationPort">;
}

/** Returns the request to add a rule, marked as ours like a route; EEXIST when an equal one exists. */
export function newRule(rule: RoutingRule): Request {
  return change(`add rule ${describe(rule)}`, RTM_NEWRULE, MessageFlag.CREATE | MessageFlag.EXCL, rule);
}

/** Returns the request to delete a rule of ours; ENOENT when there is none. */
export function deleteRule(rule: RoutingRule): Request {
  return change(`delete rule ${describe(rule)}`, RTM_DELRULE, 0, rule);
}

/** Returns the request for the rules of a family. {@link parseRule} filters the answers. */
export function dumpRules(family: Family): Request {
  return request("list rules", { type: RTM_GETRULE, flags: 0, layout }, { family: addressFamilyNumber(family) }, {});
}

/**
 * Returns the rule in a RTM_NEWRULE message; undefined unless it is ours: of our protocol, with an input interface.
 *
 * @throws DrawbridgeError ERR_NETLINK_MALFORMED for a malformed message
 */
export function parseRule(message: ReceivedMessage): RoutingRule | undefined {
  const { header, attributes } = decodeBody(layout, message.body);
  const { inputInterface, priority, protocol } = attributes;
  if (protocol !== ROUTE_PROTOCOL || inputInterface === undefined || header.action !== FR_ACT_TO_TBL) return undefined;
  return {
    family: familyFromNumber(header.family) ?? 6,
    inputInterface,
    table: attributes.table ?? header.table,
    priority: priority ?? 0,
  };
}

/** Returns a rule as {@link parseRule} does, but of another program; undefined for ours and the kernel's own. */
export function parseOtherRule(message: ReceivedMessage): OtherRule | undefined {
  const { header, attributes } = decodeBody(layout, message.body);
  const { protocol, packetProtocol, destinationPorts } = attributes;
  const isUsual = protocol === KERNEL_PROTOCOL && USUAL_TABLES.includes(attributes.table ?? header.table);
  if (protocol === ROUTE_PROTOCOL || isUsual) return undefined;
  const prefix = (of: Address | undefined, prefixLength: number): Cidr | undefined =>
    of === undefined ? undefined : { address: of, prefixLength };
  // struct fib_rule_port_range
  const destinationPort = destinationPorts && decodeStruct({ first: "u16", last: "u16" }, destinationPorts).first;
  return {
    family: familyFromNumber(header.family) ?? 6,
    source: prefix(attributes.source, header.sourceLength),
    destination: prefix(attributes.destination, header.destinationLength),
    traits: {
      tos: header.tos === 0 ? undefined : header.tos,
      ...(LOOKED_UP_PROTOCOLS.includes(packetProtocol) ? { protocol: packetProtocol, destinationPort } : {}),
    },
  };
}

function change(operation: string, type: number, flags: number, rule: RoutingRule): Request {
  const { inputInterface, table, priority } = rule;
  return request(
    operation,
    { type, flags, layout },
    { family: addressFamilyNumber(rule.family), action: FR_ACT_TO_TBL },
    { inputInterface, priority, table, protocol: ROUTE_PROTOCOL },
  );
}

function describe({ family, inputInterface, table, priority }: RoutingRule): string {
  return `${priority}: IPv${family} from ${inputInterface} to table ${table}`;
}
