import type { ReceivedMessage } from "../netlink/message.ts";
import type { EventSource } from "./source.ts";

/** Who is told of a source's events. The methods are called one after the other, in the order of the events. */
export interface EventListener {
  /** The kernel's notifications in its order, without netlink's own control messages. */
  onMessages(messages: readonly ReceivedMessage[]): void;
  /**
   * Some were lost. Read the state anew now: all that was lost happened before, and of a state all that is told from
   * here on happened after the loss.
   */
  onOverrun(): void;
  /** The source is closed for good: nothing follows. */
  onFailure(error: Error): void;
}

export interface Subscription {
  /** Nothing is told any more from here on. */
  close(): void;
}

/** The kernel's notifications. */
export interface KernelEvents {
  /**
   * Opens a source. What happens after the promise is kept is told, so read the state then and not before.
   *
   * @throws DrawbridgeError (by the promise) as the kernel refuses: ERR_NAMESPACE, ERR_SYSCALL, ERR_NETLINK; or
   *   ERR_CONFIGURATION for a source that cannot be
   */
  subscribe(source: EventSource, listener: EventListener): Promise<Subscription>;
  /** Closes everything; listeners are told nothing any more. */
  stop(): Promise<void>;
}
