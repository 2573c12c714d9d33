import { entryLayout } from "../../../kernel/conntrack/entry.ts";
import { ConntrackMessage } from "../../../kernel/conntrack/request.ts";
import { openConntrackSocket } from "../../../kernel/conntrack/table.ts";
import { request } from "../../../kernel/netlink/message.ts";
import type { LabNamespace } from "../../lab/namespace.ts";

const AF_UNSPEC = 0;

/** A request to delete an entry that names none is one to delete them all (ctnetlink_del_conntrack). */
const FORGET = request(
  "forget all connections",
  { type: ConntrackMessage.DELETE, flags: 0, layout: entryLayout },
  { family: AF_UNSPEC },
  {},
);

/** Reading up to this number takes less time than deleting, for which the kernel goes through its whole hash. */
const FEW = 500;

/** Deletes all entries of a namespace's connection tracking table, unless there are only a few. */
export function forgetConnections(namespace: LabNamespace): void {
  if (Number(namespace.readSysctl("net/netfilter/nf_conntrack_count")) <= FEW) return;
  const socket = namespace.inside(() => openConntrackSocket(namespace.calls));
  try {
    socket.request(FORGET);
  } finally {
    socket.close();
  }
}
