import type { Machine } from "../machine.ts";
import { DrawbridgeError } from "../../kernel/error.ts";
import type { KernelNotifications } from "../../kernel/notifications/notifications.ts";
import type { Table } from "../../kernel/nftables/model/object.ts";
import { type NftablesNotification, parseNotification } from "../../kernel/nftables/decode/notification.ts";
import type { ReceivedMessage } from "../../kernel/netlink/message.ts";
import { ControlLoop } from "../lib/control_loop.ts";
import { RenewedSubscription } from "../lib/renewed_subscription.ts";
import type { Change } from "../../kernel/nftables/encode/change.ts";
import type { Nftables } from "../../kernel/nftables/socket.ts";

/** Several commits that one program makes within this time are checked once. */
const SETTLE_MILLISECONDS = 20;

/** The ruleset and what a watch over it needs. */
export interface RulesetWatchParts extends Pick<Machine, "ruleset" | "clock" | "logger"> {
  /** The port ID of our writer's netlink socket: its own commits are ignored. */
  readonly portId: number;
}

/**
 * Has a ruleset repair what other programs change in it, some milliseconds after the change.
 *
 * While the kernel refuses the subscription, or has ended it, the ruleset's periodic check remains, and it is retried.
 */
export class RulesetWatch {
  readonly #parts: RulesetWatchParts;
  readonly #subscription: RenewedSubscription;
  readonly #touched = new Set<Table>();
  #who = "";
  readonly #loop: ControlLoop;

  constructor(parts: RulesetWatchParts) {
    const { clock, logger, portId } = parts;
    this.#parts = parts;
    this.#loop = new ControlLoop({ clock, pass: () => this.#verify(), pause: () => SETTLE_MILLISECONDS });
    this.#subscription = new RenewedSubscription({
      clock,
      source: { kind: "nftables", exceptPortId: portId },
      listener: { onMessages: (messages) => this.#take(messages), onOverrun: () => this.#look(undefined) },
      onRefused: (error) =>
        logger.error("the kernel does not report changes of the ruleset; the subscription is retried", { error }),
      onOpen: (wasRefused) => {
        if (!wasRefused) return;
        logger.info("the kernel reports changes of the ruleset now");
        this.#look(undefined);
      },
    });
  }

  /** Settles when the kernel reports changes from now on, or refuses: then the subscription is retried. */
  async start(events: KernelNotifications): Promise<void> {
    await this.#subscription.start(events);
  }

  /** Carries out an action that commits, without a notification of it. */
  deafFor(action: () => void): void {
    this.#subscription.deafFor(action);
  }

  /** Has all tables checked, since another program may have changed them. */
  lookAtAll(): void {
    this.#look(undefined);
  }

  stop(): void {
    this.#subscription.stop();
    void this.#loop.stop();
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

  /** Parses a notification. One that cannot be parsed may be about any table. */
  #read(message: ReceivedMessage): NftablesNotification | undefined {
    try {
      return parseNotification(message);
    } catch (error) {
      if (!(error instanceof DrawbridgeError)) throw error;
      this.#look(undefined);
      return undefined;
    }
  }

  /** @param table undefined when any of our tables may have changed */
  #look(table: Table | undefined): void {
    const { tables } = this.#parts.ruleset;
    for (const touched of table === undefined ? tables : [table]) this.#touched.add(touched);
    this.#loop.enqueue();
  }

  #verify(): undefined {
    const { ruleset, logger } = this.#parts;
    const tables = [...this.#touched];
    this.#touched.clear();
    logger.debug("another program changed tables of ours", { program: this.#who, tables: tables.length });
    ruleset.verify(tables);
  }
}

/** The number of elements above which a batch is not listened to. Fewer take less than 10 MB. */
const MOST_HEARD = 1000;

/**
 * Keeps the watch over the ruleset from being notified of our own large batches. While anybody listens, the kernel
 * reserves some 6 KB for each element of a batch until all of it is committed, though our own socket ignores them.
 *
 * The generation of the ruleset shows whether another program has committed meanwhile: then all tables are checked.
 */
export class UnheardCommits {
  readonly #kernel: Pick<Nftables, "generation">;
  /** Undefined until the watch is there. */
  watch: Pick<RulesetWatch, "deafFor" | "lookAtAll"> | undefined;

  constructor(kernel: Pick<Nftables, "generation">) {
    this.#kernel = kernel;
  }

  /** Carries out a commit of changes. @throws what it throws */
  around(changes: readonly Change[], commit: () => void): void {
    const { watch } = this;
    if (watch === undefined || elementsIn(changes) <= MOST_HEARD) return commit();
    const before = this.#kernel.generation();
    watch.deafFor(commit);
    if (this.#kernel.generation() !== before + 1) watch.lookAtAll();
  }
}

function elementsIn(changes: readonly Change[]): number {
  return changes.reduce((sum, change) => ("elements" in change ? sum + change.elements.length : sum), 0);
}
