import type { ConntrackEntry } from "../../kernel/conntrack/entry.ts";
import { type ConntrackFilter, matchesFilter } from "../../kernel/conntrack/filter.ts";
import type { NetlinkSocket } from "../../kernel/netlink/socket.ts";
import { visitEntries } from "../../kernel/conntrack/table.ts";

/** Returns the entries that match a filter. Use {@link visitEntries} where there may be many. */
export function listEntries(socket: NetlinkSocket, filter: ConntrackFilter = {}): readonly ConntrackEntry[] {
  const entries: ConntrackEntry[] = [];
  visitEntries(socket, (entry) => {
    if (matchesFilter(filter, entry)) entries.push(entry);
  });
  return entries;
}
