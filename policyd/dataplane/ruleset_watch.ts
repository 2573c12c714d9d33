import { DrawbridgeError } from "../../kernel/error.ts";
import type { KernelEvents } from "../../kernel/events/events.ts";
import type { Table } from "../../kernel/nftables/object.ts";
import type { NftablesNotification } from "../../kernel/nftables/notification.ts";
import { parseNotification } from "../../kernel/nftables/notification.ts";
import type { ReceivedMessage } from "../../kernel/netlink/message.ts";
import type { Cancel, Clock } from "../clock.ts";
import { KeptSubscription } from "../kept_subscription.ts";
import type { Logger } from "../log/logger.ts";
import type { Ruleset } from "./ruleset.ts";

/** What one program does in several commits is looked at once. */
const SETTLE_MILLISECONDS = 20;
const RETRY_MILLISECONDS = 5000;

/** What watches over a ruleset. */
export interface RulesetWatchParts {
  readonly ruleset: Ruleset;
  readonly clock: Clock;
  readonly logger: Logger;
  /** The number of our writer's socket: its own commits are not looked at. */
  readonly portId: number;
}

/**
 * Has a ruleset put right what other programs change in it, some milliseconds after they did.
 *
 * While the kernel refuses the subscription, or has ended it, the ruleset's own periodic look remains, and it is tried again.
 */
export class RulesetWatch {
  readonly #parts: RulesetWatchParts;
  readonly #subscription: KeptSubscription;
  readonly #touched = new Set<Table>();
  #who = "";
  #pending: Cancel | undefined;

  constructor(parts: RulesetWatchParts) {
    const { clock, logger, portId } = parts;
    this.#parts = parts;
    this.#subscription = new KeptSubscription({
      clock,
      source: { kind: "nftables", exceptPortId: portId },
      listener: { onMessages: (messages) => this.#take(messages), onOverrun: () => this.#look(undefined) },
      retryMilliseconds: RETRY_MILLISECONDS,
      onRefused: (error) => logger.error("changes of the ruleset are not told; it is tried again", { error }),
      onOpen: (wasRefused) => {
        if (!wasRefused) return;
        logger.info("changes of the ruleset are told after all");
        this.#look(undefined);
      },
    });
  }

  /** Settles when changes are told from now on, or it is known that they are not: then it is tried again by itself. */
  async start(events: KernelEvents): Promise<void> {
    await this.#subscription.start(events);
  }

  stop(): void {
    this.#subscription.stop();
    this.#pending?.();
  }

  #take(messages: readonly ReceivedMessage[]): void {
    for (const message of messages) {
      const notification = this.#read(message);
      if (notification?.kind === "generation") this.#who = notification.processName;
      if (notification?.kind === "change") {
        const table = this.#parts.ruleset.tableNamed(notification.table.family, notification.table.name);
        if (table !== undefined) this.#look(table);
      }
    }
  }

  /** What cannot be read may have been about any table. */
  #read(message: ReceivedMessage): NftablesNotification | undefined {
    try {
      return parseNotification(message);
    } catch (error) {
      if (!(error instanceof DrawbridgeError)) throw error;
      this.#look(undefined);
      return undefined;
    }
  }

  /** @param table undefined: any of them may have changed */
  #look(table: Table | undefined): void {
    const { ruleset, clock, logger } = this.#parts;
    for (const touched of table === undefined ? ruleset.tables : [table]) this.#touched.add(touched);
    this.#pending ??= clock.after(SETTLE_MILLISECONDS, () => {
      this.#pending = undefined;
      const tables = [...this.#touched];
      this.#touched.clear();
      logger.debug("another program changed tables of ours", { program: this.#who, tables: tables.length });
      ruleset.verify(tables);
    });
  }
}
