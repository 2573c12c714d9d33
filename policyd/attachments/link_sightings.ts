import { HOST_INTERFACE_PREFIX } from "../../attachment/names_and_macs.ts";
import type { ReceivedMessage } from "../../kernel/netlink/message.ts";
import { linkIdentity } from "../../kernel/route/link.ts";
import { AF_BRIDGE, Notification } from "../../kernel/route/notification.ts";

/**
 * Remembers which pods' links the kernel has reported. A link that existed and no longer does is gone; one that was
 * never seen may still be made by an ADD.
 */
export class LinkSightings {
  /** By name, whether the link is there. */
  readonly #links = new Map<string, boolean>();

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
    this.#links.set(name, isThere);
  }

  isSeen(name: string): boolean {
    return this.#links.get(name) === true;
  }

  hasGone(name: string): boolean {
    return this.#links.get(name) === false;
  }

  /** Forgets all links whose names are not wanted. */
  keepOnly(isWanted: (name: string) => boolean): void {
    for (const name of this.#links.keys()) if (!isWanted(name)) this.#links.delete(name);
  }
}
