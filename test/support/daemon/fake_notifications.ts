import { DrawbridgeError } from "../../../kernel/error.ts";
import type { ReceivedMessage } from "../../../kernel/netlink/message.ts";
import type {
  NotificationListener,
  KernelNotifications,
  Subscription,
} from "../../../kernel/notifications/notifications.ts";
import type { NotificationSource } from "../../../kernel/notifications/source.ts";

/** Events that a test makes. Listeners are called before the call that makes the event returns. */
export class FakeKernelNotifications implements KernelNotifications {
  readonly #open = new Map<NotificationSource, NotificationListener>();
  /** The kinds whose next subscription is refused, with the error. */
  readonly #refusals = new Map<NotificationSource["kind"], Error>();
  #isStopped = false;

  /** The open sources, in the order of their subscription. */
  get sources(): readonly NotificationSource[] {
    return [...this.#open.keys()];
  }

  async subscribe(source: NotificationSource, listener: NotificationListener): Promise<Subscription> {
    const refusal = this.#refusals.get(source.kind);
    this.#refusals.delete(source.kind);
    if (refusal !== undefined) throw refusal;
    if (this.#isStopped) throw new DrawbridgeError("ERR_SYSCALL", "subscribe to events: stopped");
    const key = { ...source };
    this.#open.set(key, listener);
    const deafFor = (action: () => void): void => {
      this.#open.delete(key);
      action();
      this.#open.set(key, listener);
    };
    return { close: () => void this.#open.delete(key), deafFor };
  }

  async stop(): Promise<void> {
    this.#isStopped = true;
    this.#open.clear();
  }

  /** Makes the next subscription to a source of this kind fail. */
  refuseNext(kind: NotificationSource["kind"], error: Error): void {
    this.#refusals.set(kind, error);
  }

  /** Passes messages to every listener of a kind. */
  emit(kind: NotificationSource["kind"], messages: readonly ReceivedMessage[]): void {
    for (const [, listener] of this.#of(kind)) listener.onMessages(messages);
  }

  overrun(kind: NotificationSource["kind"]): void {
    for (const [, listener] of this.#of(kind)) listener.onOverrun();
  }

  /** Ends every source of a kind. */
  fail(kind: NotificationSource["kind"], error: Error): void {
    for (const [source, listener] of this.#of(kind)) {
      this.#open.delete(source);
      listener.onFailure(error);
    }
  }

  #of(kind: NotificationSource["kind"]): readonly (readonly [NotificationSource, NotificationListener])[] {
    return [...this.#open].filter(([source]) => source.kind === kind);
  }
}
