import { Buffer } from "node:buffer";
import type { NotificationListener } from "../../../kernel/notifications/notifications.ts";
import { addressToBytes, parseAddress } from "../../../kernel/ip/address.ts";
import type { ReceivedMessage } from "../../../kernel/netlink/message.ts";
import { parseNotification } from "../../../kernel/nftables/decode/notification.ts";

/** A buffer for the notifications of the largest batch, kube-proxy's and ours at the start. */
export const COMMITS_SOURCE = { kind: "nftables", receiveBufferBytes: 256 * 1024 * 1024 } as const;

/**
 * Reports when a change of an address was committed: at the kernel's notification of a batch, after one of an element
 * with the address in it.
 */
export class AddressCommits implements NotificationListener {
  readonly lost: string[] = [];
  /** The number of batches so far, and the time of the last one's notification by performance.now(). */
  commits = 0;
  last = 0;
  readonly #awaited = new Map<string, { readonly bytes: Buffer; readonly committed: (at: number) => void }>();
  readonly #seen = new Set<string>();

  /** @param committed is called once, with a time by performance.now() */
  await(address: string, committed: (at: number) => void): void {
    this.#awaited.set(address, { bytes: Buffer.from(addressToBytes(parseAddress(address))), committed });
  }

  /** The addresses for which nothing was committed yet. */
  get missing(): readonly string[] {
    return [...this.#awaited.keys()];
  }

  onMessages(messages: readonly ReceivedMessage[]): void {
    for (const message of messages) {
      if (parseNotification(message)?.kind === "generation") this.#generation(performance.now());
      // Also the changes of kube-proxy's tables, whose families our own parser does not know.
      else this.#look(Buffer.from(message.body));
    }
  }

  onOverrun(): void {
    this.lost.push("notifications were lost");
  }

  onFailure({ message }: Error): void {
    this.lost.push(message);
  }

  #look(body: Buffer): void {
    for (const [address, { bytes }] of this.#awaited) if (body.includes(bytes)) this.#seen.add(address);
  }

  #generation(at: number): void {
    this.commits++;
    this.last = at;
    for (const address of this.#seen) {
      this.#awaited.get(address)?.committed(at);
      this.#awaited.delete(address);
    }
    this.#seen.clear();
  }
}
