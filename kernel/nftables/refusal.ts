import { messageType, Subsystem } from "../netfilter/message.ts";
import { NetlinkError } from "../netlink/error.ts";
import type { Request } from "../netlink/message.ts";
import { Errno } from "../syscall/errno.ts";
import { Message } from "./message.ts";

const NEW_TABLE = messageType(Subsystem.NFTABLES, Message.NEW_TABLE);

/**
 * The kernel's refusal of a request in a batch; what it means and what to do, where the kernel's own words do not tell.
 *
 * A table of another owner answers everything with EPERM (nft_table_lookup); EOPNOTSUPP is what a table without an
 * owner answers to a claim (nf_tables_updtable), and a kernel before 6.9 to the flag "persist".
 */
export function explained(request: Request, error: NetlinkError): NetlinkError {
  const isNftables = request.type >> 8 === Subsystem.NFTABLES;
  if (request.type === NEW_TABLE && error.errno === Errno.EOPNOTSUPP) {
    return new NetlinkError(
      error.operation,
      error.errno,
      "the table is there without an owner, or the kernel is older than 6.9 and knows no tables with one that persist: " +
        `delete it (nft delete table ${error.operation.replace("add table ", "")}), or do not ask for ownership`,
    );
  }
  if (isNftables && error.errno === Errno.EPERM) {
    return new NetlinkError(
      error.operation,
      error.errno,
      "another process owns the table: stop it; nft list tables names it, and its table can be adopted when it is gone",
    );
  }
  return error;
}
