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
 * Without it, when the kernel refuses the subscription or ends it, the ruleset's own periodic look remains.
 */
export class RulesetWatch {
  readonly #parts: RulesetWatchParts;
  readonly #touched = new Set<Table>();
  #who = "";
  #pending: Cancel | undefined;
  #subscription: Subscription | undefined;
  #isStopped = false;

  constructor(parts: RulesetWatchParts) {
    this.#parts = parts;
  }

  /** Settles when changes are told from now on. */
  async start(events: KernelEvents): Promise<void> {
    const { portId, logger } = this.#parts;
    try {
      this.#subscription = await events.subscribe(
        { kind: "nftables", exceptPortId: portId },
        {
          onMessages: (messages) => this.#take(messages),
          onOverrun: () => this.#look(undefined),
          onFailure: (error) => logger.error("changes of the ruleset are not told any more", { error: error.message }),
        },
      );
    } catch (error) {
      if (this.#isStopped) return;
      logger.error("changes of the ruleset are not told", {
        error: error instanceof Error ? error.message : String(error),
      });
    }
  }

  stop(): void {
    this.#isStopped = true;
    this.#subscription?.close();
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
