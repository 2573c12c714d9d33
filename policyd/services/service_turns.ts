import { namespaceOf } from "../../objects/namespace_of.ts";
import type { Cancel, Clock } from "../lib/clock.ts";
import { FairQueue } from "../lib/fair_queue.ts";
import type { Slices } from "../lib/sliced_work.ts";

/** The bounds of a turn. The kernel has its elements before the next turn begins. */
export interface TurnBounds {
  readonly milliseconds: number;
  readonly elements: number;
  /** The number of elements above which each frontend of a Service is claimed by itself. */
  readonly large: number;
}

const TURN: TurnBounds = { milliseconds: 20, elements: 2000, large: 1024 };

export interface ServiceTurnsParts {
  readonly clock: Pick<Clock, "after" | "now">;
  /** The bounds of the turns; absent for the usual ones. */
  readonly turn?: TurnBounds;
}

/** The work on one Service. */
interface Job {
  readonly key: string;
  version: unknown;
  /** Undefined until it begins. */
  work?: Slices<void> | undefined;
  /** Whether the work has to be done once more. */
  isOutdated?: boolean;
}

/**
 * The work on Services that have changed. Namespaces take turns, and one turn is in force before the next: the change
 * of a small Service waits for a part of a large one, not for all of it.
 */
export class ServiceTurns {
  readonly #clock: ServiceTurnsParts["clock"];
  readonly #bounds: TurnBounds;
  readonly #begin: (key: string) => Slices<void>;
  readonly #work: () => void;
  readonly #jobs = new Map<string, Job>();
  readonly #queue = new FairQueue<Job>(Number.POSITIVE_INFINITY);
  /** Until all objects are read, nothing is in force, and a turn has no end. */
  #isBounded = false;
  #elements = 0;
  /** The next turn, if there is one, waits until the kernel has the last one, or for the event loop. */
  #next: "kernel" | Cancel | undefined;

  /**
   * @param begin begins the work on a Service
   * @param work calls {@link work}
   */
  constructor({ clock, turn = TURN }: ServiceTurnsParts, begin: (key: string) => Slices<void>, work: () => void) {
    this.#clock = clock;
    this.#bounds = turn;
    this.#begin = begin;
    this.#work = work;
  }

  /** Whether a Service of this size is claimed frontend by frontend. */
  isLarge(elements: number): boolean {
    return elements > this.#bounds.large;
  }

  /** The number of Services that have to be worked on. */
  get size(): number {
    return this.#jobs.size;
  }

  /**
   * Queues the work on a Service. Work that has begun begins again if the version has changed. Otherwise it is done
   * once more afterwards: a large Service whose slices change all the time comes to its last frontend all the same.
   */
  add(key: string, version: unknown): void {
    const job = this.#jobs.get(key);
    if (job === undefined) {
      const next = { key, version };
      this.#jobs.set(key, next);
      this.#queue.add(namespaceOf(key), next);
    } else if (job.version === version) job.isOutdated = job.work !== undefined;
    else {
      job.work = undefined;
      job.version = version;
    }
  }

  /** Notes that elements are claimed or given up. */
  claimed(elements: number): void {
    this.#elements += elements;
  }

  /** Bounds the turns from now on: all objects have been read. */
  begin(): void {
    this.#isBounded = true;
  }

  /** Works for one turn, unless the kernel does not have the last one yet. */
  work(): void {
    if (this.#next !== undefined) return;
    const { milliseconds, elements } = this.#bounds;
    const end = this.#clock.now() + milliseconds;
    this.#elements = 0;
    const isOver = (): boolean => this.#isBounded && (this.#elements >= elements || this.#clock.now() >= end);
    for (let job = this.#queue.take(); job !== undefined; job = isOver() ? undefined : this.#queue.take()) {
      const work = (job.work ??= this.#begin(job.key));
      let isDone = work.next().done === true;
      while (!isDone && !isOver()) isDone = work.next().done === true;
      // The work itself may have asked for another version of it.
      isDone &&= job.work === work;
      if (isDone) this.#jobs.delete(job.key);
      else this.#queue.add(namespaceOf(job.key), job);
      if (isDone && job.isOutdated === true) this.add(job.key, job.version);
    }
    if (this.#queue.size > 0) this.#next = "kernel";
  }

  /** Notes that the kernel has everything that was claimed. */
  inForce(): void {
    if (this.#next !== "kernel") return;
    this.#next = this.#clock.after(0, () => {
      this.#next = undefined;
      this.#work();
    });
  }

  stop(): void {
    if (typeof this.#next === "function") this.#next();
  }
}
