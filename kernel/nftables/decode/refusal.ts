import { messageType, Subsystem } from "../../netlink/netfilter_message.ts";
import { NetlinkError } from "../../netlink/error.ts";
import type { Request } from "../../netlink/message.ts";
import { Errno } from "../../syscall/errno.ts";
import { Message } from "../encode/message.ts";

const NEW_TABLE = messageType(Subsystem.NFTABLES, Message.NEW_TABLE);

/**
 * Returns the kernel's refusal of a batch's request, with its meaning and a way out where the kernel's text lacks them.
 *
 * A table of another owner answers everything with EPERM (nft_table_lookup). A table without an owner answers a claim
 * with EOPNOTSUPP (nf_tables_updtable), as a kernel before 6.9 answers the flag "persist". Without a claim the kernel
 * lacks the table's family, which the request itself explains.
 */
export function explained(request: Request, error: NetlinkError): NetlinkError {
  const isNftables = request.type >> 8 === Subsystem.NFTABLES;
  if (request.type === NEW_TABLE && error.errno === Errno.EOPNOTSUPP && request.needs === undefined) {
    return new NetlinkError(
      error.operation,
      error.errno,
      "the table exists without an owner, or the kernel is older than 6.9 and has no persistent owned tables: " +
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
