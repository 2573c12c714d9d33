import { ConntrackStatus } from "../../../kernel/conntrack/entry.ts";
import type { ConntrackFilter } from "../../../kernel/conntrack/filter.ts";
import type { FlowTuples } from "../../../kernel/conntrack/flow_tuples.ts";
import { DrawbridgeError } from "../../../kernel/error.ts";
import type { Address } from "../../../kernel/ip/address.ts";
import type { Cancel, Clock } from "../../clock.ts";
import type { Commit } from "../../dataplane/commit.ts";
import type { Logger } from "../../log/logger.ts";
import type { FrontendId } from "../compile/arbitration.ts";
import { frontendId } from "../compile/arbitration.ts";
import { socketText } from "../compile/socket_address.ts";
import type { FrontendTargets } from "./former_frontends.ts";
import { lostTargets, newFrontends } from "./former_frontends.ts";
import type { Flows } from "./stale_flows.ts";
import { questionsFor } from "./staleness.ts";

/** The parts of {@link UnansweredConnections}. */
export interface UnansweredConnectionsParts {
  readonly flows: Flows;
  readonly clock: Clock;
  readonly logger: Logger;
  /** Whether any Service has a frontend, now. */
  readonly isFrontend: (id: FrontendId) => boolean;
  /** Whether an address of the node serves NodePorts. */
  readonly servesNodePorts: (address: Address) => boolean;
}

/**
 * The least time between two walks through the kernel's flows, in milliseconds. A walk is about endpoints whose rules were removed
 * one to two periods before it: a server that has answered by then keeps its connections. Frontends that are new do not wait.
 */
const PERIOD = 3000;

/** No packet has been seen from the server. */
const UNANSWERED = { value: 0, mask: ConntrackStatus.SEEN_REPLY } as const;

type Lost = ReadonlyMap<FrontendId, FrontendTargets>;

/** The frontends that are new: all of them after a start, since rules may have been missing before it. */
type New = ReadonlyMap<FrontendId, FrontendTargets> | "all";

/**
 * Forgets TCP connections that were never answered and would be no more (SVC-30): those whose endpoint has gone since, for
 * example because its node lost power, and those that were begun before their frontend was translated, for example while the
 * add-on was not installed.
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
  /** The frontends that are new since the last walk. */
  #new: New = new Map();
  #last = Number.NEGATIVE_INFINITY;
  #timer: Cancel | undefined;
  #isStopped = false;
  #deleted = 0;
  #lastError: string | undefined;

  constructor(parts: UnansweredConnectionsParts) {
    this.#parts = parts;
  }

  /** Takes the endpoints that a commit took away, and the frontends that it made. */
  rulesInForce(commit: Commit | undefined): void {
    if (commit === undefined) return;
    this.#fresh = joined(this.#fresh, lostTargets(commit.differences));
    this.#new = commit.isWhole ? "all" : joinedNew(this.#new, newFrontends(commit.differences));
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
    const { clock } = this.#parts;
    const hasNew = this.#new === "all" || this.#new.size > 0;
    const isDone = this.#fresh.size === 0 && this.#waiting.size === 0 && !hasNew;
    if (this.#isStopped || this.#timer !== undefined || isDone) return;
    const wait = hasNew ? Math.max(0, this.#last + PERIOD - clock.now()) : PERIOD;
    this.#timer = clock.after(wait, () => void this.#walk());
  }

  async #walk(): Promise<void> {
    const { flows, clock, logger } = this.#parts;
    const [lost, begun] = [this.#waiting, this.#new];
    this.#waiting = this.#fresh;
    this.#fresh = new Map();
    this.#new = new Map();
    try {
      const asked = questions(lost, begun);
      const isUntranslated = asked.length === 0 ? undefined : this.#untranslated(begun);
      const deleted = await flows.delete(asked, (flow) => isLost(flow, lost) || isUntranslated?.(flow) === true);
      this.#deleted += deleted;
      this.#lastError = undefined;
      if (deleted > 0) logger.debug("connections that nobody answers are forgotten", { deleted });
    } catch (error) {
      if (!(error instanceof DrawbridgeError)) throw error;
      this.#waiting = joined(this.#waiting, lost);
      this.#new = joinedNew(begun, this.#new);
      this.#lastError = error.message;
      logger.error("unanswered connections are not forgotten; it is tried again", { error: error.message });
    }
    this.#last = clock.now();
    this.#timer = undefined;
    this.#schedule();
  }

  /** Returns whether a connection to one of these frontends went to the frontend's own address and port. */
  #untranslated(begun: New): (flow: FlowTuples) => boolean {
    const { flows, isFrontend, servesNodePorts } = this.#parts;
    const own = flows.nodeAddresses();
    const isNew = (id: FrontendId): boolean => (begun === "all" ? isFrontend(id) : begun.has(id));
    return ({ family, original, reply }) => {
      const { destination: address, destinationPort: port } = original;
      if (port === undefined || reply.source !== address || reply.sourcePort !== port) return false;
      if (isNew(frontendId({ type: "cluster", address, port }, "TCP", family))) return true;
      return (
        isNew(frontendId({ type: "node port", port }, "TCP", family)) && own.has(address) && servesNodePorts(address)
      );
    };
  }
}

function questions(lost: Lost, begun: New): readonly ConntrackFilter[] {
  const wanted = { protocol: "tcp", status: UNANSWERED } as const;
  if (begun === "all") return ([4, 6] as const).map((family) => ({ family, ...wanted }));
  return questionsFor([...lost.values(), ...begun.values()], wanted);
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

function joinedNew(one: New, other: New): New {
  return one === "all" || other === "all" ? "all" : new Map([...one, ...other]);
}

function joined(one: Lost, other: Lost): Lost {
  const all = new Map(one);
  for (const [id, entry] of other) {
    all.set(id, { ...entry, targets: new Set([...(all.get(id)?.targets ?? []), ...entry.targets]) });
  }
  return all;
}
