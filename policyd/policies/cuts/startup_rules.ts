import { isOfDaemon, ownComment } from "../../../attachment/our_tables.ts";
import { tableChanges } from "../../../kernel/nftables/encode/change.ts";
import { type Nftables, removalOf } from "../../../kernel/nftables/socket.ts";
import type { Chain, Table, TableReference } from "../../../kernel/nftables/model/object.ts";
import { equals, type Rule, rule } from "../../../kernel/nftables/model/statement.ts";
import { CLOSING_BRIDGE_TABLE, CLOSING_TABLE } from "../closing/closing_tables.ts";
import { ALLOWED_LABEL } from "../compile/policy_table.ts";

/** The policies' table as an earlier daemon left it. */
export interface FoundPolicies {
  /** Whether its rules see packets. */
  readonly isInForce: boolean;
  /** The numbers in its sets of connections. */
  readonly cut: readonly number[];
  readonly settled: readonly number[];
}

/**
 * The rules that label connections before the policies' rules, and what is in force already. The batch that puts the
 * policies in force removes these rules and those that close pods at the start (`obsoleteTables`).
 */
export interface StartupRules {
  /** Reads the policies' table. @throws DrawbridgeError when the kernel refuses */
  read(): FoundPolicies;
  /** Writes the rules that label connections. @throws DrawbridgeError when the kernel refuses */
  open(): void;
}

/** The table that exists until the policies' own is in force for the first time. */
export const OPENING_TABLE: TableReference = Object.freeze({ family: "inet", name: "drawbridge-policy-opening" });

/** Before the policies' hooks. */
const PRIORITY = -6;

const label: Rule["statements"][number] = { kind: "set label", bit: ALLOWED_LABEL };
const begins = equals("ct direction", "original");

function base(hook: "forward" | "input" | "output", ...rules: readonly Rule[]): Chain {
  return { name: hook, base: { type: "filter", hook, priority: PRIORITY, policy: "accept" }, rules };
}

/**
 * Returns the table that labels all connections that begin on the bridge or go there, and drops nothing. Those that
 * policies deny lose the label as soon as these are in force. (In output it is not known where packets of the node go:
 * see the policies' own rules.)
 */
export function openingTable(bridge: string): Table {
  return Object.freeze({
    ...OPENING_TABLE,
    comment: ownComment("of no version"),
    sets: [],
    chains: [
      base("forward", rule(equals("iifname", bridge), begins, label), rule(equals("oifname", bridge), begins, label)),
      base("input", rule(equals("iifname", bridge), begins, label)),
      base("output", rule(begins, label)),
    ],
  });
}

export interface KernelOpeningParts {
  readonly kernel: Pick<Nftables, "head" | "chains" | "sets" | "elements">;
  readonly commit: Nftables["commit"];
  readonly bridge: string;
  /** The table as this program writes it. */
  readonly policyTable: Pick<Table, "family" | "name" | "sets">;
}

/** Returns the rules by the kernel's nftables. */
export function kernelOpening({ kernel, commit, bridge, policyTable }: KernelOpeningParts): StartupRules {
  const isClosed = (): boolean =>
    [CLOSING_TABLE, CLOSING_BRIDGE_TABLE].some((table) => kernel.head(table) !== undefined);
  const numbers = (name: "cut" | "settled"): readonly number[] => {
    const set = policyTable.sets.find((definition) => definition.name === name);
    if (set === undefined) return [];
    return kernel.elements(policyTable, set).flatMap(({ key: [id] }) => (typeof id === "number" ? [id] : []));
  };
  return {
    read: () => {
      const isThere = isOfDaemon(kernel.head(policyTable)?.comment);
      const sets = new Set(isThere ? kernel.sets(policyTable).map(({ name }) => name) : []);
      return {
        // Chains with hooks are added last, all at once; which ones exist depends on the configuration. If pods were
        // closed at the start, there were rules before, and nothing passes without them.
        isInForce: isClosed() || kernel.chains(policyTable).some(({ hook }) => hook !== undefined),
        cut: sets.has("cut") ? numbers("cut") : [],
        settled: sets.has("settled") ? numbers("settled") : [],
      };
    },
    open: () => commit([...removalOf(kernel, OPENING_TABLE), ...tableChanges(openingTable(bridge), new Map())]),
  };
}
