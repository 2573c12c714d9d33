import type { NotificationListener } from "../../kernel/notifications/notifications.ts";
import type { ReceivedMessage } from "../../kernel/netlink/message.ts";

/** Records what a listener gets, in order: messages, and "overrun". */
export class EventRecorder implements NotificationListener {
  readonly reported: (ReceivedMessage | "overrun")[] = [];
  failure: Error | undefined;
  #changed = Promise.withResolvers<void>();

  get messages(): readonly ReceivedMessage[] {
    return this.reported.filter((item) => item !== "overrun");
  }

  get overruns(): number {
    return this.reported.length - this.messages.length;
  }

  onMessages(messages: readonly ReceivedMessage[]): void {
    this.reported.push(...messages);
    this.#notify();
  }

  onOverrun(): void {
    this.reported.push("overrun");
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
