const QUEUED = 0;
const IS_PAUSED = 1;
/** What a queued datagram takes besides its bytes, roughly. */
const DATAGRAM_OVERHEAD = 256;

/**
 * How much the event thread may have on its way to the consumer, kept in memory that both threads see.
 *
 * The thread charges what it posts and stops reading at the limit; the consumer releases what it has taken. The
 * kernel's own buffers then fill, and what they cannot keep the kernel reports as lost.
 */
export class QueueBudget {
  readonly memory: SharedArrayBuffer;
  readonly limit: number;
  readonly #cells: Int32Array;

  /** @param memory that of the other thread's budget; new when absent */
  constructor(limit: number, memory = new SharedArrayBuffer(2 * Int32Array.BYTES_PER_ELEMENT)) {
    this.limit = limit;
    this.memory = memory;
    this.#cells = new Int32Array(memory);
  }

  /** What datagrams cost. */
  static costOf(datagrams: readonly Uint8Array[]): number {
    let cost = 0;
    for (const { length } of datagrams) cost += length + DATAGRAM_OVERHEAD;
    return cost;
  }

  charge(cost: number): void {
    Atomics.add(this.#cells, QUEUED, cost);
  }

  /**
   * Whether the thread may read. From the limit on it may not, until half of that is left.
   *
   * The pause is noted before the level is looked at again, and {@link release} does it the other way round: one of
   * the two threads sees the other's step, so no wake-up is lost.
   */
  mayRead(): boolean {
    const isPaused = Atomics.load(this.#cells, IS_PAUSED) === 1;
    if (!isPaused && Atomics.load(this.#cells, QUEUED) < this.limit) return true;
    Atomics.store(this.#cells, IS_PAUSED, 1);
    if (Atomics.load(this.#cells, QUEUED) > this.limit / 2) return false;
    Atomics.store(this.#cells, IS_PAUSED, 0);
    return true;
  }

  /** Gives back what a message cost. @returns whether the thread has paused and may go on: wake it */
  release(cost: number): boolean {
    const left = Atomics.sub(this.#cells, QUEUED, cost) - cost;
    return left <= this.limit / 2 && Atomics.load(this.#cells, IS_PAUSED) === 1;
  }
}
