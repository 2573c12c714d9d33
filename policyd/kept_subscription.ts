import type { EventListener, KernelEvents, Subscription } from "../kernel/events/events.ts";
import type { EventSource } from "../kernel/events/source.ts";
import type { Cancel, Clock } from "./clock.ts";

/** What is subscribed to, and who is told how that goes. */
export interface KeptSubscriptionParts {
  readonly clock: Clock;
  readonly source: EventSource;
  readonly listener: Pick<EventListener, "onMessages" | "onOverrun">;
  /** After so many milliseconds one that was refused or has ended is tried again. */
  readonly retryMilliseconds: number;
  /** Is called once, however often it is refused until it is open again. */
  readonly onRefused: (reason: string) => void;
  readonly onOpen: (wasRefused: boolean) => void;
}

/** A subscription that is tried again, for as long as it takes, when the kernel refuses it or has ended it. */
export class KeptSubscription {
  readonly #parts: KeptSubscriptionParts;
  #subscription: Subscription | undefined;
  #retry: Cancel | undefined;
  #refusal: string | undefined;
  #isStopped = false;

  constructor(parts: KeptSubscriptionParts) {
    this.#parts = parts;
  }

  /** Why nothing is told; undefined while it is, or nobody has asked yet. */
  get refusal(): string | undefined {
    return this.#refusal;
  }

  /** Settles when all is told from here on, or it is known that it is not: then it is tried again by itself. */
  async start(events: KernelEvents): Promise<void> {
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

  stop(): void {
    this.#isStopped = true;
    this.#subscription?.close();
    this.#retry?.();
  }

  #refused(events: KernelEvents, reason: string): void {
    const { clock, retryMilliseconds, onRefused } = this.#parts;
    if (this.#isStopped) return;
    if (this.#refusal === undefined) onRefused(reason);
    this.#refusal = reason;
    this.#retry = clock.after(retryMilliseconds, () => void this.start(events));
  }
}
