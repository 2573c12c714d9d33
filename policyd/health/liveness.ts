import type { KernelEvents } from "../../kernel/events/events.ts";
import type { Cancel, Clock } from "../clock.ts";
import type { RulesetStatus } from "../dataplane/ruleset.ts";
import type { Condition } from "./answers.ts";

/** How often it is looked. A look that comes late, since the machine slept or the daemon was stopped, counts once. */
const LOOK_MILLISECONDS = 10_000;
/** So many looks in a row without a sign of life are no delay any more: a kernel that is busy answers within seconds. */
const MOST_SILENT = 6;

export interface LivenessParts {
  readonly clock: Clock;
  readonly ruleset: () => Pick<RulesetStatus, "isSynced" | "commits" | "failures" | "pending">;
}

/**
 * Whether the daemon's parts still move, for the probe that has it restarted. The event loop itself needs no watching:
 * where it hangs nobody answers. What a kernel refuses is tried again and again and no reason to restart; that nothing is
 * tried any more is.
 */
export class Liveness {
  readonly #parts: LivenessParts;
  /** Looks since something was tried though something is wanted. */
  #idle = 0;
  #lastAttempts = "";
  /** Looks since the thread that waits for the kernel was asked. */
  #silent = 0;
  #ping: (() => Promise<void>) | undefined;
  #isAsked = false;
  #cancel: Cancel | undefined;

  constructor(parts: LivenessParts) {
    this.#parts = parts;
    this.#lookLater();
  }

  /** Has a part that works beside the event loop asked at each look; keeps its promise when it lives. */
  watch(ping: () => Promise<void>): void {
    this.#ping = ping;
  }

  conditions(): readonly Condition[] {
    const stuck = (looks: number, what: string): string | undefined =>
      looks < MOST_SILENT ? undefined : `${what} for ${(looks * LOOK_MILLISECONDS) / 1000} s`;
    return [
      { name: "rules", missing: () => stuck(this.#idle, "rules are wanted and nothing was tried") },
      { name: "events", missing: () => stuck(this.#silent, "the thread that waits for the kernel has not answered") },
    ];
  }

  stop(): void {
    this.#cancel?.();
  }

  #lookLater(): void {
    this.#cancel = this.#parts.clock.after(LOOK_MILLISECONDS, () => {
      this.#lookAtRules();
      this.#lookAtPing();
      this.#lookLater();
    });
  }

  #lookAtRules(): void {
    const { isSynced, commits, failures, pending } = this.#parts.ruleset();
    const attempts = `${commits} ${failures} ${pending}`;
    // Before all objects are read nothing is tried, however long the API server is away.
    const isStarted = commits + failures > 0;
    this.#idle = isSynced || !isStarted || attempts !== this.#lastAttempts ? 0 : this.#idle + 1;
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
      // It has ended: asked again, it counts again.
      this.#silent++;
    } finally {
      this.#isAsked = false;
    }
  }
}

/**
 * Settles when the event thread has been through its loop once: a subscription is opened and closed again. Of no groups of
 * rtnetlink, which every kernel has.
 *
 * @throws DrawbridgeError (by the promise) as {@link KernelEvents.subscribe}, also when the thread has ended
 */
export async function askEventThread(events: KernelEvents): Promise<void> {
  const nothing = { onMessages: () => {}, onOverrun: () => {}, onFailure: () => {} };
  (await events.subscribe({ kind: "route", groups: [], receiveBufferBytes: 4096 }, nothing)).close();
}
