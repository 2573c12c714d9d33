import type { EventListener } from "../../kernel/events/events.ts";
import type { ReceivedMessage } from "../../kernel/netlink/message.ts";

/** Records what a listener gets, in order: messages, and "overrun". */
export class EventRecorder implements EventListener {
  readonly told: (ReceivedMessage | "overrun")[] = [];
  failure: Error | undefined;
  #changed = Promise.withResolvers<void>();

  get messages(): readonly ReceivedMessage[] {
    return this.told.filter((item) => item !== "overrun");
  }

  get overruns(): number {
    return this.told.length - this.messages.length;
  }

  onMessages(messages: readonly ReceivedMessage[]): void {
    this.told.push(...messages);
    this.#notify();
  }

  onOverrun(): void {
    this.told.push("overrun");
    this.#notify();
  }

  onFailure(error: Error): void {
    this.failure = error;
    this.#notify();
  }

  /** Waits until a condition holds, which it checks after every event; the test's own timeout is the limit. */
  async until(holds: () => boolean): Promise<void> {
    while (!holds()) await this.#changed.promise;
  }

  #notify(): void {
    this.#changed.resolve();
    this.#changed = Promise.withResolvers();
  }
}
