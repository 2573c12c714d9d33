import type { Part, Scope } from "../../cni/node_state/observed.ts";
import type { Address } from "../../kernel/ip/address.ts";
import type { Clock } from "../lib/clock.ts";
import { Contest } from "../lib/contest.ts";
import { REPAIR_CONTEST, SETTLE_MILLISECONDS } from "../lib/pass_schedule.ts";
import type { Doubt } from "./relevance.ts";

/**
 * The subject of everything that belongs to a bridge: the bridge, its addresses, routes and neighbours depend on each
 * other, and one fault may affect several of them.
 */
export const BRIDGE = "bridge";

/** Milliseconds without a repair after which a subject is forgotten, so its next repair is immediate again. */
const CALM = 10_000;

/** The dirty parts of one bridge and when to check them; parts that another program keeps changing wait longer. */
export class Doubts {
  readonly #clock: Clock;
  readonly #due = new Map<string, { readonly at: number; readonly scope: Scope }>();
  /** By subject and part: changes to different parts of one bridge are not a contest. */
  readonly #contests = new Map<string, { readonly subject: string; readonly contest: Contest; changedAt: number }>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Schedules a check of a part: soon, or later where it was repaired repeatedly. */
  add(doubt: Doubt): void {
    const subject = doubt.kind === "port" ? doubt.name : BRIDGE;
    const known = this.#due.get(subject);
    const scope = scopeOf(doubt);
    this.#due.set(subject, {
      at: known?.at ?? this.#clock.now() + this.#pauseOf(subject),
      scope: known === undefined ? scope : unionOfScopes(known.scope, scope),
    });
  }

  /** Milliseconds until a check is due; undefined where none is scheduled. */
  get wait(): number | undefined {
    let earliest: number | undefined;
    for (const { at } of this.#due.values()) earliest = Math.min(at, earliest ?? at);
    return earliest === undefined ? undefined : Math.max(0, earliest - this.#clock.now());
  }

  /** Returns the parts that are due now, as one scope; undefined where none are. */
  take(): Scope | undefined {
    const now = this.#clock.now();
    const due = [...this.#due].filter(([, { at }]) => at <= now);
    if (due.length === 0) return undefined;
    for (const [subject] of due) this.#due.delete(subject);
    return due.map(([, { scope }]) => scope).reduce(unionOfScopes);
  }

  /** Whether repairs of a subject pause, because another program has undone them repeatedly. */
  isHeld(subject: string): boolean {
    return this.#of(subject).some(({ wait }) => wait > 0);
  }

  /** Records a repair of a subject's part. */
  repaired(subject: string, part: Part): void {
    const key = `${subject} ${part}`;
    const contest = this.#contests.get(key)?.contest ?? new Contest(this.#clock, REPAIR_CONTEST);
    contest.reverted();
    this.#contests.set(key, { subject, contest, changedAt: this.#clock.now() });
  }

  /** Returns the subjects that another program keeps changing. */
  contested(): ReadonlySet<string> {
    const now = this.#clock.now();
    for (const [key, { changedAt }] of this.#contests) if (now - changedAt > CALM) this.#contests.delete(key);
    return new Set(
      [...this.#contests.values()].flatMap(({ subject, contest }) => (contest.isContested ? subject : [])),
    );
  }

  #pauseOf(subject: string): number {
    return Math.max(SETTLE_MILLISECONDS, ...this.#of(subject).map(({ pause }) => pause));
  }

  #of(subject: string): readonly Contest[] {
    return [...this.#contests.values()].flatMap((one) => (one.subject === subject ? one.contest : []));
  }
}

/** The bridge itself, without its ports and routes. */
export const ONLY_BRIDGE: Scope = { ports: new Set(), ways: new Set(), hasFilters: false };

function scopeOf(doubt: Doubt): Scope {
  switch (doubt.kind) {
    case "everything":
      return { ports: "all", ways: "all", hasFilters: true };
    case "bridge":
      return ONLY_BRIDGE;
    case "neighbour":
      return { ...ONLY_BRIDGE, ports: new Set([doubt.name]) };
    case "port":
      return { ...ONLY_BRIDGE, ports: new Set([doubt.name]), hasFilters: doubt.hasFilters };
    case "ways":
      return { ...ONLY_BRIDGE, ways: doubt.addresses === "all" ? "all" : new Set(doubt.addresses) };
  }
}

function unionOfScopes(one: Scope, other: Scope): Scope {
  const ports = one.ports === "all" || other.ports === "all" ? "all" : new Set([...one.ports, ...other.ports]);
  const ways: "all" | ReadonlySet<Address> =
    one.ways === "all" || other.ways === "all" ? "all" : new Set([...one.ways, ...other.ways]);
  return { ports, ways, hasFilters: one.hasFilters || other.hasFilters };
}
