import { DrawbridgeError } from "../../../kernel/error.ts";
import type { Nftables } from "../../../kernel/nftables/socket.ts";
import type { Table, TableReference } from "../../../kernel/nftables/object.ts";
import { isOurs } from "../../dataplane/schema.ts";
import { BRIDGE_TABLE } from "../../node/table_part.ts";
import { POLICY_TABLE } from "../compile/policy_table.ts";
import { closingBridgeTable, closingChanges, closingTable } from "./closing_tables.ts";
import type { EnforcedMark } from "./enforced_mark.ts";

/** NFT_TABLE_F_DORMANT: its chains are there but not in the hooks. */
const DORMANT = 1;

/** The parts that closing a node's pods takes. */
export interface ClosingParts {
  readonly kernel: Pick<Nftables, "head" | "chains" | "commit">;
  /** Of the pods. */
  readonly bridge: string;
  /** Whether the configuration has policies enforced. */
  readonly isEnforcing: boolean;
  readonly mark: Pick<EnforcedMark, "isSet" | "clear">;
  /** Whether another daemon keeps the tables; asked only where some are lost. */
  readonly isOtherRunning: () => boolean;
}

/** The outcome of {@link closeEarly}. */
export interface Closing {
  /** The tables that were lost, in whose place the pods are closed. */
  readonly lost: readonly string[];
  /** Why pods could not be closed. */
  readonly failure?: string;
}

const NOTHING: Closing = Object.freeze({ lost: [] });

/**
 * Closes the pods of a node that has enforced policies since this boot and has lost the tables for that, as by `nft flush
 * ruleset` while no daemon ran (SVC-26). It is the first thing that a daemon does: it asks neither the API server nor for the
 * records of pods, since all of the bridge is closed. Tables that are in force stay as they are, and a node that never had
 * them, too. It is opened again by the commit that brings the policies.
 */
export function closeEarly({ kernel, bridge, isEnforcing, mark, isOtherRunning }: ClosingParts): Closing {
  try {
    if (!isEnforcing) {
      mark.clear();
      return NOTHING;
    }
    if (!mark.isSet()) return NOTHING;
    const missing: readonly (readonly [TableReference, Table])[] = [
      [POLICY_TABLE, closingTable(bridge)],
      [BRIDGE_TABLE, closingBridgeTable()],
    ];
    const lost = missing.filter(([table]) => !isInForce(kernel, table));
    if (lost.length === 0 || isOtherRunning()) return NOTHING;
    kernel.commit(
      closingChanges(
        kernel,
        lost.map(([, closing]) => closing),
      ),
    );
    return { lost: lost.map(([{ family, name }]) => `${family} ${name}`) };
  } catch (error) {
    // Nothing of this keeps a daemon from starting, which puts all in force.
    if (!(error instanceof DrawbridgeError)) throw error;
    return { lost: [], failure: error.message };
  }
}

function isInForce(kernel: ClosingParts["kernel"], table: TableReference): boolean {
  const head = kernel.head(table);
  if (!isOurs(head?.comment) || ((head?.flags ?? 0) & DORMANT) !== 0) return false;
  return kernel.chains(table).some(({ hook }) => hook !== undefined);
}
