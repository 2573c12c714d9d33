import { ConntrackStatus } from "../../../kernel/conntrack/entry.ts";
import type { FlowTuples } from "../../../kernel/conntrack/flow_tuples.ts";
import type { Machine } from "../../machine.ts";
import { DrawbridgeError } from "../../../kernel/error.ts";
import { type Address, FAMILIES } from "../../../kernel/ip/address.ts";
import { ControlLoop, type NextPass } from "../../lib/control_loop.ts";
import type { Commit } from "../../ruleset/difference.ts";
import { type FrontendId, frontendId } from "../elements/arbitration.ts";
import { socketText } from "../elements/socket_address.ts";
import { changedFrontends, type Targets } from "./former_frontends.ts";
import type { Flows } from "../../../kernel/conntrack/flow_deletion.ts";
import { remembered, type TargetsOf } from "./served_frontends.ts";

export interface UnansweredConnectionsParts extends Pick<Machine, "clock" | "logger"> {
  readonly flows: Flows;
  /** Begins a walk. Returns a function from TCP frontends to their endpoints. */
  readonly targetsOf: () => TargetsOf;
  /** Whether an address of the node serves NodePorts. */
  readonly servesNodePorts: (address: Address) => boolean;
}

/**
 * The least time between two walks through the kernel's flows, in milliseconds, and the time that a server has to answer
 * after the rules that lead to it were removed: one that has answered by then keeps its connections. New frontends do
 * not wait.
 */
const PERIOD = 3000;

/** Connections from whose server no packet has been seen. */
const QUESTIONS = FAMILIES.map((family) => {
  return { family, protocol: "tcp", status: { value: 0, mask: ConntrackStatus.SEEN_REPLY } } as const;
});

/** The endpoints that frontends have lost at a time; "any" where further ones may have been lost a moment before. */
interface Loss {
  readonly at: number;
  readonly endpoints: Targets | "any";
}

/**
 * Deletes TCP connections that were never answered and never would be (SVC-30): those whose endpoint has gone since,
 * for example because its node lost power, and those that began before their frontend was translated, for example while
 * the add-on was not installed.
 *
 * The kernel keeps the entry of such a connection for two minutes (`nf_conntrack_tcp_timeout_syn_sent`). By that entry
 * every repeated SYN goes to the same endpoint, and so does every new connection from the same port of the client.
 * Without the entry the next SYN goes to an existing endpoint.
 */
export class UnansweredConnections {
  readonly #parts: UnansweredConnectionsParts;
  /** The losses that no walk has checked yet, the oldest first. */
  #losses: readonly Loss[] = [];
  /** Whether there are new frontends since the last walk, or it has failed. */
  #isDue = false;
  #last = Number.NEGATIVE_INFINITY;
  readonly #loop: ControlLoop;
  #deleted = 0;
  #lastError: string | undefined;

  constructor(parts: UnansweredConnectionsParts) {
    this.#parts = parts;
    this.#loop = new ControlLoop({ clock: parts.clock, pass: () => this.#walk(), pause: () => this.#wait ?? PERIOD });
  }

  /** Notes the endpoints that a commit removed, and whether it added frontends. */
  rulesInForce(commit: Commit | undefined): void {
    if (commit === undefined) return;
    const { isWhole } = commit;
    const { lost, begun } = changedFrontends(commit.differences);
    const at = this.#parts.clock.now();
    if (lost.size > 0) this.#losses = [...this.#losses, { at, endpoints: lost }];
    if (isWhole) this.#losses = [...this.#losses, { at, endpoints: "any" }];
    // Rules may have been missing before a start.
    this.#isDue ||= isWhole || begun.size > 0;
    if (this.#wait !== undefined) this.#loop.enqueue();
  }

  /** The number of connections deleted so far. */
  get deleted(): number {
    return this.#deleted;
  }

  problems(): readonly string[] {
    return this.#lastError === undefined ? [] : [`unanswered connections: ${this.#lastError}; it is tried again`];
  }

  stop(): void {
    void this.#loop.stop();
  }

  /** Milliseconds until the next walk; undefined where there is nothing to look for. */
  get #wait(): NextPass {
    const [first] = this.#losses;
    const at = this.#isDue ? this.#last + PERIOD : first && Math.max(this.#last, first.at) + PERIOD;
    return at === undefined ? undefined : Math.max(0, at - this.#parts.clock.now());
  }

  async #walk(): Promise<NextPass> {
    const { flows, clock, logger } = this.#parts;
    const now = clock.now();
    const due = this.#losses.filter(({ at }) => at + PERIOD <= now);
    this.#losses = this.#losses.slice(due.length);
    this.#isDue = false;
    try {
      const deleted = await flows.delete(QUESTIONS, this.#isMeant(due));
      this.#deleted += deleted;
      this.#lastError = undefined;
      if (deleted > 0) logger.debug("deleted unanswered connections", { deleted });
    } catch (error) {
      if (!(error instanceof DrawbridgeError)) throw error;
      this.#losses = [...due, ...this.#losses];
      this.#isDue = true;
      this.#lastError = error.message;
      logger.error("unanswered connections are not forgotten; it is tried again", { error: error.message });
    }
    this.#last = clock.now();
    return this.#wait;
  }

  /** @param due losses that are so old that no server answers any more */
  #isMeant(due: readonly Loss[]): (flow: FlowTuples) => boolean {
    const { flows, servesNodePorts } = this.#parts;
    const own = flows.nodeAddresses();
    const targetsOf = remembered(this.#parts.targetsOf());
    const all = due.flatMap(({ endpoints }) => (endpoints === "any" ? [] : [...endpoints]));
    const lost = Map.groupBy(all, ([id]) => id);
    const mayAnswer = (id: FrontendId, target: string): boolean =>
      this.#losses.some(({ endpoints }) => endpoints === "any" || endpoints.get(id)?.has(target) === true);
    return ({ family, original, reply }) => {
      const { destination: address, destinationPort: port } = original;
      if (port === undefined || reply.sourcePort === undefined) return false;
      const byAddress = frontendId({ type: "cluster", address, port }, "TCP", family);
      const byPort = frontendId({ type: "node port", port }, "TCP", family);
      const target = socketText({ address: reply.source, port: reply.sourcePort });
      // The frontend may be gone, too.
      if ([byAddress, byPort].some((id) => lost.get(id)?.some(([, targets]) => targets.has(target)))) return true;
      const isNodePort = targetsOf(byAddress) === undefined;
      if (isNodePort && !(own.has(address) && servesNodePorts(address))) return false;
      const id = isNodePort ? byPort : byAddress;
      const targets = targetsOf(id);
      if (targets === undefined || targets.has(target)) return false;
      const isTranslated = reply.source !== address || reply.sourcePort !== port;
      return isTranslated ? !mayAnswer(id, target) : targets.size > 0;
    };
  }
}
