import { ConntrackStatus } from "../../../kernel/conntrack/entry.ts";
import type { FlowTuples } from "../../../kernel/conntrack/flow_tuples.ts";
import { DrawbridgeError } from "../../../kernel/error.ts";
import type { Cancel, Clock } from "../../clock.ts";
import type { Commit } from "../../dataplane/commit.ts";
import type { Logger } from "../../log/logger.ts";
import type { FrontendId } from "../compile/arbitration.ts";
import { frontendId } from "../compile/arbitration.ts";
import { socketText } from "../compile/socket_address.ts";
import type { FrontendTargets } from "./former_frontends.ts";
import { lostTargets } from "./former_frontends.ts";
import type { Flows } from "./stale_flows.ts";
import { questionsFor } from "./staleness.ts";

/** The parts of {@link UnansweredConnections}. */
export interface UnansweredConnectionsParts {
  readonly flows: Pick<Flows, "delete">;
  readonly clock: Clock;
  readonly logger: Logger;
}

/**
 * The time between two walks through the kernel's flows, in milliseconds. A walk is about endpoints whose rules were removed one to
 * two periods before it: a server that has answered by then keeps its connections.
 */
const PERIOD = 3000;

/** No packet has been seen from the server. */
const UNANSWERED = { value: 0, mask: ConntrackStatus.SEEN_REPLY } as const;

type Lost = ReadonlyMap<FrontendId, FrontendTargets>;

/**
 * Forgets TCP connections whose endpoint never answered and has gone since, for example because its node lost power (SVC-30).
 *
 * The kernel keeps the entry of such a connection for two minutes (`nf_conntrack_tcp_timeout_syn_sent`). By that entry every
 * repeated SYN goes to the same endpoint, and so does every new connection from the same port of the client. Without the entry the
 * next SYN goes to an endpoint that is there.
 */
export class UnansweredConnections {
  readonly #parts: UnansweredConnectionsParts;
  /** The endpoints that were lost since the last walk. */
  #fresh: Lost = new Map();
  /** Those that were lost before it: the next walk is about them. */
  #waiting: Lost = new Map();
  #timer: Cancel | undefined;
  #isStopped = false;
  #deleted = 0;
  #lastError: string | undefined;

  constructor(parts: UnansweredConnectionsParts) {
    this.#parts = parts;
  }

  /** Takes the endpoints that a commit took away. */
  rulesInForce(commit: Commit | undefined): void {
    if (commit === undefined) return;
    const lost = lostTargets(commit.differences);
    if (lost.size === 0) return;
    this.#fresh = joined(this.#fresh, lost);
    this.#schedule();
  }

  /** How many connections were deleted so far. */
  get deleted(): number {
    return this.#deleted;
  }

  problems(): readonly string[] {
    return this.#lastError === undefined ? [] : [`unanswered connections: ${this.#lastError}; it is tried again`];
  }

  stop(): void {
    this.#isStopped = true;
    this.#timer?.();
  }

  #schedule(): void {
    const isDone = this.#fresh.size === 0 && this.#waiting.size === 0;
    if (this.#isStopped || this.#timer !== undefined || isDone) return;
    this.#timer = this.#parts.clock.after(PERIOD, () => void this.#walk());
  }

  async #walk(): Promise<void> {
    const { flows, logger } = this.#parts;
    const lost = this.#waiting;
    this.#waiting = this.#fresh;
    this.#fresh = new Map();
    try {
      const asked = questionsFor(lost.values(), { protocol: "tcp", status: UNANSWERED });
      const deleted = await flows.delete(asked, (flow) => isLost(flow, lost));
      this.#deleted += deleted;
      this.#lastError = undefined;
      if (deleted > 0) logger.debug("unanswered connections to endpoints that have gone are forgotten", { deleted });
    } catch (error) {
      if (!(error instanceof DrawbridgeError)) throw error;
      this.#waiting = joined(this.#waiting, lost);
      this.#lastError = error.message;
      logger.error("unanswered connections are not forgotten; it is tried again", { error: error.message });
    }
    this.#timer = undefined;
    this.#schedule();
  }
}

/** Whether a connection goes from a frontend to an endpoint that the frontend has lost. */
function isLost({ family, original, reply }: FlowTuples, lost: Lost): boolean {
  const { destination: address, destinationPort: port } = original;
  if (port === undefined || reply.sourcePort === undefined) return false;
  const target = socketText({ address: reply.source, port: reply.sourcePort });
  return [{ type: "cluster", address, port } as const, { type: "node port", port } as const].some(
    (frontend) => lost.get(frontendId(frontend, "TCP", family))?.targets.has(target) === true,
  );
}

function joined(one: Lost, other: Lost): Lost {
  const all = new Map(one);
  for (const [id, entry] of other) {
    all.set(id, { ...entry, targets: new Set([...(all.get(id)?.targets ?? []), ...entry.targets]) });
  }
  return all;
}
