import type { ReceivedMessage } from "../netlink/message.ts";
import type { NotificationSource } from "./source.ts";

/** Receives the events of a source. The methods are called one after the other, in the order of the events. */
export interface NotificationListener {
  /** Receives the kernel's notifications in order, without netlink's own control messages. */
  onMessages(messages: readonly ReceivedMessage[]): void;
  /**
   * Reports that notifications were lost. Read the state again now: everything lost happened before this call, and of a
   * source about state everything reported later happened after the loss.
   */
  onOverrun(): void;
  /** Reports that the source is closed for good. Nothing follows. */
  onFailure(error: Error): void;
}

export interface Subscription {
  /** Ends the subscription: nothing is reported after this call. */
  close(): void;
  /** Carries out an action. Nothing that happens meanwhile is reported, and nothing about it takes memory. */
  deafFor(action: () => void): void;
}

/** The kernel's notifications. */
export interface KernelNotifications {
  /**
   * Opens a source. Everything that happens after the promise resolves is reported, so read the state then, not before.
   *
   * @throws DrawbridgeError (by the promise) when the kernel refuses: ERR_NAMESPACE, ERR_SYSCALL, ERR_NETLINK;
   *   ERR_CONFIGURATION for an invalid source
   */
  subscribe(source: NotificationSource, listener: NotificationListener): Promise<Subscription>;
  /** Closes everything. Nothing is reported to listeners after this call. */
  stop(): Promise<void>;
}
