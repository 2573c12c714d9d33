import type { Family } from "../ip/address.ts";
import { string, u32, u8 } from "../netlink/attribute.ts";
import type { BodyLayout, ReceivedMessage, Request } from "../netlink/message.ts";
import { decodeBody, MessageFlag, request } from "../netlink/message.ts";
import { addressFamilyNumber } from "./family.ts";
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

/** A rule that sends packets which come in by an interface to a routing table first; the table may have no route. */
export interface RoutingRule {
  readonly family: Family;
  /** By name: it holds whenever there is an interface of this name. */
  readonly inputInterface: string;
  readonly table: number;
  /** The lowest is asked first; the main table's is 32766. */
  readonly priority: number;
}

/** Adds a rule, marked as ours like a route; EEXIST when the same is there. */
export function newRule(rule: RoutingRule): Request {
  return change(`add rule ${describe(rule)}`, RTM_NEWRULE, MessageFlag.CREATE | MessageFlag.EXCL, rule);
}

/** Deletes a rule of ours; ENOENT when there is none. */
export function deleteRule(rule: RoutingRule): Request {
  return change(`delete rule ${describe(rule)}`, RTM_DELRULE, 0, rule);
}

/** Asks for the rules of a family: keep those {@link parseRule} returns. */
export function dumpRules(family: Family): Request {
  return request("list rules", { type: RTM_GETRULE, flags: 0, layout }, { family: addressFamilyNumber(family) }, {});
}

/**
 * The rule a RTM_NEWRULE message describes; undefined unless it is one of ours: of our protocol, by an input interface.
 *
 * @throws DrawbridgeError ERR_NETLINK_MALFORMED when it is not one
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
