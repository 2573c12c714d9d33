import process from "node:process";
import { ownWait } from "./processor_wait.ts";

/** The time in milliseconds between two checks. Permanent checks would take a processor from the watched work. */
const PERIOD = 1;

/** The longest turns of an event loop, in milliseconds. */
export interface LongestTurns {
  /** The longest turn by the clock, in which everything else had to wait, for whatever reason. */
  readonly longestTurn: number;
  /** The part of that turn in which this thread was ready and had no processor. */
  readonly longestWaited: number;
  /** The largest processor time of this thread in one turn, in which it worked itself. */
  readonly longestProcessor: number;
}

/** The times of a thread so far, in milliseconds. */
export interface ThreadTimes {
  readonly processor: number;
  readonly waited: number;
}

const NOTHING: LongestTurns = { longestTurn: 0, longestWaited: 0, longestProcessor: 0 };

/**
 * Watches this thread's event loop: how long each of its turns keeps everything else waiting. The pause of a
 * millisecond between two checks counts as part of a turn.
 */
export class LoopMonitor {
  readonly #now: () => number;
  readonly #times: () => ThreadTimes;
  #next: NodeJS.Timeout | undefined;
  #last: number;
  #before: ThreadTimes;
  #longest = NOTHING;

  /** @param now milliseconds */
  constructor(now: () => number = () => performance.now(), times: () => ThreadTimes = timesOfThisThread()) {
    this.#now = now;
    this.#times = times;
    this.#last = now();
    this.#before = times();
    this.#watch();
  }

  /** Resets the longest turns. */
  reset(): void {
    this.#note();
    this.#longest = NOTHING;
  }

  /** Ends the monitor. @returns the longest turns, the present one included */
  stop(): LongestTurns {
    clearTimeout(this.#next);
    this.#note();
    return this.#longest;
  }

  #watch(): void {
    this.#next = setTimeout(() => {
      this.#note();
      this.#watch();
    }, PERIOD);
  }

  #note(): void {
    const [now, times] = [this.#now(), this.#times()];
    const turn = now - this.#last;
    const { longestTurn, longestWaited, longestProcessor } = this.#longest;
    const isLongest = turn > longestTurn;
    this.#longest = {
      longestTurn: isLongest ? turn : longestTurn,
      longestWaited: isLongest ? times.waited - this.#before.waited : longestWaited,
      longestProcessor: Math.max(longestProcessor, times.processor - this.#before.processor),
    };
    this.#last = now;
    this.#before = times;
  }
}

function timesOfThisThread(): () => ThreadTimes {
  const waited = ownWait();
  return () => {
    const { user, system } = process.threadCpuUsage();
    return { processor: (user + system) / 1000, waited: waited() };
  };
}
