import type { Machine } from "../machine.ts";
import { DrawbridgeError } from "../../kernel/error.ts";
import { isExhaustion } from "../../kernel/syscall/exhaustion.ts";
import type { Cancel } from "../lib/clock.ts";
import { ControlLoop } from "../lib/control_loop.ts";

/** Milliseconds between checks of some fifteen file requests, 0.2 ms a second. Repairs take less than a second. */
const PERIOD = 500;

/** A part of the daemon's state on disk that is restored when somebody removes it. */
export interface KeptPart {
  readonly name: string;
  /** Checks and restores it. @returns the number restored @throws DrawbridgeError (or rejects) if it cannot now */
  readonly look: () => number | Promise<number>;
}

export interface StateKeeperParts extends Pick<Machine, "clock" | "logger"> {
  /** In the order of the checks. */
  readonly kept: readonly KeptPart[];
}

/**
 * Restores the daemon's files and socket for the plugin, the next daemon and the administrator: a person, or a clean-up
 * of temporary files, may remove `/run/drawbridge` while the daemon runs.
 *
 * @returns a function that ends this
 */
export function keepState({ clock, logger, kept }: StateKeeperParts): Cancel {
  /** Why a part cannot be restored, by its name; a lasting reason is logged once. */
  const reasons = new Map<string, string>();
  const lookAt = async ({ name, look }: KeptPart): Promise<void> => {
    try {
      const restored = await look();
      reasons.delete(name);
      if (restored > 0)
        logger.warn("another program has removed files of policyd; they are there again", { what: name, restored });
    } catch (error) {
      if (!(error instanceof DrawbridgeError || isExhaustion(error))) throw error;
      const reason = error.message;
      if (reasons.get(name) !== reason) logger.error("files of policyd cannot be put back", { what: name, reason });
      reasons.set(name, reason);
    }
  };
  const pass = async (): Promise<number> => {
    for (const part of kept) if (!loop.isStopped) await lookAt(part);
    return PERIOD;
  };
  const loop = new ControlLoop({ clock, pass });
  loop.within(PERIOD);
  return () => void loop.stop();
}
