import type { KernelNotifications } from "../kernel/notifications/notifications.ts";
import type { AttachmentFollower } from "./attachments/follower.ts";
import { problemLine } from "./problems/problem.ts";
import type { TakeOver } from "./coexistence/take_over.ts";
import type { Lifecycle } from "./component.ts";
import type { Ruleset } from "./ruleset/ruleset.ts";
import type { RulesetWatch } from "./ruleset/ruleset_watch.ts";

export interface StartupParts {
  readonly ruleset: Pick<Ruleset, "start" | "stop" | "status">;
  readonly watch: Pick<RulesetWatch, "start" | "stop">;
  /** Starts the thread that waits for the kernel's notifications. */
  readonly startEvents: () => KernelNotifications;
  /** Called when all objects have been read. */
  readonly onObjects?: (events: KernelNotifications) => void;
  /** Decides when the first rules may be written; undefined means at once. */
  readonly takeOver?: Pick<TakeOver, "granted" | "problems" | "stop"> | undefined;
  /** Prepares connections for the first rules of policies; undefined where none are enforced. */
  readonly follower?: Pick<AttachmentFollower, "prepared"> | undefined;
  /** Called when the rules are being written: pods may register now. */
  readonly onStart: () => void;
}

/**
 * Decides what happens in which order from the daemon's start to the first batch.
 *
 * 1. `begin`: subscribe to the kernel's notifications.
 * 2. All objects are read once. The components before this one claim what is desired, with the pods that were attached
 *    before. Until then nothing is written, so the rules of an earlier daemon stay in force.
 * 3. Changes by other programs are being reported: none between the first batch and the subscription is missed.
 * 4. The bridge may be taken over: no pod of another plugin is on it (FOREIGN-02).
 * 5. Connections are prepared for the first rules of policies (POL-82).
 * 6. The ruleset starts, and registrations that waited go on.
 *
 * It stands in the list of components after all that claim rules.
 */
export class Startup implements Lifecycle {
  readonly #parts: StartupParts;
  #events: KernelNotifications | undefined;
  /** Resolves when changes by other programs are being reported. */
  #watching: Promise<void> | undefined;
  #isStopped = false;

  constructor(parts: StartupParts) {
    this.#parts = parts;
  }

  begin(): void {
    const { startEvents, watch } = this.#parts;
    this.#events = startEvents();
    this.#watching = watch.start(this.#events);
  }

  synced(): void {
    void this.#startRules();
    if (this.#events !== undefined) this.#parts.onObjects?.(this.#events);
  }

  problems(): readonly string[] {
    const { ruleset, takeOver } = this.#parts;
    const { lastError } = ruleset.status();
    return [
      ...(lastError === undefined ? [] : [problemLine("tables", `they are not in force: ${lastError}`)]),
      ...(takeOver?.problems() ?? []),
    ];
  }

  async stop(): Promise<void> {
    this.#isStopped = true;
    this.#parts.takeOver?.stop();
    this.#parts.watch.stop();
    this.#parts.ruleset.stop();
    await this.#events?.stop();
  }

  async #startRules(): Promise<void> {
    const { ruleset, follower, takeOver, onStart } = this.#parts;
    await this.#watching;
    await takeOver?.granted();
    await follower?.prepared();
    if (this.#isStopped) return;
    ruleset.start();
    onStart();
  }
}
