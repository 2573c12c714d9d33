import { DrawbridgeError } from "../../kernel/error.ts";
import { type Address, parseAddress } from "../../kernel/ip/address.ts";
import type { Clock } from "../lib/clock.ts";
import { ControlLoop, type NextPass } from "../lib/control_loop.ts";
import { type Listening, type ListeningAddress, placeId } from "./http_listener.ts";

/** All addresses, in each family. */
export const ANY: readonly Address[] = ["0.0.0.0", "::"].map((text) => parseAddress(text));

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

/** A place that is wanted and not open. */
interface Waiting {
  readonly place: ListeningAddress;
  /** The clock's time of the next attempt. */
  at: number;
  /** Milliseconds until the attempt after that, where it fails. */
  pause: number;
  /** Why the last attempt has failed; undefined before it. */
  problem: string | undefined;
}

/** Listens at the desired places. Each that another program has is tried again until it is free, at a pace of its own. */
export class Listeners {
  readonly #parts: ListenersParts;
  /** By {@link placeId}, like `#open`. Each desired place is in one of the two. */
  readonly #waiting = new Map<string, Waiting>();
  readonly #open = new Map<string, Listening>();
  readonly #loop: ControlLoop;

  constructor(parts: ListenersParts) {
    this.#parts = parts;
    this.#loop = new ControlLoop({ clock: parts.clock, pass: () => this.#pass() });
  }

  /** Listens at the places in `after`, and no longer at those that are only in `before`. It costs only them. */
  replace(before: readonly ListeningAddress[], after: readonly ListeningAddress[]): void {
    if (this.#loop.isStopped) return;
    const { clock, retries } = this.#parts;
    const wanted = new Map(after.map((place) => [placeId(place), place]));
    for (const id of before.map(placeId)) if (!wanted.has(id)) this.#close(id);
    const added = [...wanted].filter(([id]) => !this.#open.has(id) && !this.#waiting.has(id));
    for (const [id, place] of added) {
      this.#waiting.set(id, { place, at: clock.now(), pause: retries[0], problem: undefined });
    }
    if (added.length > 0) this.#loop.run();
  }

  /** Returns the places at which it does not listen yet, with the reasons. */
  problems(): readonly (readonly [ListeningAddress, string])[] {
    return [...this.#waiting.values()].flatMap(({ place, problem }) =>
      problem === undefined ? [] : [[place, problem]],
    );
  }

  /** Stops listening and closes every connection immediately. */
  stop(): void {
    for (const id of [...this.#open.keys(), ...this.#waiting.keys()]) this.#close(id);
    void this.#loop.stop();
  }

  #close(id: string): void {
    this.#open.get(id)?.close();
    this.#open.delete(id);
    this.#waiting.delete(id);
  }

  async #pass(): Promise<NextPass> {
    const { clock } = this.#parts;
    const now = clock.now();
    const due = [...this.#waiting].filter(([, { at }]) => at <= now);
    await Promise.all(due.map(([id, one]) => this.#listen(id, one)));
    let next = Number.POSITIVE_INFINITY;
    for (const { at } of this.#waiting.values()) next = Math.min(next, at);
    return Number.isFinite(next) ? Math.max(0, next - clock.now()) : undefined;
  }

  async #listen(id: string, one: Waiting): Promise<void> {
    const { clock, open, onRefused, onOpen, retries } = this.#parts;
    const { place, pause, problem } = one;
    const isWanted = (): boolean => this.#waiting.get(id) === one;
    try {
      const listening = await open(place).catch((error: unknown) => withoutIpv6(place, error));
      if (!isWanted()) return listening.close();
      this.#waiting.delete(id);
      this.#open.set(id, listening);
      if (problem !== undefined) onOpen?.(place);
    } catch (error) {
      if (!(error instanceof DrawbridgeError)) throw error;
      if (!isWanted()) return;
      onRefused?.(place, error.message, problem === undefined, pause);
      one.problem = error.message;
      one.at = clock.now() + pause;
      one.pause = Math.min(2 * pause, retries[1]);
    }
  }
}

/** Returns a server that serves nobody, where a kernel without IPv6 refuses all its addresses. @throws any other error */
function withoutIpv6({ family, address }: ListeningAddress, error: unknown): Listening {
  const isWithoutFamily = error instanceof DrawbridgeError && error.message.includes("EAFNOSUPPORT");
  if (isWithoutFamily && family === 6 && ANY.includes(address)) return { close: () => {} };
  throw error;
}
