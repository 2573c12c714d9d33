import type { Cancel, Clock } from "../../clock.ts";
import type { ApiConnection } from "./connection.ts";
import { probe } from "./probe.ts";
import { NAMESPACES } from "./resources.ts";
import { LIST_SPREAD, retryAfterMilliseconds } from "./state.ts";

/** Who may be behind with a server that is away. */
export interface Follower {
  /** From when on it may ask, by the clock, if only the server were well; undefined while it is not behind. */
  readonly earliest: number | undefined;
  /** Ends its wait: for a watch at once; a list, which costs the server more, is asked for after so many milliseconds. */
  hurry(milliseconds: number): void;
  /** Asks once more for a watch that was asked for before then and has no answer. */
  repeat(before: number): void;
}

export interface RecoveryParts {
  readonly connection: ApiConnection;
  readonly clock: Clock;
  readonly random: () => number;
}

/** From one probe to the next, give or take a tenth: 5,000 nodes send 5,000 a second to a server that is ill. */
const PERIOD = 1000;
/** Ill for so long it is asked more seldom: 5,000 nodes send 1,000 a second. */
const LONG_ILLNESS = 15 * 60_000;
const LONG_PERIOD = 5000;

/**
 * Finds out that a server is back. While somebody is behind, it is asked about once a second by one cheap request for all; when
 * that succeeds after it failed, all who are behind go on. So they may wait long, to spare a server that is ill, and are still
 * up to date within two seconds when it is well.
 *
 * The first probe comes at a random moment of the period: so nodes that lost the server together find it again apart, and
 * their lists spread over one and a half seconds, or over more after a long illness.
 *
 * A probe that succeeds is the last until somebody fails anew. Where none had failed the trouble is of a kind of its own, and
 * only its own waits count.
 */
export class Recovery {
  readonly #parts: RecoveryParts;
  readonly #followers: readonly Follower[];
  /** Until the next look; undefined while it is not known that somebody is behind. */
  #next: Cancel | undefined;
  /** What ends each probe that is under way: the next does not wait for a slow one. */
  readonly #probes = new Set<Cancel>();
  #illSince = 0;
  #hasFailed = false;
  /** The server wants to be left alone until then. */
  #earliest = 0;

  constructor(parts: RecoveryParts, followers: readonly Follower[]) {
    this.#parts = parts;
    this.#followers = followers;
  }

  /** Somebody may be behind now. */
  check(): void {
    if (this.#next !== undefined || this.#askableFrom() === undefined) return;
    const { clock, random } = this.#parts;
    this.#illSince = clock.now();
    this.#hasFailed = false;
    this.#lookAfter(PERIOD * random());
  }

  stop(): void {
    this.#next?.();
    this.#next = undefined;
    for (const end of this.#probes) end();
    this.#probes.clear();
  }

  /** From when on it is of use to ask; undefined where nobody is behind. */
  #askableFrom(): number | undefined {
    const times = this.#followers.flatMap(({ earliest }) => earliest ?? []);
    return times.length === 0 ? undefined : Math.max(this.#earliest, Math.min(...times));
  }

  get #period(): number {
    return this.#parts.clock.now() - this.#illSince < LONG_ILLNESS ? PERIOD : LONG_PERIOD;
  }

  #lookAfter(milliseconds: number): void {
    this.#next = this.#parts.clock.after(milliseconds, () => this.#look());
  }

  #look(): void {
    const { clock, random } = this.#parts;
    const from = this.#askableFrom();
    if (from === undefined) return this.stop();
    const wait = from - clock.now();
    if (wait > 0) return this.#lookAfter(Math.min(wait, this.#period));
    this.#probe();
    this.#lookAfter(this.#period * (0.9 + random() / 5));
  }

  #probe(): void {
    const { clock, connection } = this.#parts;
    const begun = clock.now();
    const end = probe(connection, clock, NAMESPACES, ({ isWell, retryAfter }) => {
      this.#probes.delete(end);
      this.#earliest = Math.max(this.#earliest, clock.now() + retryAfterMilliseconds(retryAfter ?? 0));
      if (isWell) this.#recovered(begun);
      else this.#hasFailed = true;
    });
    this.#probes.add(end);
  }

  #recovered(begun: number): void {
    const hasFailed = this.#hasFailed;
    this.stop();
    for (const follower of this.#followers) {
      if (hasFailed) follower.hurry(this.#parts.random() * LIST_SPREAD);
      follower.repeat(begun);
    }
  }
}
