import type { Cancel, Clock } from "./clock.ts";

/** Milliseconds from the end of a pass to the next; undefined for none before something becomes dirty. */
export type NextPass = number | undefined;

export interface ControlLoopParts {
  readonly clock: Pick<Clock, "now" | "after">;
  /**
   * Reconciles what is dirty. It returns when it has to run again although nothing becomes dirty: after a period, or
   * sooner to retry what has failed. An exception is a bug, and ends the daemon.
   */
  readonly pass: () => NextPass | Promise<NextPass>;
  /** Returns milliseconds from when something becomes dirty to its pass; none where absent. Asked each time. */
  readonly pause?: () => number;
}

/**
 * Decides when one component reconciles: once for all changes within a pause, one pass at a time, and again after the
 * time that a pass asks for. The earliest of several times counts.
 *
 * A change during a pass, which may have read too early, has a pass after it. The component itself knows what is dirty,
 * and how long to wait after a failure or in a contest with another program.
 */
export class ControlLoop {
  readonly #parts: ControlLoopParts;
  #due: { readonly at: number; readonly cancel: Cancel } | undefined;
  /** The pass in progress, where it takes more than one turn of the event loop. */
  #running: Promise<void> | undefined;
  #isDirty = false;
  #isStopped = false;

  constructor(parts: ControlLoopParts) {
    this.#parts = parts;
  }

  get isStopped(): boolean {
    return this.#isStopped;
  }

  /** Makes a pass begin after the pause, since something is dirty. */
  enqueue(): void {
    this.within(this.#parts.pause?.() ?? 0);
  }

  /** Makes a pass begin within this time; if one is in progress, after it and the pause. */
  within(milliseconds: number): void {
    if (!this.#mayBegin()) return;
    const { clock } = this.#parts;
    const at = clock.now() + milliseconds;
    if (this.#due !== undefined && this.#due.at <= at) return;
    this.#due?.cancel();
    this.#due = { at, cancel: clock.after(milliseconds, () => this.run()) };
  }

  /** Runs a pass now; if one is in progress, after it and the pause. */
  run(): void {
    if (!this.#mayBegin()) return;
    this.#due?.cancel();
    this.#due = undefined;
    const next = this.#parts.pass();
    if (next instanceof Promise) this.#running = next.then((milliseconds) => this.#ended(milliseconds));
    else this.#ended(next);
  }

  /** Lets no further pass begin. Resolves when the one in progress has ended. */
  async stop(): Promise<void> {
    this.#isStopped = true;
    this.#due?.cancel();
    await this.#running;
  }

  /** Returns whether a pass may begin now. During a pass it notes that another one has to follow. */
  #mayBegin(): boolean {
    if (this.#running !== undefined) this.#isDirty = true;
    return this.#running === undefined && !this.#isStopped;
  }

  #ended(next: NextPass): void {
    this.#running = undefined;
    if (next !== undefined) this.within(next);
    if (!this.#isDirty) return;
    this.#isDirty = false;
    this.enqueue();
  }
}
