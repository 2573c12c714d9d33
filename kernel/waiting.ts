/** A clock, and a pause of the calling thread, which tests replace so that they need not wait. */
export interface Waiting {
  /** Returns the milliseconds of a monotonic clock. */
  now(): number;
  pause(milliseconds: number): void;
}

/** The real clock; a pause blocks the thread. */
export const realWaiting: Waiting = {
  now: () => performance.now(),
  pause: (milliseconds) => {
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, milliseconds);
  },
};
