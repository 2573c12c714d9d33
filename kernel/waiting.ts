/** A clock, and a pause of the calling thread, which tests replace so that they need not wait. */
export interface Waiting {
  /** Returns the milliseconds of a monotonic clock. */
  now(): number;
  pause(milliseconds: number): void;
}

/**
 * A condition under which work goes on: the descriptor is readable or the time is over. Without a descriptor only the
 * time counts. Work that is resumed early blocks on the descriptor itself.
 */
export interface Wait {
  readonly fd: number | undefined;
  readonly milliseconds: number;
}

/** Work that yields what it waits for, so that its thread can do other work meanwhile. */
export type Work<T> = Generator<Wait, T, void>;

/** Does work to its end, with nothing else in between. @throws whatever the work throws */
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
