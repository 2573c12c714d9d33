import type { Clock } from "../clock.ts";
import type { Line } from "./line.ts";

/** So many lines of one message are written at once; after them, one in each pause. */
const BURST = 20;
const PAUSE_MILLISECONDS = 1000;
/** So many of one message wait at most; all that come beyond are counted alone. */
const MOST_WAITING = 1000;

interface Pace {
  /** How many may be written without a wait. */
  left: number;
  /** Lines by what they say, in the order they came. */
  readonly waiting: Map<string, Line>;
  /** Not written since the last line: those beyond the most, and those that say what one that waits says. */
  suppressed: number;
}

/**
 * Writes lines, those of one message only so often. What comes too fast follows later with the time at which it was
 * said, so that each thing is in the log once; the next line that is written says in `suppressed` how many are not.
 *
 * The memory is bounded, as the messages are constants: 1000 lines of each.
 */
export class PacedLines {
  readonly #clock: Pick<Clock, "after">;
  readonly #write: (line: Line) => void;
  readonly #paces = new Map<string, Pace>();

  /** @param write for each line, before {@link add} returns or later */
  constructor(clock: Pick<Clock, "after">, write: (line: Line) => void) {
    this.#clock = clock;
    this.#write = write;
  }

  add(line: Line): void {
    const key = `${line.level} ${line.message}`;
    const pace = this.#paces.get(key) ?? this.#begin(key);
    if (pace.left > 0) {
      pace.left--;
      this.#write(line);
      return;
    }
    const text = JSON.stringify(line.fields);
    if (pace.waiting.has(text) || pace.waiting.size >= MOST_WAITING) pace.suppressed++;
    else pace.waiting.set(text, line);
  }

  #begin(key: string): Pace {
    const pace: Pace = { left: BURST, waiting: new Map(), suppressed: 0 };
    this.#paces.set(key, pace);
    this.#goOnLater(key, pace);
    return pace;
  }

  #goOnLater(key: string, pace: Pace): void {
    this.#clock.after(PAUSE_MILLISECONDS, () => {
      const [next] = pace.waiting;
      if (next === undefined) pace.left++;
      else this.#writeWaiting(pace, ...next);
      if (pace.left >= BURST) this.#paces.delete(key);
      else this.#goOnLater(key, pace);
    });
  }

  #writeWaiting(pace: Pace, text: string, line: Line): void {
    pace.waiting.delete(text);
    const { suppressed } = pace;
    pace.suppressed = 0;
    this.#write(suppressed === 0 ? line : { ...line, fields: { ...line.fields, suppressed } });
  }
}
