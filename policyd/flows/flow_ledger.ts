import type { Address } from "../../kernel/ip/address.ts";
import type { RowVerdict } from "./row.ts";
import { type FlowEvent, parseFlowEvent, parseListedFlow } from "../../kernel/conntrack/flow_event.ts";
import type { Machine } from "../machine.ts";
import { attempt, DrawbridgeError } from "../../kernel/error.ts";
import type { KernelNotifications } from "../../kernel/notifications/notifications.ts";
import { protocolFromNumber, protocolText } from "../../kernel/ip/protocol.ts";
import type { ReceivedMessage } from "../../kernel/netlink/message.ts";
import { ControlLoop } from "../lib/control_loop.ts";
import type { Lifecycle } from "../component.ts";
import { RenewedSubscription } from "../lib/renewed_subscription.ts";
import { printableUpTo } from "../../objects/printable.ts";
import { inTurns } from "../lib/sliced_work.ts";
import type { FlowEndNames } from "./flow_end_names.ts";
import { LONGEST_REASON } from "./journal.ts";
import type { Ledger, LedgerLosses, SeenFlow } from "./ledger.ts";
import { type LedgerPlace, readLedger, textOf, writeAll, writeChanges } from "./ledger_files.ts";

/** A flow of which policies drop a packet, or would drop it. */
export interface DeniedFlow {
  readonly source: Address;
  readonly destination: Address;
  readonly protocol: string;
  readonly port: number | undefined;
  readonly verdict: Exclude<RowVerdict, "allowed">;
}

export interface FlowLedgerParts extends Pick<Machine, "clock" | "logger"> {
  readonly ledger: Ledger;
  readonly ends: FlowEndNames;
  readonly place: LedgerPlace;
  /** Walks the conntrack table. @throws DrawbridgeError (rejects) when the kernel refuses */
  readonly visitTable: (see: (message: ReceivedMessage) => void) => Promise<void>;
}

/** The size of a ledger, and its losses. */
export interface FlowLedgerCounts extends LedgerLosses {
  readonly size: number;
  /** Number of times that the kernel had no room for more events. */
  readonly overruns: number;
}

/** Interval between writes; a crash loses the changes since the last one. */
const INTERVAL_MILLISECONDS = 60_000;
/** A walk of the table may itself make events be lost: the next begins after this many times its duration. */
const WALK_PAUSES = 4;
/** All rows are written after this many change files, or when these have more rows than the ledger and FEW_ROWS. */
const MOST_CHANGES = 60;
const FEW_ROWS = 1000;
/** Room for some ten thousand events, which is a second of a busy node. */
const RECEIVE_BUFFER_BYTES = 16 * 1024 * 1024;

/**
 * Counts the connections of this node's pods in a {@link Ledger}, by the kernel's events for new and destroyed
 * connections, and stores it in files.
 *
 * After a loss of events it reads the conntrack table, so that the ends of existing connections are counted again.
 * Connections that began and ended meanwhile stay uncounted.
 */
export class FlowLedger implements Lifecycle {
  readonly #parts: FlowLedgerParts;
  readonly #subscription: RenewedSubscription;
  #overruns = 0;
  #last = 0;
  /** The number of the last file with all rows that is not torn. */
  #whole = 0;
  #changes = 0;
  /** Rows in the change files. */
  #changedRows = 0;
  #needsAll = false;
  #writing: Promise<void> | undefined;
  readonly #loop: ControlLoop;
  readonly #walks: ControlLoop;
  #walkMilliseconds = 0;
  #failure: string | undefined;

  constructor(parts: FlowLedgerParts) {
    this.#parts = parts;
    const { clock, logger } = parts;
    this.#loop = new ControlLoop({ clock, pass: () => this.#interval() });
    this.#walks = new ControlLoop({
      clock,
      pass: () => this.#readTable(),
      pause: () => WALK_PAUSES * this.#walkMilliseconds,
    });
    this.#subscription = new RenewedSubscription({
      clock,
      source: { kind: "conntrack", events: ["new", "destroy"], receiveBufferBytes: RECEIVE_BUFFER_BYTES },
      listener: { onMessages: (messages) => this.#take(messages), onOverrun: () => this.#overrun() },
      onRefused: (error) => logger.warn("flows are not recorded; it is tried again", { error }),
      onOpen: () => this.#walks.run(),
    });
  }

  /** Reads the files of an earlier daemon, and then starts to count. */
  async start(events: KernelNotifications): Promise<void> {
    await this.#load();
    this.#loop.within(INTERVAL_MILLISECONDS);
    await this.#subscription.start(events);
  }

  /** Writes the last changes and stops counting. */
  async stop(): Promise<void> {
    this.#subscription.stop();
    await Promise.all([this.#loop.stop(), this.#walks.stop()]);
    await this.#attempt();
  }

  /** Counts a logged packet. @param reason undefined where it is unknown */
  denied(flow: DeniedFlow, reason: string | undefined): void {
    const { ends, ledger, clock } = this.#parts;
    const [from, to] = ends.of(flow.source, flow.destination);
    if (!from.isLocal && !to.isLocal) return;
    const seen = { from, to, protocol: flow.protocol, port: flow.port ?? 0 };
    const text = reason === undefined ? undefined : printableUpTo(reason, LONGEST_REASON);
    ledger.denied(seen, flow.verdict, text, clock.time());
  }

  /** Resolves when everything seen is in the files. @throws DrawbridgeError ERR_STORE (rejects) */
  async write(): Promise<void> {
    // A write in progress may have begun before the latest change.
    await this.#writing?.catch(() => {});
    this.#writing ??= this.#writeNow().finally(() => {
      this.#writing = undefined;
    });
    await this.#writing;
  }

  problems(): readonly string[] {
    const { refusal } = this.#subscription;
    return [
      ...(refusal === undefined ? [] : [`flow ledger: events of connections are not read: ${refusal}`]),
      ...(this.#failure === undefined ? [] : [`flow ledger: it is not written: ${this.#failure}`]),
    ];
  }

  counts(): FlowLedgerCounts {
    const { ledger } = this.#parts;
    return { ...ledger.losses(), size: ledger.size, overruns: this.#overruns };
  }

  /** Loads the files in slices, since a full ledger takes most of a second. */
  async #load(): Promise<void> {
    const { ledger, place, logger } = this.#parts;
    try {
      const { rows, problems, last, whole } = await inTurns(readLedger(place));
      for (const problem of problems) logger.warn("a file of the flow ledger is not used", { reason: problem });
      await inTurns(ledger.load(rows));
      ledger.takeChanged();
      this.#last = last;
      this.#whole = whole;
      this.#needsAll = problems.length > 0;
    } catch (error) {
      this.#failed(error);
    }
  }

  #take(messages: readonly ReceivedMessage[]): void {
    const time = this.#parts.clock.time();
    for (const message of messages) {
      const event = readable(() => parseFlowEvent(message));
      if (event?.kind === "begun") this.#begun(event, time);
      else if (event !== undefined) this.#parts.ledger.ended(event.id, event.bytes, time);
    }
  }

  #begun(event: FlowEvent, time: number): void {
    const flow = this.#flowOf(event);
    if (flow !== undefined) this.#parts.ledger.begun(event.id, flow, time);
  }

  /** Returns undefined where no end is a pod of this node, so that each node records only its own flows. */
  #flowOf({ source, server, protocol, port }: FlowEvent): SeenFlow | undefined {
    const { ends } = this.#parts;
    const [from, to] = ends.of(source, server);
    if (!from.isLocal && !to.isLocal) return undefined;
    return { from, to, port, protocol: protocolText(protocolFromNumber(protocol)) };
  }

  #overrun(): void {
    this.#overruns++;
    this.#walks.enqueue();
  }

  async #readTable(): Promise<undefined> {
    const { ledger, visitTable, clock, logger } = this.#parts;
    const begun = clock.now();
    ledger.forgetConnections();
    const see = (message: ReceivedMessage): void => {
      const event = readable(() => parseListedFlow(message));
      const flow = event === undefined ? undefined : this.#flowOf(event);
      if (event !== undefined && flow !== undefined) ledger.listed(event.id, flow, clock.time());
    };
    try {
      await visitTable(see);
    } catch (error) {
      if (!(error instanceof DrawbridgeError)) throw error;
      logger.warn("connections from before are missing in the flow ledger", { reason: error.message });
    }
    this.#walkMilliseconds = clock.now() - begun;
  }

  async #interval(): Promise<number> {
    await this.#attempt();
    return INTERVAL_MILLISECONDS;
  }

  async #attempt(): Promise<void> {
    try {
      await this.write();
      this.#failure = undefined;
    } catch (error) {
      this.#failed(error);
    }
  }

  #failed(error: unknown): void {
    if (!(error instanceof DrawbridgeError)) throw error;
    if (this.#failure === undefined)
      this.#parts.logger.warn("the flow ledger is not written", { reason: error.message });
    this.#failure = error.message;
  }

  async #writeNow(): Promise<void> {
    const { ledger, place } = this.#parts;
    const changed = ledger.takeChanged();
    const isMuch = this.#changes >= MOST_CHANGES || this.#changedRows > Math.max(FEW_ROWS, ledger.size);
    const needsAll = this.#needsAll || isMuch;
    if (changed.length === 0 && !needsAll) return;
    // Set until the write succeeds: changes that it loses would be missing in every later change file.
    this.#needsAll = true;
    // A row that changes meanwhile is also in the next change file.
    const text = await inTurns(textOf(needsAll ? ledger.rows() : changed));
    if (needsAll) {
      writeAll(place, ++this.#last, text, this.#whole);
      this.#whole = this.#last;
      this.#changes = 0;
      this.#changedRows = 0;
    } else {
      writeChanges(place, ++this.#last, text);
      this.#changes++;
      this.#changedRows += changed.length;
    }
    this.#needsAll = false;
  }
}

/** Returns undefined for a message that cannot be parsed, which is then treated as lost. */
function readable<T>(read: () => T): T | undefined {
  return attempt<T | undefined>(read, () => undefined);
}
