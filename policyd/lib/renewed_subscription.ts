import type {
  NotificationListener,
  KernelNotifications,
  Subscription,
} from "../../kernel/notifications/notifications.ts";
import type { NotificationSource } from "../../kernel/notifications/source.ts";
import type { Cancel, Clock } from "./clock.ts";

/** Milliseconds until a refused or ended subscription is retried. */
const RETRY_MILLISECONDS = 5000;

/** The parts that {@link RenewedSubscription} needs. */
export interface RenewedSubscriptionParts {
  readonly clock: Clock;
  readonly source: NotificationSource;
  readonly listener: Pick<NotificationListener, "onMessages" | "onOverrun">;
  /** Called once per series of refusals, until the subscription is open again. */
  readonly onRefused: (reason: string) => void;
  readonly onOpen: (wasRefused: boolean) => void;
}

/** A subscription that is retried indefinitely when the kernel refuses or ends it. */
export class RenewedSubscription {
  readonly #parts: RenewedSubscriptionParts;
  #subscription: Subscription | undefined;
  #retry: Cancel | undefined;
  #refusal: string | undefined;
  #isStopped = false;

  constructor(parts: RenewedSubscriptionParts) {
    this.#parts = parts;
  }

  /** Why no notifications arrive; undefined while they do, and before the start. */
  get refusal(): string | undefined {
    return this.#refusal;
  }

  /** Resolves when notifications arrive from here on, or the kernel has refused them, which is then retried. */
  async start(events: KernelNotifications): Promise<void> {
    const { source, listener, onOpen } = this.#parts;
    const onFailure = (error: Error): void => this.#refused(events, error.message);
    try {
      const subscription = await events.subscribe(source, { ...listener, onFailure });
      if (this.#isStopped) return subscription.close();
      this.#subscription = subscription;
      const wasRefused = this.#refusal !== undefined;
      this.#refusal = undefined;
      onOpen(wasRefused);
    } catch (error) {
      this.#refused(events, error instanceof Error ? error.message : String(error));
    }
  }

  /** As {@link Subscription.deafFor}, if there is a subscription. */
  deafFor(action: () => void): void {
    if (this.#subscription === undefined) action();
    else this.#subscription.deafFor(action);
  }

  stop(): void {
    this.#isStopped = true;
    this.#subscription?.close();
    this.#retry?.();
  }

  #refused(events: KernelNotifications, reason: string): void {
    const { clock, onRefused } = this.#parts;
    if (this.#isStopped) return;
    if (this.#refusal === undefined) onRefused(reason);
    this.#refusal = reason;
    this.#retry = clock.after(RETRY_MILLISECONDS, () => void this.start(events));
  }
}
