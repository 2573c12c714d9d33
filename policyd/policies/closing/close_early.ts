import { isOfDaemon } from "../../../attachment/our_tables.ts";
import { DrawbridgeError } from "../../../kernel/error.ts";
import { TableFlag } from "../../../kernel/nftables/encode/change.ts";
import type { Nftables } from "../../../kernel/nftables/socket.ts";
import type { Table, TableReference } from "../../../kernel/nftables/model/object.ts";
import { BRIDGE_TABLE } from "../../ruleset/table_part.ts";
import { POLICY_TABLE } from "../compile/policy_table.ts";
import { closingBridgeTable, closingChanges, closingTable } from "./closing_tables.ts";
import type { EnforcedMark } from "./enforced_mark.ts";

/** The dependencies of {@link closeEarly}. */
export interface ClosingParts {
  readonly kernel: Pick<Nftables, "head" | "chains" | "commit">;
  /** The bridge of the pods. */
  readonly bridge: string;
  /** Whether the configuration enforces policies. */
  readonly isEnforcing: boolean;
  readonly mark: Pick<EnforcedMark, "isSet" | "clear">;
  /** Whether pods are attached, ours by their records or others on the bridge; called only if there is no mark. */
  readonly hasPods: () => boolean;
  /** Whether another daemon maintains the tables; called only if some are missing. */
  readonly isOtherRunning: () => boolean;
}

/** The outcome of {@link closeEarly}. */
export interface Closing {
  /** The missing tables, in whose place the bridge is closed. */
  readonly missing: readonly string[];
  /** They were in force earlier in this boot. */
  readonly isLost: boolean;
  /** Why pods could not be closed. */
  readonly failure?: string;
}

const NOTHING: Closing = Object.freeze({ missing: [], isLost: false });

/**
 * Closes the bridge if the tables that keep pods apart are missing, until the commit that adds the policies. A daemon
 * does this first, before it asks the API server:
 *
 * - A node that has enforced policies since this boot has lost them, as by `nft flush ruleset` while no daemon ran
 *   (SVC-26).
 * - A node without pods, as after a boot, may get its first ones while the daemon starts (POL-09).
 *
 * Tables that are in force stay as they are. A node with pods that never had policies is not closed either: its
 * connections go on while policies come for the first time (POL-82).
 */
export function closeEarly({ kernel, bridge, isEnforcing, mark, hasPods, isOtherRunning }: ClosingParts): Closing {
  try {
    if (!isEnforcing) {
      mark.clear();
      return NOTHING;
    }
    const isLost = mark.isSet();
    if (!isLost && hasPods()) return NOTHING;
    const closings: readonly (readonly [TableReference, Table])[] = [
      [POLICY_TABLE, closingTable(bridge)],
      [BRIDGE_TABLE, closingBridgeTable()],
    ];
    const missing = closings.filter(([table]) => !isInForce(kernel, table));
    if (missing.length === 0 || isOtherRunning()) return NOTHING;
    const tables = missing.map(([, closing]) => closing);
    kernel.commit(closingChanges(kernel, tables));
    return { missing: missing.map(([{ family, name }]) => `${family} ${name}`), isLost };
  } catch (error) {
    // A failure here does not keep a daemon from starting, which puts everything in force.
    if (!(error instanceof DrawbridgeError)) throw error;
    return { ...NOTHING, failure: error.message };
  }
}

function isInForce(kernel: ClosingParts["kernel"], table: TableReference): boolean {
  const head = kernel.head(table);
  if (!isOfDaemon(head?.comment) || ((head?.flags ?? 0) & TableFlag.DORMANT) !== 0) return false;
  return kernel.chains(table).some(({ hook }) => hook !== undefined);
}
