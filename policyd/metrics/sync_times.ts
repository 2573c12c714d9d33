import { Gauge, Histogram, Registry } from "prom-client";
import type { Lifecycle } from "../component.ts";
import type { Logger } from "../log/logger.ts";

export interface SyncTimesParts {
  readonly logger: Pick<Logger, "info">;
  /** Milliseconds since the process started. */
  readonly now: () => number;
}

/** From single elements to whole tables; a healthy node never takes longer than the last one. */
const SECONDS = [0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10];

/**
 * Measures the time that batches take, and how long the daemon takes to come into force: until all objects are read,
 * which may be the API server's time, and from then until the kernel has all rules, which is the daemon's own. A pod
 * created meanwhile waits as long.
 */
export class SyncTimes implements Lifecycle {
  readonly registry = new Registry();
  readonly #parts: SyncTimesParts;
  readonly #seconds: Histogram;
  readonly #last: Gauge;
  readonly #first: Gauge;
  #readAt: number | undefined;
  #isInForce = false;

  constructor(parts: SyncTimesParts) {
    this.#parts = parts;
    const registers = [this.registry];
    this.#seconds = new Histogram({
      name: "drawbridge_sync_duration_seconds",
      help: "Time the kernel took for one batch of changes to our tables.",
      buckets: SECONDS,
      registers,
    });
    this.#last = new Gauge({
      name: "drawbridge_sync_last_timestamp_seconds",
      help: "When the last batch took effect, in seconds since the epoch; 0 for none.",
      registers,
    });
    this.#first = new Gauge({
      name: "drawbridge_first_sync_seconds",
      help: "How long this policyd took to come into force, by stage: objects, until all were read; rules, from then until all were in the kernel.",
      labelNames: ["stage"],
      registers,
    });
  }

  /** Records a batch that took effect. */
  committed(seconds: number): void {
    this.#seconds.observe(seconds);
    this.#last.setToCurrentTime();
  }

  synced(): void {
    this.#readAt = this.#parts.now();
    this.#first.set({ stage: "objects" }, this.#readAt / 1000);
  }

  /** Records that the kernel has the desired rules; only the first call after the objects were read counts. */
  rulesInForce(): void {
    if (this.#readAt === undefined || this.#isInForce) return;
    this.#isInForce = true;
    const milliseconds = this.#parts.now() - this.#readAt;
    this.#first.set({ stage: "rules" }, milliseconds / 1000);
    this.#parts.logger.info("all rules are in force", { millisecondsAfterObjects: Math.round(milliseconds) });
  }
}
