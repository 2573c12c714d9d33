import type { Flows } from "../../../kernel/conntrack/flow_deletion.ts";
import { DrawbridgeError } from "../../../kernel/error.ts";
import type { Address } from "../../../kernel/ip/address.ts";
import type { Clock } from "../../lib/clock.ts";
import { ControlLoop } from "../../lib/control_loop.ts";
import type { Commit } from "../../ruleset/difference.ts";
import type { Logger } from "../../log/logger.ts";
import type { FrontendId } from "../elements/arbitration.ts";
import { formerFrontends } from "./former_frontends.ts";
import { FrontendIndex } from "./frontend_index.ts";
import { isStale, questionsFor } from "./staleness.ts";
import type { ServedFrontend } from "./served_frontends.ts";

export interface StaleFlowsParts {
  readonly flows: Flows;
  readonly clock: Clock;
  readonly logger: Logger;
  /** Whether an address of the node serves NodePorts. */
  readonly servesNodePorts: (address: Address) => boolean;
}

/** The work done so far. */
export interface StaleFlowsStatus {
  /** The number of deleted flows. */
  readonly deleted: number;
  /** The number of passes through the kernel's flows. */
  readonly rounds: number;
  readonly lastError: string | undefined;
}

/** The least time between two passes in a burst of changes: the kernel's table sometimes has ten thousand flows. */
const LEAST_MILLISECONDS = 1000;

/**
 * Deletes UDP flows that were decided by rules that no longer exist (SVC-27): the kernel only decides a flow by its
 * first packet, and a client that keeps its socket never begins a new one. Answered connections of TCP and SCTP end by
 * themselves; unanswered.ts deletes TCP connections that were never answered.
 *
 * Flows are checked once the rules that decide their next packet are in force. Only flows of changed frontends are
 * checked, but all of them after the whole ruleset was written, since earlier changes were not observed. The event loop
 * runs during a round, so some flows may go to endpoints that are newer than the round: those are valid.
 */
export class StaleFlows {
  readonly #parts: StaleFlowsParts;
  readonly #index = new FrontendIndex();
  #last = Number.NEGATIVE_INFINITY;
  readonly #loop: ControlLoop;
  #status: StaleFlowsStatus = { deleted: 0, rounds: 0, lastError: undefined };

  constructor(parts: StaleFlowsParts) {
    this.#parts = parts;
    const { clock } = parts;
    const pause = (): number => Math.max(0, this.#last + LEAST_MILLISECONDS - clock.now());
    this.#loop = new ControlLoop({ clock, pass: () => this.#judge(), pause });
  }

  /** Replaces a Service's UDP frontends; none for one that is gone. */
  replace(service: string, frontends: ReadonlyMap<FrontendId, ServedFrontend>): void {
    this.#index.replace(service, frontends);
  }

  /**
   * Reports that the kernel has all rules that follow from the Services set so far.
   *
   * @param commit the commit that wrote them; undefined when nothing had to be written
   */
  rulesInForce(commit: Commit | undefined): void {
    if (commit?.isWhole === true) {
      for (const [id, frontend] of formerFrontends(commit.differences)) {
        this.#index.suspect(id, frontend, frontend.targets);
      }
      this.#index.suspectAll();
    }
    this.#index.ripen();
    if (this.#index.isRipe) this.#loop.enqueue();
  }

  status(): StaleFlowsStatus {
    return this.#status;
  }

  problems(): readonly string[] {
    const { lastError } = this.#status;
    return lastError === undefined ? [] : [`stale UDP flows: ${lastError}; it is tried again`];
  }

  stop(): void {
    void this.#loop.stop();
  }

  async #judge(): Promise<number | undefined> {
    const { flows, clock, logger, servesNodePorts } = this.#parts;
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
    this.#last = clock.now();
    return this.#index.isRipe ? LEAST_MILLISECONDS : undefined;
  }
}
