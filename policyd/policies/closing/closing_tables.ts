import { type Change, tableChanges } from "../../../kernel/nftables/encode/change.ts";
import { type Nftables, removalOf } from "../../../kernel/nftables/socket.ts";
import type { Chain, Table, TableReference } from "../../../kernel/nftables/model/object.ts";
import { accept, dropping, equals, not, oneOf, rule, startsWith } from "../../../kernel/nftables/model/statement.ts";
import { HOST_INTERFACE_PREFIX } from "../../../attachment/names_and_macs.ts";
import { ownComment } from "../../../attachment/our_tables.ts";
import { ALLOWED_LABEL } from "../compile/policy_table.ts";

/** The table that keeps the bridge closed from the daemon's start until policies are in force again. */
export const CLOSING_TABLE: TableReference = Object.freeze({ family: "inet", name: "drawbridge-closing" });

/** Its counterpart of the bridge family, in place of the guard. */
export const CLOSING_BRIDGE_TABLE: TableReference = Object.freeze({ family: "bridge", name: "drawbridge-closing" });

/** The comment of the rules that drop. */
export const CLOSED = "policies not read yet";

/** Before the rules that label connections when policies come for the first time (-6), so that they admit none. */
const PRIORITY = -7;
/** The same as the guard's. */
const BRIDGE_PRIORITY = -200;

/**
 * Returns the table that lets nothing pass from or to the bridge except connections that policies have allowed, which
 * have their label, and connections of the node to its pods with their answers (POL-07). It needs no list of pods.
 */
export function closingTable(bridge: string): Table {
  const isAllowed = rule(equals("ct label", ALLOWED_LABEL), accept);
  const base = (hook: "forward" | "input"): NonNullable<Chain["base"]> => ({
    type: "filter",
    hook,
    priority: PRIORITY,
    policy: "accept",
  });
  return Object.freeze({
    ...CLOSING_TABLE,
    comment: ownComment("of no version"),
    sets: [],
    chains: [
      {
        name: "forward",
        base: base("forward"),
        rules: [isAllowed, dropping(CLOSED, equals("iifname", bridge)), dropping(CLOSED, equals("oifname", bridge))],
      },
      {
        name: "input",
        base: base("input"),
        rules: [
          rule(not(equals("iifname", bridge)), accept),
          isAllowed,
          // Only connections that the node began have answers to it.
          rule(equals("ct direction", "reply"), accept),
          // Node and pods resolve each other's link addresses.
          rule(oneOf("icmpv6 type", ["nd-neighbor-solicit", "nd-neighbor-advert"]), accept),
          dropping(CLOSED),
        ],
      },
    ],
  });
}

const ON_BRIDGE = { type: "filter", hook: "forward", priority: BRIDGE_PRIORITY, policy: "accept" } as const;

/** Returns the table that keeps pods off each other's links, as the guard does. It does not check their sources. */
export function closingBridgeTable(): Table {
  return Object.freeze({
    ...CLOSING_BRIDGE_TABLE,
    comment: ownComment("of no version"),
    sets: [],
    chains: [
      {
        name: "forward",
        base: ON_BRIDGE,
        rules: [dropping(CLOSED, startsWith("iifname", HOST_INTERFACE_PREFIX))],
      },
    ],
  });
}

/** Returns the changes that write tables which may exist already, from an earlier daemon. */
export function closingChanges(kernel: Pick<Nftables, "head">, tables: readonly Table[]): readonly Change[] {
  return tables.flatMap((table) => [...removalOf(kernel, table), ...tableChanges(table, new Map())]);
}
