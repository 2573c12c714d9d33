import type { Clock } from "../clock.ts";
import { FairQueue } from "../fair_queue.ts";
import { Recent } from "../recent.ts";
import type { Rate } from "../token_bucket.ts";
import { TokenBucket } from "../token_bucket.ts";
import type { Line } from "./line.ts";
import type { Level } from "./logger.ts";

/** The number of lines of one message that are written at once, by their level; after them, one in each pause. */
const BURSTS: Readonly<Record<Exclude<Level, "debug">, number>> = { error: 20, warn: 20, info: 250 };
const PAUSE_MILLISECONDS = 1000;
/** The most lines of one message that wait; of those beyond only the number is kept. */
const MOST_WAITING = 1000;
/** Of one namespace, over all messages: a flood is ten thousand lines a day. */
export const RATE_OF_NAMESPACE: Rate = { burst: 600, period: 10_000 };
/** The most namespaces of which it is known when they have written. */
const MOST_REMEMBERED = 4096;

interface Pace {
  readonly burst: number;
  /** How many may be written without a wait. */
  left: number;
  /** Lines in the order they came, by namespace. */
  readonly waiting: FairQueue<Waiting>;
  /** What those lines say. */
  readonly said: Set<string>;
  /** Not written since the last line: those beyond the most, and those that say what one that waits says. */
  suppressed: number;
}

interface Waiting {
  readonly line: Line;
  readonly text: string;
}

/**
 * Writes lines, those of one message only so often. What comes too fast follows later with the time at which it was
 * said, so that each thing is in the log once; the next line that is written says in `suppressed` how many are not.
 *
 * Of the lines that wait each namespace has its turn, and where too many wait the oldest of the namespace with the most makes room. So
 * who has very many lines written delays and loses only its own.
 *
 * The memory is bounded, as the messages are constants: 1000 lines of each.
 */
export class PacedLines {
  readonly #clock: Pick<Clock, "after" | "now">;
  readonly #write: (line: Line) => void;
  readonly #paces = new Map<string, Pace>();
  readonly #namespaces = new Recent<TokenBucket>(MOST_REMEMBERED);

  /** @param write for each line, before {@link add} returns or later */
  constructor(clock: Pick<Clock, "after" | "now">, write: (line: Line) => void) {
    this.#clock = clock;
    this.#write = write;
  }

  /** @param namespace of the tenant that can bring the line about; empty for none */
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

  /** Whether a namespace may have one more line, which then counts. */
  #take(namespace: string): boolean {
    if (namespace === "") return true;
    const bucket = this.#namespaces.get(namespace) ?? new TokenBucket(RATE_OF_NAMESPACE);
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
