import type { Clock } from "../lib/clock.ts";
import { FairQueue } from "../lib/fair_queue.ts";
import { Recent } from "../lib/recent.ts";
import { type Rate, RateLimiter } from "../lib/rate_limiter.ts";
import type { Line } from "./line.ts";
import type { Level } from "./logger.ts";

/** Number of lines of one message that are written immediately, by level; then follows one in each pause. */
const BURSTS: Readonly<Record<Exclude<Level, "debug">, number>> = { error: 20, warn: 20, info: 250 };
const PAUSE_MILLISECONDS = 1000;
/** The most waiting lines of one message; further lines are only counted. */
const MOST_WAITING = 1000;
/** Limit for one namespace over all messages, which bounds a flood to ten thousand lines a day. */
export const RATE_OF_NAMESPACE: Rate = { burst: 600, period: 10_000 };
/** The most namespaces whose rate is remembered. */
const MOST_REMEMBERED = 4096;

interface Pace {
  readonly burst: number;
  /** Number of lines that may be written without a wait. */
  left: number;
  /** Waiting lines in order, by namespace. */
  readonly waiting: FairQueue<Waiting>;
  /** The texts of the waiting lines. */
  readonly said: Set<string>;
  /** Lines suppressed since the last written one: those beyond the limit, and those equal to a waiting line. */
  suppressed: number;
}

interface Waiting {
  readonly line: Line;
  readonly text: string;
}

/**
 * Writes lines, with a limited rate for each message. Lines beyond it are written later with their original time, so
 * that each appears once; the next written line states in `suppressed` how many were omitted.
 *
 * Waiting lines are taken by turns of namespaces, and where too many wait, the oldest of the namespace with the most is
 * dropped. So a tenant who causes very many lines delays and loses only lines of the same namespace.
 *
 * Memory is bounded to 1000 lines for each message, as messages are constants.
 */
export class PacedLines {
  readonly #clock: Pick<Clock, "after" | "now">;
  readonly #write: (line: Line) => void;
  readonly #paces = new Map<string, Pace>();
  readonly #namespaces = new Recent<RateLimiter>(MOST_REMEMBERED);

  /** @param write called for each line, before {@link add} returns or later */
  constructor(clock: Pick<Clock, "after" | "now">, write: (line: Line) => void) {
    this.#clock = clock;
    this.#write = write;
  }

  /** @param namespace of the tenant who can cause the line; empty for none */
  add(line: Line & { readonly level: Exclude<Level, "debug"> }, namespace = ""): void {
    const key = `${line.level} ${line.message}`;
    const pace = this.#paces.get(key) ?? this.#begin(key, BURSTS[line.level]);
    if (pace.left > 0 && this.#take(namespace)) {
      pace.left--;
      this.#write(line);
      return;
    }
    const text = `${namespace} ${JSON.stringify(line.fields)}`;
    if (pace.said.has(text)) {
      pace.suppressed++;
      return;
    }
    pace.said.add(text);
    const beyond = pace.waiting.add(namespace, { line, text });
    if (beyond === undefined) return;
    pace.said.delete(beyond.text);
    pace.suppressed++;
  }

  /** Counts a line of a namespace. @returns whether its rate allows it */
  #take(namespace: string): boolean {
    if (namespace === "") return true;
    const bucket = this.#namespaces.get(namespace) ?? new RateLimiter(RATE_OF_NAMESPACE);
    this.#namespaces.set(namespace, bucket);
    return bucket.take(this.#clock.now());
  }

  #begin(key: string, burst: number): Pace {
    const pace: Pace = { burst, left: burst, waiting: new FairQueue(MOST_WAITING), said: new Set(), suppressed: 0 };
    this.#paces.set(key, pace);
    this.#goOnLater(key, pace);
    return pace;
  }

  #goOnLater(key: string, pace: Pace): void {
    this.#clock.after(PAUSE_MILLISECONDS, () => {
      const next = pace.waiting.take((namespace) => this.#take(namespace));
      if (next !== undefined) this.#writeWaiting(pace, next);
      else if (pace.left < pace.burst) pace.left++;
      if (pace.left >= pace.burst && pace.waiting.size === 0) this.#paces.delete(key);
      else this.#goOnLater(key, pace);
    });
  }

  #writeWaiting(pace: Pace, { line, text }: Waiting): void {
    pace.said.delete(text);
    const { suppressed } = pace;
    pace.suppressed = 0;
    this.#write(suppressed === 0 ? line : { ...line, fields: { ...line.fields, suppressed } });
  }
}
