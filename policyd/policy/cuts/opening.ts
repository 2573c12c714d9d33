import type { Change } from "../../../kernel/nftables/change.ts";
import { tableChanges } from "../../../kernel/nftables/change.ts";
import type { Nftables } from "../../../kernel/nftables/socket.ts";
import { removalOf } from "../../../kernel/nftables/socket.ts";
import type { Chain, Table, TableReference } from "../../../kernel/nftables/object.ts";
import type { Rule } from "../../../kernel/nftables/statement.ts";
import { equals, rule } from "../../../kernel/nftables/statement.ts";
import { isOurs, ownComment } from "../../dataplane/own_comment.ts";
import { openingChanges } from "../closing/closing_tables.ts";
import { ALLOWED_LABEL } from "../compile/policy_table.ts";

/** The policies' table as an earlier daemon left it. */
export interface FoundPolicies {
  /** Whether its rules see packets. */
  readonly isInForce: boolean;
  /** The numbers in its sets of connections. */
  readonly cut: readonly number[];
  readonly settled: readonly number[];
}

/** The rules that label connections before the policies' rules do, and the end of those that close pods at the start. */
export interface Opening {
  /** What there is of the policies' table. @throws DrawbridgeError when the kernel refuses */
  read(): FoundPolicies;
  /** Has connections labelled. @throws DrawbridgeError when the kernel refuses */
  open(): void;
  /** Ends both; nothing where there is nothing to end. @throws DrawbridgeError when the kernel refuses */
  close(): void;
}

/** The table that is there while the policies' comes for the first time. */
export const OPENING_TABLE: TableReference = Object.freeze({ family: "inet", name: "drawbridge-policy-opening" });

/** Before the policies' hooks. */
const PRIORITY = -6;

const label: Rule["statements"][number] = { kind: "set label", bit: ALLOWED_LABEL };
const begins = equals("ct direction", "original");

function base(hook: "forward" | "input" | "output", ...rules: readonly Rule[]): Chain {
  return { name: hook, base: { type: "filter", hook, priority: PRIORITY, policy: "accept" }, rules };
}

/**
 * Labels all that begins on the bridge or goes there, and drops nothing. What policies deny of it loses the label as
 * soon as they are in force. (Where packets of the node go is not known in output: see the policies' own rules.)
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
  /** As this program has it. */
  readonly policyTable: Table;
}

/** The rules of the kernel's nftables. */
export function kernelOpening({ kernel, commit, bridge, policyTable }: KernelOpeningParts): Opening {
  let mayBeOpen = true;
  const removal = (): readonly Change[] => removalOf(kernel, OPENING_TABLE);
  const isClosed = (): boolean => openingChanges(kernel).length > 0;
  const numbers = (name: "cut" | "settled"): readonly number[] => {
    const set = policyTable.sets.find((definition) => definition.name === name);
    if (set === undefined) return [];
    return kernel.elements(policyTable, set).flatMap(({ key: [id] }) => (typeof id === "number" ? [id] : []));
  };
  return {
    read: () => {
      const isThere = isOurs(kernel.head(policyTable)?.comment);
      const sets = new Set(isThere ? kernel.sets(policyTable).map(({ name }) => name) : []);
      return {
        // Chains with hooks are the last to come, all at once; which they are depends on the configuration.
        // Where pods were closed at the start there were rules before, and nothing gets through without them.
        isInForce: isClosed() || kernel.chains(policyTable).some(({ hook }) => hook !== undefined),
        cut: sets.has("cut") ? numbers("cut") : [],
        settled: sets.has("settled") ? numbers("settled") : [],
      };
    },
    open: () => {
      mayBeOpen = true;
      commit([...removal(), ...tableChanges(openingTable(bridge), new Map())]);
    },
    close: () => {
      if (mayBeOpen) commit([...removal(), ...openingChanges(kernel)]);
      mayBeOpen = false;
    },
  };
}
