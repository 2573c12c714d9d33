import type { Machine } from "../machine.ts";
import { HttpApiWriter } from "../api_write/http_api_writer.ts";
import { type ApiWriter, pauseAfter, type Write, type WriteOutcome } from "../api_write/api_writer.ts";
import type { Configuration } from "../configuration/configuration.ts";
import { apiCredentials } from "../sources/open.ts";
import { ControlLoop, type NextPass } from "../lib/control_loop.ts";
import { type ClusterEvent, eventOf } from "./event.ts";
import { FairQueue } from "../lib/fair_queue.ts";
import type { Notice, NoticeSink } from "./notice.ts";
import { namespaceOf } from "../../objects/namespace_of.ts";
import { Recent } from "../lib/recent.ts";
import { type Rate, RateLimiter } from "../lib/rate_limiter.ts";

/** The rate for one object, as in client-go's spam filter: a burst, then one in five minutes. The log has them all. */
export const RATE_OF_OBJECT: Rate = { burst: 25, period: 300_000 };
/** The rate over all objects, beyond which Events wait, since every node of a cluster may report the same. */
export const RATE: Rate = { burst: 25, period: 500 };
/** The most Events that wait; beyond it the oldest of the namespace with the most is dropped. */
export const MOST_WAITING = 1000;
/** Attempts for one Event: some eight minutes while the server is away. */
export const MOST_ATTEMPTS = 12;
/** Time for which the API server keeps an Event by default; after it, a notice is reported again. */
export const REPORTED_MILLISECONDS = 3_600_000;

/** Limit for each kind of remembered item: Events, objects, namespaces. */
const MOST_REMEMBERED = 4096;
const LONGEST_REASON = 500;

/** Counts of notices by outcome. */
export type EventCounts = Readonly<Record<Fate, number>>;

export type Fate =
  | "created"
  /** Already reported, by this or another node. */
  | "known"
  /** Suppressed, because the object has too many. */
  | "suppressed"
  /** Not written: forbidden, rejected, or too many waited or failed. */
  | "dropped";

export interface EventLogParts extends Pick<Machine, "nodeName" | "clock" | "logger"> {
  readonly writer: ApiWriter;
  /** Returns a number from 0 up to 1. */
  readonly random: () => number;
}

/**
 * Reports notices to the cluster as Events, one after the other, each only once, and without blocking other work. An
 * Event that cannot be written is dropped after a while; the reporter of a notice logs it as well.
 */
export class EventLog implements NoticeSink {
  readonly #parts: EventLogParts;
  /** When each Event was reported or queued, by its namespace and name. */
  readonly #reported = new Recent<number>(MOST_REMEMBERED);
  readonly #ofObject = new Recent<RateLimiter>(MOST_REMEMBERED);
  /** Namespaces in which Events are forbidden. */
  readonly #forbidden = new Recent<true>(MOST_REMEMBERED);
  readonly #all = new RateLimiter(RATE);
  readonly #counts: Record<Fate, number> = { created: 0, known: 0, suppressed: 0, dropped: 0 };
  /** By namespace, so an author of bad objects delays only Events about that author's namespace. */
  readonly #waiting = new FairQueue<ClusterEvent>(MOST_WAITING);
  /** The Event that is being sent or waits for a retry. */
  #current: { readonly event: ClusterEvent; attempts: number } | undefined;
  readonly #loop: ControlLoop;
  #wasForbidden = false;
  /** Failures in a row, over all Events. */
  #failures = 0;
  /** The clock's time before which nothing is sent. */
  #notBefore = 0;

  constructor(parts: EventLogParts) {
    this.#parts = parts;
    this.#loop = new ControlLoop({ clock: parts.clock, pass: () => this.#send(), pause: () => this.#wait ?? 0 });
  }

  tell(notice: Notice): void {
    if (this.#loop.isStopped) return;
    const { clock, nodeName } = this.#parts;
    const now = clock.now();
    const event = eventOf(notice, nodeName, clock.time());
    const reported = this.#reported.get(idOf(event));
    if (reported !== undefined && now - reported < REPORTED_MILLISECONDS) return;
    if (!this.#takeOf(notice, now)) {
      this.#counts.suppressed++;
      return;
    }
    this.#reported.set(idOf(event), now);
    const beyond = this.#waiting.add(namespaceOf(notice.regarding.key), event);
    if (beyond !== undefined) this.#drop(beyond);
    this.#loop.run();
  }

  counts(): EventCounts {
    return { ...this.#counts };
  }

  /** Drops the waiting Events: the next daemon finds the same problems itself. */
  stop(): void {
    void this.#loop.stop();
    this.#waiting.clear();
    this.#parts.writer.stop();
  }

  #takeOf({ regarding }: Notice, now: number): boolean {
    const key = `${regarding.kind} ${regarding.key}`;
    const bucket = this.#ofObject.get(key) ?? new RateLimiter(RATE_OF_OBJECT);
    this.#ofObject.set(key, bucket);
    return bucket.take(now);
  }

  /** Milliseconds until an Event may be sent; undefined while none waits. */
  get #wait(): number | undefined {
    if (this.#current === undefined && this.#waiting.size === 0) return undefined;
    const now = this.#parts.clock.now();
    return Math.max(0, this.#notBefore - now, this.#current === undefined ? this.#all.wait(now) : 0);
  }

  /** Sends Events as long as one may be sent. @returns milliseconds until the next one */
  async #send(): Promise<NextPass> {
    const { clock, writer, random } = this.#parts;
    while (this.#wait === 0) {
      const current = (this.#current ??= this.#next());
      if (current === undefined) continue;
      const outcome = outcomeOf(await writer.write(requestOf(current.event)));
      if (this.#loop.isStopped) return undefined;
      const isFailed = outcome.type === "failed";
      this.#failures = isFailed ? this.#failures + 1 : 0;
      // After a failure the next Event waits too, since the server has just failed to take one.
      if (isFailed) this.#notBefore = clock.now() + pauseAfter(this.#failures, outcome.retryAfter, random());
      if (isFailed && ++current.attempts < MOST_ATTEMPTS) continue;
      this.#settle(current.event, outcome);
      this.#current = undefined;
    }
    return this.#wait;
  }

  /** Takes the next Event; undefined where it may not be written. */
  #next(): { readonly event: ClusterEvent; attempts: number } | undefined {
    this.#all.take(this.#parts.clock.now());
    const event = this.#waiting.take();
    if (event === undefined) return undefined;
    if (this.#forbidden.get(event.namespace) !== true) return { event, attempts: 0 };
    this.#drop(event);
    return undefined;
  }

  #settle(event: ClusterEvent, outcome: Outcome): void {
    const { logger } = this.#parts;
    switch (outcome.type) {
      case "written":
        this.#counts.created++;
        return;
      case "known":
        this.#counts.known++;
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

  /** Drops an Event and allows the same notice to be reported again. */
  #drop(event: ClusterEvent): void {
    this.#counts.dropped++;
    this.#reported.delete(idOf(event));
  }
}

function idOf({ namespace, name }: ClusterEvent): string {
  return `${namespace}/${name}`;
}

function requestOf({ namespace, body }: ClusterEvent): Write {
  const path = `/apis/events.k8s.io/v1/namespaces/${encodeURIComponent(namespace)}/events`;
  return { method: "POST", path, body };
}

/** "known": the same Event exists already. "forbidden" applies to the whole namespace of the Event. */
type Outcome = WriteOutcome | { readonly type: "known" };

function outcomeOf(outcome: WriteOutcome): Outcome {
  return outcome.status === 409 ? { type: "known" } : outcome;
}

/** Reports notices, and counts their outcomes. */
export interface Events extends NoticeSink {
  /** Undefined where there is no API server. */
  counts(): EventCounts | undefined;
  stop(): void;
}

/**
 * Opens the reporting of Events to the API server that the objects come from; notices are ignored where objects come
 * from a directory.
 *
 * @throws DrawbridgeError ERR_CONFIGURATION where no address of an API server is found
 */
export function openEvents(
  configuration: Configuration,
  { syscalls, clock, logger }: Pick<Machine, "syscalls" | "clock" | "logger">,
): Events {
  const { objectsDirectory, nodeName } = configuration;
  if (objectsDirectory !== undefined) return { tell: () => {}, counts: () => undefined, stop: () => {} };
  const writer = new HttpApiWriter(apiCredentials(configuration, syscalls), clock);
  return new EventLog({ writer, nodeName, clock, logger, random: () => Math.random() });
}
