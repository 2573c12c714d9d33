import { HOST_INTERFACE_PREFIX } from "../../attachment/names_and_macs.ts";
import type { ReceivedMessage } from "../../kernel/netlink/message.ts";
import { linkIdentity } from "../../kernel/route/link.ts";
import { AF_BRIDGE, Notification } from "../../kernel/route/notification.ts";

/**
 * Remembers which pods' links the kernel has reported. A link that existed and no longer does is gone; one that was
 * never seen may still be made by an ADD.
 */
export class LinkSightings {
  readonly #seen = new Set<string>();
  readonly #gone = new Set<string>();

  /** Handles a notification. @throws DrawbridgeError ERR_NETLINK_MALFORMED when it cannot be parsed */
  take(message: ReceivedMessage): void {
    const { type, body } = message;
    // A link that leaves its bridge is reported as deleted, in the bridge's family.
    if ((type !== Notification.NEWLINK && type !== Notification.DELLINK) || body[0] === AF_BRIDGE) return;
    const { name } = linkIdentity(message);
    if (name.startsWith(HOST_INTERFACE_PREFIX)) this.note(name, type === Notification.NEWLINK);
  }

  /** Notes that a link exists, or is gone. */
  note(name: string, isThere: boolean): void {
    this.#seen.delete(name);
    this.#gone.delete(name);
    (isThere ? this.#seen : this.#gone).add(name);
  }

  isSeen(name: string): boolean {
    return this.#seen.has(name);
  }

  hasGone(name: string): boolean {
    return this.#gone.has(name);
  }

  /** Forgets all links whose names are not wanted. */
  keepOnly(isWanted: (name: string) => boolean): void {
    for (const names of [this.#seen, this.#gone]) for (const name of names) if (!isWanted(name)) names.delete(name);
  }
}
