import { RESOURCES } from "../../policyd/sources/api/resources.ts";
import type { PlannedFault, WatchFault } from "./faults.ts";
import { sample } from "./objects.ts";
import type { RawObject } from "./storage.ts";

/** One event in a cluster and its API server. */
export interface StormEvent {
  readonly objects: readonly RawObject[];
  readonly plan?: PlannedFault;
  /** A fault of all open watches. */
  readonly strike?: WatchFault;
  readonly others?: "compact" | "bookmark" | "down" | "up";
}

const MOST_OBJECTS = 12;
const STATUSES = [401, 403, 404, 410, 429, 500, 503, 504];

/** Generates random changes, and random faults among them: three of ten events are faults. */
export class Storm {
  readonly #random: () => number;

  constructor(random: () => number) {
    this.#random = random;
  }

  next(): StormEvent {
    const objects = Array.from({ length: this.#below(4) }, () => this.#change());
    const pick = <T>(choices: readonly T[]): T | undefined => choices[this.#below(choices.length)];
    const isReset = this.#random() < 0.5;
    const retryAfter = this.#random() < 0.5 ? { retryAfter: "2" } : {};
    switch (this.#below(10)) {
      case 0: {
        const status = pick(STATUSES) ?? 500;
        const refusal = { type: "status", status, ...retryAfter } as const;
        const fault = pick<PlannedFault["fault"]>([
          { type: "hang" },
          { type: "reset" },
          { type: "truncate", isReset },
          { type: "garbage" },
          refusal,
          refusal,
        ]);
        const on = pick(["list", "watch", "any"] as const) ?? "any";
        return { objects, plan: { on, count: 1 + this.#below(5), fault: fault ?? refusal } };
      }
      case 1: {
        const close = { type: "close" } as const;
        const strike = pick<WatchFault>([
          { type: "garbage" },
          { type: "truncate", isReset },
          { type: "error", status: 410 },
          { type: "error", status: 500 },
          { type: "duplicate" },
          { type: "silence" },
          close,
        ]);
        return { objects, strike: strike ?? close };
      }
      case 2:
        return { objects, others: pick(["compact", "bookmark", "down", "up", "up"] as const) ?? "up" };
      default:
        return { objects };
    }
  }

  #change(): RawObject {
    const kind = RESOURCES[this.#below(RESOURCES.length)]?.kind ?? "Pod";
    const object = sample(kind, this.#below(MOST_OBJECTS), this.#below(1000));
    return this.#random() < 0.3 ? { ...object, isGone: true } : object;
  }

  #below(end: number): number {
    return Math.floor(this.#random() * end);
  }
}
