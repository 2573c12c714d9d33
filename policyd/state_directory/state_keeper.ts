import { DrawbridgeError } from "../../kernel/error.ts";
import type { Cancel, Clock } from "../clock.ts";
import type { Logger } from "../log/logger.ts";

/** Milliseconds between two looks: some fifteen questions for files, a fifth of a millisecond a second. All is back within a second. */
const PERIOD = 500;

/** A part of the daemon's state on disk that is put back when somebody removes it. */
export interface KeptPart {
  readonly name: string;
  /** @returns how much was put back @throws DrawbridgeError (also by the promise) where that is not possible now */
  readonly look: () => number | Promise<number>;
}

export interface StateKeeperParts {
  readonly clock: Clock;
  readonly logger: Logger;
  /** In the order in which they are looked at. */
  readonly kept: readonly KeptPart[];
}

/**
 * Keeps the daemon's files and socket where plugin, next daemon and administrator look for them: an administrator, or a clean-up of
 * temporary files, may remove `/run/drawbridge` while the daemon runs.
 */
export class StateKeeper {
  readonly #parts: StateKeeperParts;
  /** Why a part cannot be put back, by its name: a reason that stays is logged once. */
  readonly #reasons = new Map<string, string>();
  #timer: Cancel = () => {};
  #isStopped = false;

  constructor(parts: StateKeeperParts) {
    this.#parts = parts;
  }

  start(): void {
    this.#timer = this.#parts.clock.after(PERIOD, () => void this.#look());
  }

  stop(): void {
    this.#isStopped = true;
    this.#timer();
  }

  async #look(): Promise<void> {
    for (const part of this.#parts.kept) {
      if (this.#isStopped) return;
      await this.#lookAt(part);
    }
    if (!this.#isStopped) this.start();
  }

  async #lookAt({ name, look }: KeptPart): Promise<void> {
    const { logger } = this.#parts;
    try {
      const restored = await look();
      this.#reasons.delete(name);
      if (restored > 0)
        logger.warn("another program has removed files of policyd; they are there again", { what: name, restored });
    } catch (error) {
      if (!(error instanceof DrawbridgeError)) throw error;
      const reason = error.message;
      if (this.#reasons.get(name) !== reason)
        logger.error("files of policyd cannot be put back", { what: name, reason });
      this.#reasons.set(name, reason);
    }
  }
}
