import type { KernelNotifications } from "../../kernel/notifications/notifications.ts";
import type { Clock } from "../lib/clock.ts";
import { ControlLoop, type NextPass } from "../lib/control_loop.ts";
import type { RulesetStatus } from "../ruleset/ruleset.ts";
import type { Condition } from "../component.ts";

/** Interval between checks. A late check, after the machine slept or the daemon was stopped, counts once. */
const LOOK_MILLISECONDS = 10_000;
/** Silent checks in a row that count as a failure, not a delay: a busy kernel answers within seconds. */
const MOST_SILENT = 6;

export interface LivenessParts {
  readonly clock: Clock;
  readonly ruleset: () => Pick<RulesetStatus, "isReconciled" | "commits" | "failures" | "pending">;
}

/**
 * Checks whether the daemon's parts still make progress, for the probe that restarts it. The event loop needs no check:
 * if it hangs, the probe gets no answer. Refusals by the kernel are retried and do not justify a restart; the absence
 * of attempts is.
 */
export class Liveness {
  readonly #parts: LivenessParts;
  /** Checks since the last attempt, while rules are pending. */
  #idle = 0;
  #lastAttempts = "";
  /** Checks since the event thread was asked. */
  #silent = 0;
  #ping: (() => Promise<void>) | undefined;
  #isAsked = false;
  readonly #loop: ControlLoop;

  constructor(parts: LivenessParts) {
    this.#parts = parts;
    this.#loop = new ControlLoop({ clock: parts.clock, pass: () => this.#look() });
    this.#loop.within(LOOK_MILLISECONDS);
  }

  /** Sets the ping of a part outside the event loop, called at each check; it resolves while the part is alive. */
  watch(ping: () => Promise<void>): void {
    this.#ping = ping;
  }

  conditions(): readonly Condition[] {
    const stuck = (looks: number, what: string): string | undefined =>
      looks < MOST_SILENT ? undefined : `${what} for ${(looks * LOOK_MILLISECONDS) / 1000} s`;
    return [
      { name: "rules", missing: () => stuck(this.#idle, "rules are pending, but nothing was tried") },
      { name: "events", missing: () => stuck(this.#silent, "the thread that waits for the kernel has not answered") },
    ];
  }

  stop(): void {
    void this.#loop.stop();
  }

  #look(): NextPass {
    this.#lookAtRules();
    this.#lookAtPing();
    return LOOK_MILLISECONDS;
  }

  #lookAtRules(): void {
    const { isReconciled, commits, failures, pending } = this.#parts.ruleset();
    const attempts = `${commits} ${failures} ${pending}`;
    // Nothing is tried before all objects are read, however long the API server is away.
    const isStarted = commits + failures > 0;
    this.#idle = isReconciled || !isStarted || attempts !== this.#lastAttempts ? 0 : this.#idle + 1;
    this.#lastAttempts = attempts;
  }

  #lookAtPing(): void {
    if (this.#isAsked) return void this.#silent++;
    if (this.#ping === undefined) return;
    this.#isAsked = true;
    void this.#await(this.#ping());
  }

  async #await(answer: Promise<void>): Promise<void> {
    try {
      await answer;
      this.#silent = 0;
    } catch {
      // The thread has ended. The next ping fails as well and counts again.
      this.#silent++;
    } finally {
      this.#isAsked = false;
    }
  }
}

/**
 * Resolves when the event thread has completed one turn of its loop, by opening and closing a subscription. It
 * subscribes to no groups of rtnetlink, which every kernel has.
 *
 * @throws DrawbridgeError (rejects) as {@link KernelNotifications.subscribe}, also when the thread has ended
 */
export async function askEventThread(events: KernelNotifications): Promise<void> {
  const nothing = { onMessages: () => {}, onOverrun: () => {}, onFailure: () => {} };
  (await events.subscribe({ kind: "route", groups: [], receiveBufferBytes: 4096 }, nothing)).close();
}
