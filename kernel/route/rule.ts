import type { Family } from "../ip/address.ts";
import { string, u32, u8 } from "../netlink/attribute.ts";
import {
  type BodyLayout,
  decodeBody,
  MessageFlag,
  type ReceivedMessage,
  type Request,
  request,
} from "../netlink/message.ts";
import { addressFamilyNumber } from "../netlink/address_family.ts";
import { ROUTE_PROTOCOL } from "./route.ts";

const RTM_NEWRULE = 32;
const RTM_DELRULE = 33;
const RTM_GETRULE = 34;

const FR_ACT_TO_TBL = 1;

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
    inputInterface: [3, string],
    priority: [6, u32],
    table: [15, u32],
    protocol: [21, u8],
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
    family: header.family === addressFamilyNumber(4) ? 4 : 6,
    inputInterface,
    table: attributes.table ?? header.table,
    priority: priority ?? 0,
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
