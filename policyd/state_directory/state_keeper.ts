import { DrawbridgeError } from "../../kernel/error.ts";
import { isExhaustion } from "../../kernel/syscall/exhaustion.ts";
import type { Clock } from "../lib/clock.ts";
import { ControlLoop } from "../lib/control_loop.ts";
import type { Logger } from "../log/logger.ts";

/** Milliseconds between checks of some fifteen file requests, 0.2 ms a second. Repairs take less than a second. */
const PERIOD = 500;

/** A part of the daemon's state on disk that is restored when somebody removes it. */
export interface KeptPart {
  readonly name: string;
  /** Checks and restores it. @returns the number restored @throws DrawbridgeError (or rejects) if it cannot now */
  readonly look: () => number | Promise<number>;
}

export interface StateKeeperParts {
  readonly clock: Clock;
  readonly logger: Logger;
  /** In the order of the checks. */
  readonly kept: readonly KeptPart[];
}

/**
 * Restores the daemon's files and socket for the plugin, the next daemon and the administrator: a person, or a clean-up
 * of temporary files, may remove `/run/drawbridge` while the daemon runs.
 */
export class StateKeeper {
  readonly #parts: StateKeeperParts;
  /** Why a part cannot be restored, by its name; a lasting reason is logged once. */
  readonly #reasons = new Map<string, string>();
  readonly #loop: ControlLoop;

  constructor(parts: StateKeeperParts) {
    this.#parts = parts;
    this.#loop = new ControlLoop({ clock: parts.clock, pass: () => this.#look() });
  }

  start(): void {
    this.#loop.within(PERIOD);
  }

  stop(): void {
    void this.#loop.stop();
  }

  async #look(): Promise<number> {
    for (const part of this.#parts.kept) if (!this.#loop.isStopped) await this.#lookAt(part);
    return PERIOD;
  }

  async #lookAt({ name, look }: KeptPart): Promise<void> {
    const { logger } = this.#parts;
    try {
      const restored = await look();
      this.#reasons.delete(name);
      if (restored > 0)
        logger.warn("another program has removed files of policyd; they are there again", { what: name, restored });
    } catch (error) {
      if (!(error instanceof DrawbridgeError || isExhaustion(error))) throw error;
      const reason = error.message;
      if (this.#reasons.get(name) !== reason)
        logger.error("files of policyd cannot be put back", { what: name, reason });
      this.#reasons.set(name, reason);
    }
  }
}
