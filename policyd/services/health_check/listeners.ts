import { DrawbridgeError } from "../../../kernel/error.ts";
import type { Clock } from "../../lib/clock.ts";
import { ControlLoop, type NextPass } from "../../lib/control_loop.ts";
import type { Listening } from "./http_listener.ts";
import { type ListeningAddress, placeId } from "./listening_addresses.ts";

export interface ListenersParts {
  readonly clock: Clock;
  /** Begins to listen at a place. @throws DrawbridgeError (by the promise) where that is not possible now */
  readonly open: (place: ListeningAddress) => Promise<Listening>;
  /** Is notified of each attempt that has failed. @param isFirst whether the place was not refused before */
  readonly onRefused?: (place: ListeningAddress, reason: string, isFirst: boolean, retryMilliseconds: number) => void;
  /** Is notified when a place that was refused is open after all. */
  readonly onOpen?: (place: ListeningAddress) => void;
  /** Milliseconds until the first retry, and the longest; each waits twice as long as the one before. */
  readonly retries: readonly [first: number, longest: number];
}

/** Listens at the desired places. A place that another program has is tried again until it is free. */
export class Listeners {
  readonly #parts: ListenersParts;
  /** By {@link placeId}, as all maps here. */
  #wanted: ReadonlyMap<string, ListeningAddress> = new Map();
  readonly #open = new Map<string, Listening>();
  readonly #problems = new Map<string, string>();
  #retry: number;
  readonly #loop: ControlLoop;

  constructor(parts: ListenersParts) {
    this.#parts = parts;
    [this.#retry] = parts.retries;
    this.#loop = new ControlLoop({ clock: parts.clock, pass: () => this.#pass() });
  }

  /** Listens exactly at these places. */
  set(places: readonly ListeningAddress[]): void {
    if (this.#loop.isStopped) return;
    const before = this.#wanted;
    this.#wanted = new Map(places.map((place) => [placeId(place), place]));
    for (const id of before.keys()) if (!this.#wanted.has(id)) this.#close(id);
    if ([...this.#wanted.keys()].every((id) => before.has(id))) return;
    [this.#retry] = this.#parts.retries;
    this.#loop.run();
  }

  /** Returns the places at which it does not listen yet, with the reasons. */
  problems(): readonly (readonly [ListeningAddress, string])[] {
    return [...this.#wanted].flatMap(([id, place]) => {
      const problem = this.#problems.get(id);
      return problem === undefined ? [] : [[place, problem] as const];
    });
  }

  /** Stops listening and closes every connection immediately. */
  stop(): void {
    this.set([]);
    void this.#loop.stop();
  }

  #close(id: string): void {
    this.#open.get(id)?.close();
    this.#open.delete(id);
    this.#problems.delete(id);
  }

  async #pass(): Promise<NextPass> {
    const retry = this.#retry;
    const missing = [...this.#wanted].filter(([id]) => !this.#open.has(id));
    await Promise.all(missing.map(([id, place]) => this.#listen(id, place, retry)));
    this.#retry = Math.min(2 * retry, this.#parts.retries[1]);
    return this.#problems.size === 0 ? undefined : retry;
  }

  async #listen(id: string, place: ListeningAddress, retry: number): Promise<void> {
    const { open, onRefused, onOpen } = this.#parts;
    try {
      const listening = await open(place);
      if (!this.#wanted.has(id)) return listening.close();
      this.#open.set(id, listening);
      if (this.#problems.delete(id)) onOpen?.(place);
    } catch (error) {
      if (!(error instanceof DrawbridgeError)) throw error;
      if (!this.#wanted.has(id)) return;
      onRefused?.(place, error.message, !this.#problems.has(id), retry);
      this.#problems.set(id, error.message);
    }
  }
}
