import type { Cancel } from "../../lib/clock.ts";
import { probe } from "./probe.ts";
import type { Reflector, ReflectorParts } from "./reflector.ts";
import { NAMESPACES } from "./resources.ts";
import { LIST_SPREAD, retryAfterMilliseconds } from "./reflector_decision.ts";

/** A reader of the server, which may be out of date while the server is unavailable. */
type Follower = Pick<Reflector, "earliest" | "hurry" | "repeat">;

/** Milliseconds between two probes, give or take a tenth: 5,000 nodes send 5,000 a second to an unhealthy server. */
const PERIOD = 1000;
/** A server that is unhealthy for longer than this gets fewer probes: 5,000 nodes send 1,000 a second. */
const LONG_ILLNESS = 15 * 60_000;
const LONG_PERIOD = 5000;

/**
 * Detects that a server is healthy again. While a follower is out of date, one cheap probe for all of them is sent
 * about once a second; when a probe succeeds after one has failed, all followers go on. So their back-off may be long,
 * which spares an unhealthy server, and they are still up to date within two seconds once it is healthy.
 *
 * The first probe is sent at a random moment of the period. So nodes that lost the server together do not find it again
 * at the same moment, and their lists spread over one and a half seconds, or over more after a long outage.
 *
 * A probe that succeeds is the last one until a follower fails again. If no probe failed before it, the trouble is not
 * the server's health, and only the followers' own back-off counts.
 */
export class Recovery {
  readonly #parts: ReflectorParts;
  readonly #followers: readonly Follower[];
  /** Cancels the next check; undefined while no follower is known to be out of date. */
  #next: Cancel | undefined;
  /** Cancels each probe in progress; there may be several, since a new one does not wait for a slow one. */
  readonly #probes = new Set<Cancel>();
  #illSince = 0;
  #hasFailed = false;
  /** The clock's time until which the server wants no request. */
  #earliest = 0;

  constructor(parts: ReflectorParts, followers: readonly Follower[]) {
    this.#parts = parts;
    this.#followers = followers;
  }

  /** Begins to probe if a follower is out of date. Call it whenever one may be. */
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

  /** Returns the clock's time from which a probe is useful; undefined while no follower is out of date. */
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
