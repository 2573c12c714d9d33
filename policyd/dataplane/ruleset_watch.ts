import { DrawbridgeError } from "../../kernel/error.ts";
import type { KernelEvents, Subscription } from "../../kernel/events/events.ts";
import type { Table } from "../../kernel/nftables/object.ts";
import type { NftablesNotification } from "../../kernel/nftables/notification.ts";
import { parseNotification } from "../../kernel/nftables/notification.ts";
import type { ReceivedMessage } from "../../kernel/netlink/message.ts";
import type { Cancel, Clock } from "../clock.ts";
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
  readonly #touched = new Set<Table>();
  #who = "";
  #pending: Cancel | undefined;
  #subscription: Subscription | undefined;
  #retry: Cancel | undefined;
  #isRefused = false;
  #isStopped = false;

  constructor(parts: RulesetWatchParts) {
    this.#parts = parts;
  }

  /** Settles when changes are told from now on, or it is known that they are not: then it is tried again by itself. */
  async start(events: KernelEvents): Promise<void> {
    const { portId, logger } = this.#parts;
    try {
      const subscription = await events.subscribe(
        { kind: "nftables", exceptPortId: portId },
        {
          onMessages: (messages) => this.#take(messages),
          onOverrun: () => this.#look(undefined),
          onFailure: (error) => this.#refused(events, error.message),
        },
      );
      if (this.#isStopped) return subscription.close();
      this.#subscription = subscription;
      if (!this.#isRefused) return;
      this.#isRefused = false;
      logger.info("changes of the ruleset are told after all");
      this.#look(undefined);
    } catch (error) {
      this.#refused(events, error instanceof Error ? error.message : String(error));
    }
  }

  stop(): void {
    this.#isStopped = true;
    this.#subscription?.close();
    this.#pending?.();
    this.#retry?.();
  }

  #refused(events: KernelEvents, error: string): void {
    const { logger, clock } = this.#parts;
    if (this.#isStopped) return;
    if (!this.#isRefused) logger.error("changes of the ruleset are not told; it is tried again", { error });
    this.#isRefused = true;
    this.#retry = clock.after(RETRY_MILLISECONDS, () => void this.start(events));
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
