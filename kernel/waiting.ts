/** A clock and a pause of the calling thread, so that a test need not wait. */
export interface Waiting {
  /** Milliseconds of a monotonic clock. */
  now(): number;
  pause(milliseconds: number): void;
}

/**
 * What work waits for before it goes on: that a descriptor can be read, at most so long, and it blocks for that by itself where it
 * is let go on earlier; without a descriptor, so long.
 */
export interface Wait {
  readonly fd: number | undefined;
  readonly milliseconds: number;
}

/** Work that says what it waits for, so that its thread can do other work meanwhile. */
export type Work<T> = Generator<Wait, T, void>;

/** Does work that nothing else is to be done beside. @throws whatever the work throws */
export function carryOut<T>(work: Work<T>, waiting: Waiting = realWaiting): T {
  for (;;) {
    const step = work.next();
    if (step.done === true) return step.value;
    if (step.value.fd === undefined) waiting.pause(step.value.milliseconds);
  }
}

/** The real clock; a pause blocks the thread. */
export const realWaiting: Waiting = {
  now: () => performance.now(),
  pause: (milliseconds) => {
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, milliseconds);
  },
};
