import type { FlowTuples } from "../../../kernel/conntrack/flow_tuples.ts";
import { DrawbridgeError } from "../../../kernel/error.ts";
import { type Address, FAMILIES } from "../../../kernel/ip/address.ts";
import { ControlLoop } from "../../lib/control_loop.ts";
import { inTurns, type Slices } from "../../lib/sliced_work.ts";
import type { Commit } from "../../ruleset/difference.ts";
import { type FrontendId, frontendId } from "../elements/arbitration.ts";
import { socketText } from "../elements/socket_address.ts";
import type { ServedService } from "../service_follower.ts";
import { type Targets, targetsIn } from "./former_frontends.ts";
import type { UnansweredConnectionsParts } from "./unanswered.ts";
import { type ServedServices, servedFrontends, type TargetsOf } from "./served_frontends.ts";

export interface StaleFlowsParts extends Omit<UnansweredConnectionsParts, "targetsOf"> {
  readonly services: ServedServices;
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

const QUESTIONS = FAMILIES.map((family) => ({ family, protocol: "udp" }) as const);
/** A former state counts with all frontends that the Service claimed: other Services may have taken some since. */
const WITHOUT_RIVALS: Pick<ServedService["holders"], "rival"> = { rival: () => undefined };

/**
 * Deletes UDP flows that were decided by rules that no longer exist (SVC-27): the kernel only decides a flow by its
 * first packet, and a client that keeps its socket never begins a new one. Answered connections of TCP and SCTP end by
 * themselves; unanswered.ts deletes TCP connections that were never answered.
 *
 * Flows are checked once the rules that decide their next packet are in force: all of them when a Service with a UDP
 * port has changed, and after the whole ruleset was written, since earlier changes were not observed. The event loop
 * runs during a round, so flows are judged by the Services at the moment, and the next round checks what has changed
 * meanwhile.
 */
export class StaleFlows {
  readonly #parts: StaleFlowsParts;
  /** States of changed Services, the present ones included: those whose rules are in force (ripe), and the others. */
  #ripe = new Set<ServedService>();
  #unripe = new Set<ServedService>();
  /** Whether flows are to be checked. */
  #isDue = false;
  /** Frontends that are gone, with the endpoints that they had; those of `#ripe` are still to be added. */
  #gone = new Map<FrontendId, ReadonlySet<string>>();
  #last = Number.NEGATIVE_INFINITY;
  readonly #loop: ControlLoop;
  #status: StaleFlowsStatus = { deleted: 0, rounds: 0, lastError: undefined };

  constructor(parts: StaleFlowsParts) {
    this.#parts = parts;
    const { clock } = parts;
    const pause = (): number => Math.max(0, this.#last + LEAST_MILLISECONDS - clock.now());
    this.#loop = new ControlLoop({ clock, pass: () => this.#judge(), pause });
  }

  /** Replaces a Service; undefined for one that is gone. */
  replace(key: string, served: ServedService | undefined): void {
    for (const state of [this.#parts.services.replace(key, served), served]) {
      if (state?.service.ports.some(({ protocol }) => protocol === "UDP") === true) this.#unripe.add(state);
    }
  }

  /**
   * Reports that the kernel has all rules that follow from the Services set so far.
   *
   * @param commit the commit that wrote them; undefined when nothing had to be written
   */
  rulesInForce(commit: Commit | undefined): void {
    if (commit?.isWhole === true) {
      this.#isDue = true;
      // Endpoints that the first batch of a daemon deletes ended while no daemon was running.
      this.#addGone(targetsIn(commit.differences, "deleted", "UDP"));
    }
    for (const state of this.#unripe) this.#ripe.add(state);
    this.#unripe.clear();
    this.#isDue ||= this.#ripe.size > 0;
    if (this.#isDue) this.#loop.enqueue();
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
    const { services, flows, clock, logger, servesNodePorts } = this.#parts;
    const targetsOf = services.targetsOf("UDP");
    this.#isDue = false;
    await inTurns(this.#lookForGone(targetsOf));
    const gone = this.#gone;
    this.#gone = new Map();
    try {
      const own = flows.nodeAddresses();
      const servesPorts = (address: Address): boolean => own.has(address) && servesNodePorts(address);
      const judgement = { gone, targetsOf, servesNodePorts: servesPorts };
      const deleted = await flows.delete(QUESTIONS, (flow) => isStale(flow, judgement));
      this.#status = { deleted: this.#status.deleted + deleted, rounds: this.#status.rounds + 1, lastError: undefined };
      if (deleted > 0) logger.debug("stale UDP flows are forgotten", { flows: deleted });
    } catch (error) {
      if (!(error instanceof DrawbridgeError)) throw error;
      this.#isDue = true;
      this.#addGone(gone);
      this.#status = { ...this.#status, lastError: error.message };
      logger.error("stale UDP flows are not forgotten; it is tried again", { error: error.message });
    }
    this.#last = clock.now();
    return this.#isDue ? LEAST_MILLISECONDS : undefined;
  }

  *#lookForGone(targetsOf: TargetsOf): Slices<void> {
    const states = this.#ripe;
    this.#ripe = new Set();
    for (const state of states) {
      for (const [id, targets] of yield* servedFrontends(state, "UDP", WITHOUT_RIVALS)) {
        if (targetsOf(id) === undefined) this.#addGone([[id, targets()]]);
        yield;
      }
    }
  }

  #addGone(gone: Iterable<readonly [FrontendId, ReadonlySet<string>]>): void {
    for (const [id, targets] of gone) this.#gone.set(id, new Set([...(this.#gone.get(id) ?? []), ...targets]));
  }
}

/** The facts by which flows are checked. */
interface Judgement {
  readonly gone: Targets;
  readonly targetsOf: TargetsOf;
  /** Whether an address serves NodePorts: it is the node's own, and one of `nodePortAddresses`. */
  readonly servesNodePorts: (address: Address) => boolean;
}

/**
 * Returns whether a UDP flow was decided by a state that no longer exists, and has to be deleted so that the client's
 * next packet is decided again (SVC-27). A flow's frontend is found as by the rules: by address first, then by port
 * (SVC-18).
 *
 * - If the Service has the flow's endpoint, the flow is valid, even while the endpoint terminates (TERM-04).
 * - A flow to no endpoint was created when the frontend had none or did not exist: it is stale once the frontend has
 *   one.
 * - A flow that was translated to anything else is stale. If the frontend is gone, it is stale only if it went to one
 *   of the frontend's endpoints: another program's translations are not ours.
 */
function isStale({ family, original, reply }: FlowTuples, judgement: Judgement): boolean {
  const { gone, targetsOf, servesNodePorts } = judgement;
  const { destination: address, destinationPort: port } = original;
  if (port === undefined || reply.sourcePort === undefined) return false;
  const byAddress = frontendId({ type: "cluster", address, port }, "UDP", family);
  const isByAddress = targetsOf(byAddress) !== undefined || gone.has(byAddress);
  if (!isByAddress && !servesNodePorts(address)) return false;
  const id = isByAddress ? byAddress : frontendId({ type: "node port", port }, "UDP", family);
  const targets = targetsOf(id);
  const target = socketText({ address: reply.source, port: reply.sourcePort });
  const isTranslated = reply.source !== address || reply.sourcePort !== port;
  if (targets === undefined) return isTranslated && gone.get(id)?.has(target) === true;
  return !targets.has(target) && (isTranslated || targets.size > 0);
}
