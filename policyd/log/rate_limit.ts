/** More different messages than the daemon has; beyond them the oldest is forgotten. */
const MOST_KEYS = 1000;

interface Window {
  readonly startedAt: number;
  count: number;
}

/**
 * How often the same thing may be said: `most` times within a window of time.
 *
 * A thing is known by its key. The memory is bounded whatever the keys are.
 */
export class RateLimit {
  readonly #most: number;
  readonly #milliseconds: number;
  readonly #windows = new Map<string, Window>();

  constructor(most: number, milliseconds: number) {
    this.#most = most;
    this.#milliseconds = milliseconds;
  }

  /**
   * Asks to say a thing.
   *
   * @param now milliseconds of any clock that does not go back
   * @returns undefined when it was said often enough, otherwise how often it was kept quiet before
   */
  admit(key: string, now: number): number | undefined {
    const window = this.#windows.get(key);
    if (window !== undefined && now - window.startedAt < this.#milliseconds) {
      window.count++;
      return window.count <= this.#most ? 0 : undefined;
    }
    this.#windows.delete(key);
    if (this.#windows.size >= MOST_KEYS) {
      const [oldest] = this.#windows.keys();
      if (oldest !== undefined) this.#windows.delete(oldest);
    }
    this.#windows.set(key, { startedAt: now, count: 1 });
    return Math.max(0, (window?.count ?? 0) - this.#most);
  }
}
