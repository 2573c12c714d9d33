import { ConntrackStatus } from "../../../kernel/conntrack/entry.ts";
import type { ConntrackFilter } from "../../../kernel/conntrack/filter.ts";
import type { Flows } from "../../../kernel/conntrack/flow_deletion.ts";
import type { FlowTuples } from "../../../kernel/conntrack/flow_tuples.ts";
import { DrawbridgeError } from "../../../kernel/error.ts";
import { type Address, FAMILIES } from "../../../kernel/ip/address.ts";
import { ControlLoop, type NextPass } from "../../lib/control_loop.ts";
import { inTurns, type Slices } from "../../lib/sliced_work.ts";
import type { Machine } from "../../machine.ts";
import type { Commit } from "../../ruleset/difference.ts";
import { type FrontendId, frontendId } from "../elements/arbitration.ts";
import { socketText } from "../elements/socket_address.ts";
import type { ServedService } from "../service_follower.ts";
import { changedFrontends, type Targets } from "./former_frontends.ts";
import { servedFrontends, type TargetsOf } from "./served_frontends.ts";

/** The flows of one protocol that are deleted when their endpoint has gone. */
export interface StaleKind {
  readonly protocol: "UDP" | "TCP";
  readonly asked: readonly ConntrackFilter[];
  /** The least time between two walks through the kernel's flows, in milliseconds: sometimes there are ten thousand. */
  readonly period: number;
  /**
   * The time in milliseconds that a server has to answer after the rules that lead to it were removed. New frontends do
   * not wait. Undefined where a flow may go on to an endpoint as long as that serves (TERM-04), also without rules.
   */
  readonly patience: number | undefined;
}

/**
 * UDP flows (SVC-27): the kernel only decides a flow by its first packet, and a client that keeps its socket never
 * begins a new one.
 */
export const UDP_FLOWS: StaleKind = {
  protocol: "UDP",
  asked: FAMILIES.map((family) => ({ family, protocol: "udp" })),
  period: 1000,
  patience: undefined,
};

/**
 * TCP connections that were never answered and never would be (SVC-30): those whose endpoint has gone since, for example
 * because its node lost power, and those that began before their frontend was translated, for example while the add-on
 * was not installed. Answered connections of TCP and SCTP end by themselves.
 *
 * The kernel keeps the entry of such a connection for two minutes (`nf_conntrack_tcp_timeout_syn_sent`). By that entry
 * every repeated SYN goes to the same endpoint, and so does every new connection from the same port of the client.
 * Without the entry the next SYN goes to an existing endpoint. A server that has answered in time keeps its connections.
 */
export const UNANSWERED_CONNECTIONS: StaleKind = {
  protocol: "TCP",
  // No packet has been seen from the server.
  asked: FAMILIES.map((family) => {
    return { family, protocol: "tcp", status: { value: 0, mask: ConntrackStatus.SEEN_REPLY } };
  }),
  period: 3000,
  patience: 3000,
};

export interface StaleFlowsParts extends Pick<Machine, "clock" | "logger"> {
  readonly flows: Flows;
  /** Begins a walk. Returns a function from frontends to their endpoints. */
  readonly targetsOf: (protocol: StaleKind["protocol"]) => TargetsOf;
  /** Whether an address of the node serves NodePorts. */
  readonly servesNodePorts: (address: Address) => boolean;
}

/** The endpoints that frontends have lost at a time; "any" where further ones may have been lost a moment before. */
interface Loss {
  readonly at: number;
  readonly endpoints: Targets | "any";
}

const REFUSED = {
  UDP: "stale UDP flows are not forgotten; it is tried again",
  TCP: "unanswered connections are not forgotten; it is tried again",
} as const;

/** A former state counts with all frontends that the Service claimed: other Services may have taken some since. */
const WITHOUT_RIVALS: Pick<ServedService["holders"], "rival"> = { rival: () => undefined };

/**
 * Deletes flows that were decided by rules that no longer exist.
 *
 * Flows are checked once the rules that decide their next packet are in force, and after the whole ruleset was written,
 * since earlier changes were not observed. The event loop runs during a walk, so flows are judged by the Services at the
 * moment, and the next walk checks what has changed meanwhile.
 */
export class StaleFlows {
  readonly #parts: StaleFlowsParts;
  readonly #kind: StaleKind;
  /** States of changed Services, the present ones included: those whose rules are in force (ripe), and the others. */
  #ripe = new Set<ServedService>();
  readonly #unripe = new Set<ServedService>();
  /** The losses that no walk has checked yet, the oldest first. */
  #losses: readonly Loss[] = [];
  /** Whether something other than a loss has changed since the last walk. */
  #isDue = false;
  #last = Number.NEGATIVE_INFINITY;
  readonly #loop: ControlLoop;
  #deleted = 0;
  #lastError: string | undefined;

  constructor(parts: StaleFlowsParts, kind: StaleKind) {
    this.#parts = parts;
    this.#kind = kind;
    const pause = (): number => this.#wait ?? kind.period;
    this.#loop = new ControlLoop({ clock: parts.clock, pass: () => this.#walk(), pause });
  }

  /** Has all flows checked after a change of a Service, given by its former and its present state. */
  changed(...states: readonly (ServedService | undefined)[]): void {
    for (const state of states) {
      if (state?.service.ports.some(({ protocol }) => protocol === this.#kind.protocol) === true) {
        this.#unripe.add(state);
      }
    }
  }

  /**
   * Reports that the kernel has all rules that follow from the Services set so far.
   *
   * @param commit the commit that wrote them; undefined when nothing had to be written
   */
  rulesInForce(commit: Commit | undefined): void {
    if (commit !== undefined) this.#note(commit);
    for (const state of this.#unripe) this.#ripe.add(state);
    this.#unripe.clear();
    this.#isDue ||= this.#ripe.size > 0;
    if (this.#wait !== undefined) this.#loop.enqueue();
  }

  /** Notes the endpoints that a commit removed, and whether it added frontends. */
  #note({ isWhole, differences }: Commit): void {
    const { lost, begun } = changedFrontends(differences, this.#kind.protocol);
    const at = this.#parts.clock.now();
    // Endpoints that the first batch of a daemon deletes ended while no daemon was running.
    if (lost.size > 0) this.#losses = [...this.#losses, { at, endpoints: lost }];
    if (isWhole) this.#losses = [...this.#losses, { at, endpoints: "any" }];
    // Rules may have been missing before a start.
    this.#isDue ||= isWhole || begun.size > 0;
  }

  /** The number of flows deleted so far. */
  get deleted(): number {
    return this.#deleted;
  }

  problems(): readonly string[] {
    const error = this.#lastError;
    if (error === undefined) return [];
    return this.#kind.protocol === "UDP"
      ? [`stale UDP flows: ${error}; it is tried again`]
      : [`unanswered connections: ${error}; it is tried again`];
  }

  stop(): void {
    void this.#loop.stop();
  }

  /** Milliseconds until the next walk; undefined where there is nothing to look for. */
  get #wait(): NextPass {
    const { period, patience = 0 } = this.#kind;
    const [first] = this.#losses;
    const soonest = this.#last + period;
    const at = this.#isDue ? soonest : first && Math.max(soonest, first.at + patience);
    return at === undefined ? undefined : Math.max(0, at - this.#parts.clock.now());
  }

  async #walk(): Promise<NextPass> {
    const { flows, clock, logger } = this.#parts;
    const { protocol, asked, patience = 0 } = this.#kind;
    const targetsOf = this.#parts.targetsOf(protocol);
    const now = clock.now();
    const due = this.#losses.filter(({ at }) => at + patience <= now);
    this.#losses = this.#losses.slice(due.length);
    this.#isDue = false;
    const gone = new Map<FrontendId, ReadonlySet<string>>();
    for (const { endpoints } of due) if (endpoints !== "any") addAll(gone, endpoints);
    await inTurns(this.#lookForGone(targetsOf, gone));
    try {
      const deleted = await flows.delete(asked, this.#isStale(gone, targetsOf));
      this.#deleted += deleted;
      this.#lastError = undefined;
      if (deleted > 0) logger.debug("stale flows are forgotten", { protocol, flows: deleted });
    } catch (error) {
      if (!(error instanceof DrawbridgeError)) throw error;
      this.#losses = [{ at: now - patience, endpoints: gone }, ...this.#losses];
      this.#lastError = error.message;
      logger.error(REFUSED[protocol], { error: error.message });
    }
    this.#last = clock.now();
    return this.#wait;
  }

  /** Adds the frontends that are gone, with the endpoints that they had. */
  *#lookForGone(targetsOf: TargetsOf, gone: Map<FrontendId, ReadonlySet<string>>): Slices<void> {
    const states = this.#ripe;
    this.#ripe = new Set();
    for (const state of states) {
      for (const [id, targets] of yield* servedFrontends(state, this.#kind.protocol, WITHOUT_RIVALS)) {
        if (targetsOf(id) === undefined) addAll(gone, [[id, targets()]]);
        yield;
      }
    }
  }

  /**
   * Returns whether a flow was decided by a state that no longer exists, and has to be deleted so that the client's next
   * packet is decided again. A flow's frontend is found as by the rules: by address first, then by port (SVC-18).
   *
   * - If the Service has the flow's endpoint, the flow is valid, even while the endpoint terminates (TERM-04); where
   *   servers have a time to answer, only until that is over.
   * - A flow to no endpoint was created when the frontend had none or did not exist: it is stale once the frontend has
   *   one.
   * - A flow that was translated to anything else is stale. If the frontend is gone, it is stale only if it went to one
   *   of the frontend's endpoints: another program's translations are not ours.
   *
   * @param gone endpoints that frontends have lost so long ago that no server answers any more
   */
  #isStale(gone: Targets, targetsOf: TargetsOf): (flow: FlowTuples) => boolean {
    const { flows, servesNodePorts } = this.#parts;
    const { protocol, patience } = this.#kind;
    const own = flows.nodeAddresses();
    const mayAnswer = (id: FrontendId, target: string): boolean =>
      patience !== undefined &&
      this.#losses.some(({ endpoints }) => endpoints === "any" || endpoints.get(id)?.has(target) === true);
    const hasEnded = (id: FrontendId, target: string, targets: ReadonlySet<string> | undefined): boolean =>
      (targets === undefined || patience !== undefined) && gone.get(id)?.has(target) === true;
    return ({ family, original, reply }) => {
      const { destination: address, destinationPort: port } = original;
      if (port === undefined || reply.sourcePort === undefined) return false;
      const target = socketText({ address: reply.source, port: reply.sourcePort });
      const byAddress = frontendId({ type: "cluster", address, port }, protocol, family);
      const byPort = frontendId({ type: "node port", port }, protocol, family);
      const ids = own.has(address) && servesNodePorts(address) ? [byAddress, byPort] : [byAddress];
      // A Service may have claimed the address in vain: the frontend that is there counts first.
      const id = ids.find((one) => targetsOf(one)) ?? ids.find((one) => gone.get(one)?.has(target));
      if (id === undefined) return false;
      const targets = targetsOf(id);
      const isTranslated = reply.source !== address || reply.sourcePort !== port;
      if (isTranslated && hasEnded(id, target, targets)) return true;
      if (targets === undefined || targets.has(target)) return false;
      return isTranslated ? !mayAnswer(id, target) : targets.size > 0;
    };
  }
}

/** Adds endpoints to those of each frontend. */
function addAll(
  found: Map<FrontendId, ReadonlySet<string>>,
  endpoints: Iterable<readonly [FrontendId, ReadonlySet<string>]>,
): void {
  for (const [id, targets] of endpoints) found.set(id, new Set([...(found.get(id) ?? []), ...targets]));
}
