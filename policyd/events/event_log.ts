import { pauseAfter } from "../api_write/pause.ts";
import type { Cancel, Clock } from "../clock.ts";
import type { Logger } from "../log/logger.ts";
import type { ClusterEvent } from "./event.ts";
import { eventOf } from "./event.ts";
import { FairQueue } from "../fair_queue.ts";
import type { Notice, NoticeSink } from "./notice.ts";
import { namespaceOf } from "../cluster/namespace_of.ts";
import { Recent } from "../recent.ts";
import type { Rate } from "../token_bucket.ts";
import { TokenBucket } from "../token_bucket.ts";
import type { EventWriter, Outcome } from "./writer.ts";

/** As client-go's spam filter has it: of one object so many, then one in five minutes. The log has them all. */
export const RATE_OF_OBJECT: Rate = { burst: 25, period: 300_000 };
/** Of all: what comes faster waits. Every node of a cluster may have the same to tell. */
export const RATE: Rate = { burst: 25, period: 500 };
/** The most Events that wait; the oldest of the namespace with the most goes then. */
export const MOST_WAITING = 1000;
/** An Event is tried so often: some eight minutes when the server is away. */
export const MOST_ATTEMPTS = 12;
/** The API server keeps an Event so long by default; then it may be told again. */
export const TOLD_MILLISECONDS = 3_600_000;

/** Of what is remembered: Events, objects, namespaces. */
const MOST_REMEMBERED = 4096;
const LONGEST_REASON = 500;

/** What became of notices so far. */
export type EventCounts = Readonly<Record<Fate, number>>;

export type Fate =
  | "created"
  /** Somebody had told it before. */
  | "known"
  /** Too many of one object. */
  | "suppressed"
  /** Not written: no right to, not taken, or too many waited or failed. */
  | "dropped";

export interface EventLogParts {
  readonly writer: EventWriter;
  readonly nodeName: string;
  readonly clock: Clock;
  readonly logger: Logger;
  /** From 0 up to 1. */
  readonly random: () => number;
}

/**
 * Tells the cluster notices as Events, one after the other: each once, and never at the cost of anything else. What
 * cannot be told is dropped after a while; whoever tells a notice has it in the log as well.
 */
export class EventLog implements NoticeSink {
  readonly #parts: EventLogParts;
  /** When what was told, or waits to be, by namespace and name of the Event. */
  readonly #told = new Recent<number>(MOST_REMEMBERED);
  readonly #ofObject = new Recent<TokenBucket>(MOST_REMEMBERED);
  /** Namespaces in which nothing may be written. */
  readonly #forbidden = new Recent<true>(MOST_REMEMBERED);
  readonly #all = new TokenBucket(RATE);
  readonly #counts: Record<Fate, number> = { created: 0, known: 0, suppressed: 0, dropped: 0 };
  /** By namespace: who writes bad objects in a loop delays only Events about its own. */
  readonly #waiting = new FairQueue<ClusterEvent>(MOST_WAITING);
  /** Whether an Event is on its way, or waits to be tried again. */
  #isBusy = false;
  #isStopped = false;
  #wasForbidden = false;
  /** In a row, of whichever Events. */
  #failures = 0;
  #cancel: Cancel = () => {};

  constructor(parts: EventLogParts) {
    this.#parts = parts;
  }

  tell(notice: Notice): void {
    if (this.#isStopped) return;
    const { clock, nodeName } = this.#parts;
    const now = clock.now();
    const event = eventOf(notice, nodeName, clock.time());
    const told = this.#told.get(idOf(event));
    if (told !== undefined && now - told < TOLD_MILLISECONDS) return;
    if (!this.#takeOf(notice, now)) {
      this.#counts.suppressed++;
      return;
    }
    this.#told.set(idOf(event), now);
    const beyond = this.#waiting.add(namespaceOf(notice.regarding.key), event);
    if (beyond !== undefined) this.#drop(beyond);
    this.#goOn();
  }

  counts(): EventCounts {
    return { ...this.#counts };
  }

  /** What waits is not told: the next daemon finds it out itself. */
  stop(): void {
    this.#isStopped = true;
    this.#cancel();
    this.#waiting.clear();
    this.#parts.writer.stop();
  }

  #takeOf({ regarding }: Notice, now: number): boolean {
    const key = `${regarding.kind} ${regarding.key}`;
    const bucket = this.#ofObject.get(key) ?? new TokenBucket(RATE_OF_OBJECT);
    this.#ofObject.set(key, bucket);
    return bucket.take(now);
  }

  #goOn(): void {
    if (this.#isBusy || this.#isStopped) return;
    const { clock } = this.#parts;
    if (this.#waiting.size === 0) return;
    this.#isBusy = true;
    const wait = this.#all.wait(clock.now());
    if (wait > 0) {
      this.#later(wait, () => this.#free());
      return;
    }
    this.#all.take(clock.now());
    const event = this.#waiting.take();
    if (event !== undefined) void this.#write(event, 1);
  }

  #free(): void {
    this.#isBusy = false;
    this.#goOn();
  }

  async #write(event: ClusterEvent, attempt: number): Promise<void> {
    if (this.#forbidden.get(event.namespace) === true) {
      this.#drop(event);
      this.#free();
      return;
    }
    const outcome = await this.#parts.writer.create(event);
    if (this.#isStopped) return;
    this.#failures = outcome.type === "failed" ? this.#failures + 1 : 0;
    if (outcome.type === "failed" && attempt < MOST_ATTEMPTS) {
      this.#later(this.#pause(outcome.retryAfter), () => void this.#write(event, attempt + 1));
      return;
    }
    this.#settle(event, outcome);
    // The next one is not tried at once by the one whom the server has just sent away.
    if (outcome.type === "failed") this.#later(this.#pause(outcome.retryAfter), () => this.#free());
    else this.#free();
  }

  #settle(event: ClusterEvent, outcome: Outcome): void {
    const { logger } = this.#parts;
    switch (outcome.type) {
      case "created":
      case "known":
        this.#counts[outcome.type]++;
        return;
      case "forbidden":
        this.#drop(event);
        this.#forbidden.set(event.namespace, true);
        if (this.#wasForbidden) return;
        this.#wasForbidden = true;
        logger.warn("Kubernetes Events may not be written; what they would say is in the log", {
          namespace: event.namespace,
          reason: outcome.reason.slice(0, LONGEST_REASON),
          expected: "the verb create on events.events.k8s.io: look at policyd's ClusterRole, then restart policyd",
        });
        return;
      case "rejected":
      case "failed":
        this.#drop(event);
        logger.warn(
          "Kubernetes Event not written",
          {
            namespace: event.namespace,
            event: event.name,
            reason: outcome.reason.slice(0, LONGEST_REASON),
          },
          event.namespace,
        );
    }
  }

  /** It may be told again. */
  #drop(event: ClusterEvent): void {
    this.#counts.dropped++;
    this.#told.delete(idOf(event));
  }

  #pause(retryAfter: number | undefined): number {
    return pauseAfter(this.#failures, retryAfter, this.#parts.random());
  }

  #later(milliseconds: number, action: () => void): void {
    this.#cancel = this.#parts.clock.after(milliseconds, action);
  }
}

function idOf({ namespace, name }: ClusterEvent): string {
  return `${namespace}/${name}`;
}
