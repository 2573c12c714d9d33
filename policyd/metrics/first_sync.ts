import { Gauge, type Registry } from "prom-client";
import type { Lifecycle } from "../component.ts";
import type { Logger } from "../log/logger.ts";

export interface FirstSyncParts {
  readonly registry: Registry;
  readonly logger: Pick<Logger, "info">;
  /** Milliseconds since the process started. */
  readonly now: () => number;
}

/** Creates the metric, without values. */
export function firstSyncGauge(registry: Registry): Gauge {
  return new Gauge({
    name: "drawbridge_first_sync_seconds",
    help: "How long this policyd took to come into force, by stage: objects, from its start until all were read; rules, from then until all were in the kernel. No line for what has not happened yet.",
    labelNames: ["stage"],
    registers: [registry],
  });
}

/**
 * Measures how long the daemon takes to come into force: until all objects are read, which may be the API server's
 * time, and from then until the kernel has all rules, which is the daemon's own. A pod created meanwhile waits as long.
 */
export class FirstSync implements Lifecycle {
  readonly #parts: FirstSyncParts;
  readonly #seconds: Gauge;
  #readAt: number | undefined;
  #isInForce = false;

  constructor(parts: FirstSyncParts) {
    this.#parts = parts;
    this.#seconds = firstSyncGauge(parts.registry);
  }

  synced(): void {
    this.#readAt = this.#parts.now();
    this.#seconds.set({ stage: "objects" }, this.#readAt / 1000);
  }

  /** Records that the kernel has the desired rules; only the first call after the objects were read counts. */
  rulesInForce(): void {
    if (this.#readAt === undefined || this.#isInForce) return;
    this.#isInForce = true;
    const milliseconds = this.#parts.now() - this.#readAt;
    this.#seconds.set({ stage: "rules" }, milliseconds / 1000);
    this.#parts.logger.info("all rules are in force", { millisecondsAfterObjects: Math.round(milliseconds) });
  }
}
