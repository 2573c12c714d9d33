import { MessageFlag, type ReceivedMessage } from "../netlink/message.ts";
import { type ConntrackEntry, parseEntry } from "./entry.ts";
import { ConntrackMessage } from "./request.ts";

/**
 * An entry that was made, changed or removed.
 *
 * It lacks mark and labels: a message carries them only when they changed, and not when they became zero.
 */
export interface ConntrackEvent extends Omit<ConntrackEntry, "mark" | "labels"> {
  readonly kind: "new" | "update" | "destroy";
}

/**
 * Returns the event of a message of the conntrack groups; undefined for any other message.
 *
 * With net.netfilter.nf_conntrack_events at 2, the default since 5.19, an entry reports events only if someone listened
 * in its namespace when it was made: the end of an older entry is never reported.
 *
 * @throws DrawbridgeError ERR_NETLINK_MALFORMED for a malformed message
 */
export function parseConntrackEvent(message: ReceivedMessage): ConntrackEvent | undefined {
  const kind = kindOf(message);
  if (kind === undefined) return undefined;
  const { mark: _mark, labels: _labels, ...entry } = parseEntry(message);
  return { kind, ...entry };
}

function kindOf({ type, flags }: ReceivedMessage): ConntrackEvent["kind"] | undefined {
  if (type === ConntrackMessage.DELETE) return "destroy";
  if (type !== ConntrackMessage.NEW) return undefined;
  return (flags & MessageFlag.CREATE) !== 0 ? "new" : "update";
}
