import { NETLINK_NETFILTER } from "../netlink/netfilter_message.ts";
import { NetlinkSocket, withSocket } from "../netlink/socket.ts";
import type { Syscalls } from "../syscall/syscalls.ts";
import { type Change, requestsByChange, tableChanges } from "./encode/change.ts";
import { lowerRule } from "./encode/lowering.ts";
import { batchBegin } from "./encode/message.ts";
import type { Table } from "./model/object.ts";
import type { Statement } from "./model/statement.ts";

/** The kernel's answer to one change of a trial. */
export interface Trial {
  /** The change in words, such as `add rule inet drawbridge-trial forward`. */
  readonly operation: string;
  /** Returns the parts of the kernel that it needs, by names of missing_feature.ts: instructions, chains of a type, tables of a family. */
  readonly needs: () => readonly string[];
  /** The kernel's reason for refusing it; undefined when it accepts it. */
  readonly refusal: string | undefined;
}

/** The fields that say which instructions a statement becomes; the others are its values. */
const FORM = ["kind", "left", "key", "target", "lookup", "from", "map", "limit", "reply"];
const BUFFER_BYTES = 1024 * 1024;

/**
 * Makes the kernel check a table without loading it. The kernel rolls back a batch without an end after checking all of
 * it (nfnetlink_rcv_batch; `nft --check` does the same). Nothing changes, and nobody is notified.
 *
 * @param table tried under a name that nobody uses
 * @throws SyscallError without nftables in the kernel or without CAP_NET_ADMIN
 */
export function tryTable(syscalls: Syscalls, table: Table): readonly Trial[] {
  return withSocket(new NetlinkSocket(syscalls, NETLINK_NETFILTER, { bufferBytes: BUFFER_BYTES }), (socket) => {
    const changes = tableChanges({ ...table, name: `${table.name}-trial`, isOwned: false }, new Map());
    const made = requestsByChange(changes);
    const needs = changes.flatMap((change, index) => made[index]?.map(() => () => needsOf(change)) ?? []);
    const requests = made.flat();
    const [first] = requests;
    if (first === undefined) return [];
    // The kernel does not acknowledge the last request, so the table is added once more, which is not an error.
    const replies = socket.transaction([batchBegin(), ...requests, first]).slice(1, -1);
    return replies.map(({ request, error }, index) => ({
      operation: request.operation,
      needs: needs[index] ?? (() => []),
      refusal: error?.message,
    }));
  });
}

/**
 * Returns a table with all chains and sets of another, and only its rules with a kind of statement that none before
 * has: a kernel that accepts these has what all of them need, and checks them in a fraction of the time.
 */
export function sampleOf(table: Table): Table {
  const known = new Set<string>();
  const isNew = (statement: Statement): boolean => known.size < known.add(JSON.stringify(statement, FORM)).size;
  const chains = table.chains.map((chain) => ({
    ...chain,
    rules: chain.rules.filter(({ statements }) => statements.filter(isNew).length > 0),
  }));
  return { ...table, chains };
}

function needsOf(change: Change): readonly string[] {
  if (change.kind === "add table") return [`table ${change.table.family}`];
  if (change.kind === "add chain") return change.chain.base?.type === "nat" ? ["chain nat"] : [];
  if (change.kind !== "add rule") return [];
  const { instructions } = lowerRule(change.rule, change.table.family, () => 1);
  return [...new Set(instructions.map(({ name }) => name))];
}
