import { attempt } from "../../../kernel/error.ts";
import type { ReceivedMessage } from "../../../kernel/netlink/message.ts";
import { parseLoggedPacket } from "../../../kernel/packets/logged_packet.ts";
import type { KernelNotifications } from "../../../kernel/notifications/notifications.ts";
import type { Clock } from "../../lib/clock.ts";
import { RenewedSubscription } from "../../lib/renewed_subscription.ts";
import type { Logger } from "../../log/logger.ts";
import { ANSWER_PREFIX } from "../compile/name_rules.ts";
import type { AnswerQueue } from "./answer_queue.ts";

export interface AnswerReaderParts {
  /** The nflog group of the rules' copies, and the number of the queue. */
  readonly group: number;
  /** The queue in which answers wait, or why they are only copied. */
  readonly queue: Pick<AnswerQueue, "start" | "stop"> | string;
  readonly clock: Clock;
  readonly logger: Logger;
}

/** An answer must not wait for others. */
const COPY = { copyBytes: 65_531, queueThreshold: 1, queueMilliseconds: 10 } as const;
const RECEIVE_BUFFER_BYTES = 1024 * 1024;

/** Reads answers of DNS to pods of this node, while it is started: those that wait in the queue, or copies of them. */
export class AnswerReader {
  readonly #parts: AnswerReaderParts;
  readonly #take: (packets: readonly Uint8Array[]) => void;
  #copies: RenewedSubscription | undefined;
  #isStarted = false;
  /** Why answers do not wait. */
  #failure: string | undefined;
  #overruns = 0;

  /** @param take gets the packets, from their IP headers on */
  constructor(parts: AnswerReaderParts, take: (packets: readonly Uint8Array[]) => void) {
    this.#parts = parts;
    this.#take = take;
  }

  /** How often the kernel had no room for further copies. */
  get overruns(): number {
    return this.#overruns;
  }

  start(events: KernelNotifications): void {
    const { group, queue, logger } = this.#parts;
    if (this.#isStarted) return;
    this.#isStarted = true;
    this.#copy(events);
    if (typeof queue === "string") return this.#report(queue);
    // Until the thread has started, answers are copied.
    this.#failure = undefined;
    queue.start({
      onReady: () => {
        logger.info("DNS answers wait until their addresses are in force", { queue: group });
        this.#stopCopies();
      },
      onPackets: this.#take,
      onFailure: (error) => {
        this.#report(`the thread of queue ${group} has ended: ${error}`);
        this.#copy(events);
      },
    });
  }

  stop(): void {
    this.#isStarted = false;
    if (typeof this.#parts.queue !== "string") this.#parts.queue.stop();
    this.#stopCopies();
  }

  problems(): readonly string[] {
    if (!this.#isStarted) return [];
    const refusal = this.#copies?.refusal;
    return [
      ...(refusal === undefined ? [] : [`domain names: group ${this.#parts.group} is not read: ${refusal}`]),
      ...(this.#failure === undefined ? [] : [`domain names: answers are only copied: ${this.#failure}`]),
    ];
  }

  #stopCopies(): void {
    this.#copies?.stop();
    this.#copies = undefined;
  }

  /** @param reason why answers do not wait */
  #report(reason: string): void {
    this.#failure = reason;
    this.#parts.logger.warn("DNS answers are copied: a pod's first packet to an address may come too early", {
      reason,
    });
  }

  #copy(events: KernelNotifications): void {
    const { group, clock, logger } = this.#parts;
    this.#stopCopies();
    this.#copies = new RenewedSubscription({
      clock,
      source: { kind: "nflog", group, ...COPY, receiveBufferBytes: RECEIVE_BUFFER_BYTES },
      listener: {
        onMessages: (messages) => this.#take(messages.flatMap((message) => copiedPacket(message))),
        onOverrun: () => void this.#overruns++,
      },
      onRefused: (error) =>
        logger.warn("the kernel sends no DNS answers; the subscription is retried", { group, error }),
      onOpen: (wasRefused) => {
        if (wasRefused) logger.info("the kernel sends DNS answers now", { group });
      },
    });
    void this.#copies.start(events);
  }
}

/** Returns the copy of an answer's packet; none also for a message that cannot be read, as if it had been lost. */
function copiedPacket(message: ReceivedMessage): readonly Uint8Array[] {
  const packet = attempt(
    () => parseLoggedPacket(message),
    () => undefined,
  );
  return packet?.prefix === ANSWER_PREFIX ? [packet.payload] : [];
}
