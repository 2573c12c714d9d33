import type { ConntrackFilter } from "../../../kernel/conntrack/filter.ts";
import type { FlowTuples } from "../../../kernel/conntrack/flow_tuples.ts";
import { DrawbridgeError } from "../../../kernel/error.ts";
import type { Address } from "../../../kernel/ip/address.ts";
import type { Cancel, Clock } from "../../clock.ts";
import type { Commit } from "../../dataplane/commit.ts";
import type { Logger } from "../../log/logger.ts";
import type { FrontendId } from "../compile/arbitration.ts";
import { formerFrontends } from "./former_frontends.ts";
import { FrontendIndex } from "./frontend_index.ts";
import { isStale, questionsFor } from "./staleness.ts";
import type { ServedFrontend } from "./served_frontends.ts";

/** The kernel's flows, of the node's network namespace. */
export interface Flows {
  /**
   * Deletes flows.
   *
   * @param asked what the kernel is asked for, one list each
   * @returns how many there were
   * @throws DrawbridgeError (by the promise) when the kernel refuses
   */
  delete(asked: readonly ConntrackFilter[], isMeant: (flow: FlowTuples) => boolean): Promise<number>;
  /** The node's own addresses. @throws DrawbridgeError when the kernel refuses */
  nodeAddresses(): ReadonlySet<Address>;
}

export interface StaleFlowsParts {
  readonly flows: Flows;
  readonly clock: Clock;
  readonly logger: Logger;
  /** Whether an address of the node serves NodePorts. */
  readonly servesNodePorts: (address: Address) => boolean;
}

/** What has been done so far. */
export interface StaleFlowsStatus {
  /** Flows that were deleted. */
  readonly deleted: number;
  /** Times the kernel's flows were gone through. */
  readonly rounds: number;
  readonly lastError: string | undefined;
}

/** In a burst the kernel's table, of some ten thousand flows at times, is gone through once in this time. */
const LEAST_MILLISECONDS = 1000;

/**
 * Forgets UDP flows that were decided by rules that are no more (SVC-27): the kernel decides a flow by its first packet
 * alone, and a client that goes on from its socket never makes a new one. Answered connections of TCP and
 * SCTP end by themselves; unanswered.ts forgets TCP connections that were never answered.
 *
 * Flows are judged when the rules that decide their next packet are in force, of the frontends that changed alone; all of
 * them after the rules were written as a whole, since what happened before that nobody has seen. Others do their work during
 * a round, so that there are flows to endpoints that are newer than it: those are in order.
 */
export class StaleFlows {
  readonly #parts: StaleFlowsParts;
  readonly #index = new FrontendIndex();
  #last = Number.NEGATIVE_INFINITY;
  #timer: Cancel | undefined;
  #isRunning = false;
  #isStopped = false;
  #status: StaleFlowsStatus = { deleted: 0, rounds: 0, lastError: undefined };

  constructor(parts: StaleFlowsParts) {
    this.#parts = parts;
  }

  /** Takes over a Service's UDP frontends as they are now; none for one that is gone. */
  replace(service: string, frontends: ReadonlyMap<FrontendId, ServedFrontend>): void {
    this.#index.replace(service, frontends);
  }

  /**
   * The kernel has all rules that follow from what was told by now.
   *
   * @param commit by what it got them; undefined when nothing had to be written
   */
  rulesInForce(commit: Commit | undefined): void {
    if (commit?.isWhole === true) {
      for (const [id, frontend] of formerFrontends(commit.differences)) {
        this.#index.suspect(id, frontend, frontend.targets);
      }
      this.#index.suspectAll();
    }
    this.#index.ripen();
    this.#schedule();
  }

  status(): StaleFlowsStatus {
    return this.#status;
  }

  problems(): readonly string[] {
    const { lastError } = this.#status;
    return lastError === undefined ? [] : [`stale UDP flows: ${lastError}; it is tried again`];
  }

  stop(): void {
    this.#isStopped = true;
    this.#timer?.();
  }

  #schedule(): void {
    const { clock } = this.#parts;
    const isBusy = this.#isStopped || this.#isRunning || this.#timer !== undefined;
    if (isBusy || !this.#index.isRipe) return;
    const wait = Math.max(0, this.#last + LEAST_MILLISECONDS - clock.now());
    this.#timer = clock.after(wait, () => {
      this.#timer = undefined;
      void this.#judge();
    });
  }

  async #judge(): Promise<void> {
    const { flows, clock, logger, servesNodePorts } = this.#parts;
    this.#isRunning = true;
    const suspicions = this.#index.take();
    try {
      const frontends = [...suspicions.values()].map(({ frontend }) => frontend);
      const hasNodePort = frontends.some(({ frontend }) => frontend.type === "node port");
      const own = hasNodePort ? flows.nodeAddresses() : new Set<Address>();
      const judgement = {
        suspicions,
        isFrontend: (id: FrontendId) => this.#index.has(id),
        isTarget: (id: FrontendId, target: string) => this.#index.hasTarget(id, target),
        servesNodePorts: (address: Address) => own.has(address) && servesNodePorts(address),
      };
      const deleted = await flows.delete(questionsFor(frontends), (flow) => isStale(flow, judgement));
      this.#status = { deleted: this.#status.deleted + deleted, rounds: this.#status.rounds + 1, lastError: undefined };
      if (deleted > 0) logger.debug("stale UDP flows are forgotten", { flows: deleted });
    } catch (error) {
      if (!(error instanceof DrawbridgeError)) throw error;
      this.#index.putBack(suspicions);
      this.#status = { ...this.#status, lastError: error.message };
      logger.error("stale UDP flows are not forgotten; it is tried again", { error: error.message });
    }
    this.#isRunning = false;
    this.#last = clock.now();
    this.#schedule();
  }
}
