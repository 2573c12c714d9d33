import type { Cancel, Clock } from "../../clock.ts";
import type { ApiConnection } from "./connection.ts";
import { probe } from "./probe.ts";
import { NAMESPACES } from "./resources.ts";
import { retryAfterMilliseconds } from "./state.ts";

/** Who may be behind with a server that is away. */
export interface Follower {
  readonly resumableFrom: number | undefined;
  resume(milliseconds: number): void;
}

export interface RecoveryParts {
  readonly connection: ApiConnection;
  readonly clock: Clock;
  readonly random: () => number;
}

/** A probe is over by then, or is taken for failed. */
const PERIOD = 1000;
/** Over how long the requests spread when the server is back. */
const SPREAD = 300;

/**
 * Finds out that a server is back. While somebody is behind, it is asked about once a second by one cheap request for all; when
 * that succeeds after it failed, all who are behind go on at once. So they may wait long, to spare a server that is ill, and
 * are still up to date within two seconds when it is well.
 *
 * Where the probe never failed the trouble is of a kind of its own, and only its own waits count.
 */
export class Recovery {
  readonly #parts: RecoveryParts;
  readonly #followers: readonly Follower[];
  /** Until the next look; undefined while nobody is behind. */
  #next: Cancel | undefined;
  /** Ends the probe that is under way. */
  #probe: Cancel | undefined;
  #hasFailed = false;
  /** The server wants to be left alone until then. */
  #notBefore = 0;

  constructor(parts: RecoveryParts, followers: readonly Follower[]) {
    this.#parts = parts;
    this.#followers = followers;
  }

  /** Somebody may be behind now. */
  check(): void {
    if (this.#next !== undefined || this.#askableFrom() === undefined) return;
    this.#hasFailed = false;
    this.#lookLater();
  }

  stop(): void {
    this.#next?.();
    this.#next = undefined;
    this.#endProbe();
  }

  /** From when on it is of use to ask; undefined where nobody is behind. */
  #askableFrom(): number | undefined {
    const times = this.#followers.flatMap(({ resumableFrom }) => resumableFrom ?? []);
    return times.length === 0 ? undefined : Math.max(this.#notBefore, Math.min(...times));
  }

  #lookLater(milliseconds: number = PERIOD * (0.75 + this.#parts.random() / 4)): void {
    this.#next = this.#parts.clock.after(milliseconds, () => this.#look());
  }

  #look(): void {
    const { clock, connection } = this.#parts;
    if (this.#probe !== undefined) this.#hasFailed = true;
    this.#endProbe();
    const from = this.#askableFrom();
    this.#next = undefined;
    if (from === undefined) return;
    if (from > clock.now()) return this.#lookLater(from - clock.now());
    this.#probe = probe(connection, clock, NAMESPACES, ({ isWell, retryAfter }) => {
      this.#probe = undefined;
      this.#notBefore = clock.now() + retryAfterMilliseconds(retryAfter ?? 0);
      if (!isWell) this.#hasFailed = true;
      else if (this.#hasFailed) this.#resume();
    });
    this.#lookLater();
  }

  #resume(): void {
    this.#hasFailed = false;
    for (const follower of this.#followers) follower.resume(this.#parts.random() * SPREAD);
  }

  #endProbe(): void {
    this.#probe?.();
    this.#probe = undefined;
  }
}
