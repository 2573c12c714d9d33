import { ConntrackStatus } from "../../../kernel/conntrack/entry.ts";
import type { ConntrackFilter, TupleFilter } from "../../../kernel/conntrack/filter.ts";
import type { FlowTuples } from "../../../kernel/conntrack/flow_tuples.ts";
import { DrawbridgeError } from "../../../kernel/error.ts";
import { type Address, FAMILIES } from "../../../kernel/ip/address.ts";
import type { Clock } from "../../lib/clock.ts";
import { ControlLoop, type NextPass } from "../../lib/control_loop.ts";
import type { Commit } from "../../ruleset/difference.ts";
import type { Logger } from "../../log/logger.ts";
import { type FrontendId, frontendId } from "../elements/arbitration.ts";
import { socketText } from "../elements/socket_address.ts";
import { changedFrontends, type FrontendTargets } from "./former_frontends.ts";
import type { Flows } from "../../../kernel/conntrack/flow_deletion.ts";
import { remembered, type TargetsOf } from "./served_frontends.ts";

export interface UnansweredConnectionsParts {
  readonly flows: Flows;
  readonly clock: Clock;
  readonly logger: Logger;
  /** Begins a walk. Returns a function from TCP frontends to their endpoints. */
  readonly targetsOf: () => TargetsOf;
  /** Whether an address of the node serves NodePorts. */
  readonly servesNodePorts: (address: Address) => boolean;
}

/**
 * The least time between two walks through the kernel's flows, in milliseconds. A walk checks endpoints whose rules
 * were removed one to two periods earlier, so a server that has answered by then keeps its connections. New frontends
 * do not wait.
 */
const PERIOD = 3000;

/** No packet has been seen from the server. */
const WANTED = { protocol: "tcp", status: { value: 0, mask: ConntrackStatus.SEEN_REPLY } } as const;

type Lost = ReadonlyMap<FrontendId, FrontendTargets>;

/** The frontends that are new: all of them after a start, since rules may have been missing before it. */
type New = ReadonlyMap<FrontendId, FrontendTargets> | "all";

/** The connections that one walk looks for. */
interface Subject {
  /** Connections to endpoints that these frontends have lost. */
  readonly lost: Lost;
  /** Connections to addresses and ports that are frontends now, and were not when the connections began. */
  readonly begun: New;
  /** Whether to find connections of any frontend to addresses its Service lacks: losses before a start were missed. */
  readonly isAboutAll: boolean;
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
  /** The endpoints that were lost since the last walk. */
  #fresh: Lost = new Map();
  /** Those that were lost before it, which the next walk checks. */
  #waiting: Lost = new Map();
  /** Whether all rules were written since the last walk (fresh), and before it (waiting). */
  #isAllFresh = false;
  #isAllWaiting = false;
  /** The frontends that are new since the last walk. */
  #new: New = new Map();
  #last = Number.NEGATIVE_INFINITY;
  readonly #loop: ControlLoop;
  #deleted = 0;
  #lastError: string | undefined;

  constructor(parts: UnansweredConnectionsParts) {
    this.#parts = parts;
    const { clock } = parts;
    this.#loop = new ControlLoop({ clock, pass: () => this.#walk(), pause: () => this.#wait ?? PERIOD });
  }

  /** Notes the endpoints that a commit removed, and the frontends that it added. */
  rulesInForce(commit: Commit | undefined): void {
    if (commit === undefined) return;
    const { lost, begun } = changedFrontends(commit.differences);
    this.#fresh = joined(this.#fresh, lost);
    this.#new = commit.isWhole ? "all" : joinedNew(this.#new, begun);
    this.#isAllFresh ||= commit.isWhole;
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
    if (this.#new === "all" || this.#new.size > 0) return Math.max(0, this.#last + PERIOD - this.#parts.clock.now());
    const hasOld = this.#fresh.size > 0 || this.#waiting.size > 0 || this.#isAllFresh || this.#isAllWaiting;
    return hasOld ? PERIOD : undefined;
  }

  async #walk(): Promise<NextPass> {
    const { flows, clock, logger } = this.#parts;
    const subject = this.#take();
    try {
      const asked = questions(subject);
      const deleted = await flows.delete(asked, asked.length === 0 ? () => false : this.#isMeant(subject));
      this.#deleted += deleted;
      this.#lastError = undefined;
      if (deleted > 0) logger.debug("deleted unanswered connections", { deleted });
    } catch (error) {
      if (!(error instanceof DrawbridgeError)) throw error;
      this.#putBack(subject);
      this.#lastError = error.message;
      logger.error("unanswered connections are not forgotten; it is tried again", { error: error.message });
    }
    this.#last = clock.now();
    return this.#wait;
  }

  /** Takes the subject of the next walk; endpoints that were lost since the last one wait for the walk after it. */
  #take(): Subject {
    const subject = { lost: this.#waiting, begun: this.#new, isAboutAll: this.#isAllWaiting };
    this.#waiting = this.#fresh;
    this.#fresh = new Map();
    this.#new = new Map();
    this.#isAllWaiting = this.#isAllFresh;
    this.#isAllFresh = false;
    return subject;
  }

  #putBack({ lost, begun, isAboutAll }: Subject): void {
    this.#waiting = joined(this.#waiting, lost);
    this.#new = joinedNew(begun, this.#new);
    this.#isAllWaiting ||= isAboutAll;
  }

  #isMeant({ lost, begun, isAboutAll }: Subject): (flow: FlowTuples) => boolean {
    const { flows, servesNodePorts } = this.#parts;
    const own = flows.nodeAddresses();
    const targetsOf = remembered(this.#parts.targetsOf());
    return (flow) => {
      const { address, port, target } = socketsOf(flow);
      if (address === undefined || port === undefined) return false;
      const byAddress = frontendId({ type: "cluster", address, port }, "TCP", flow.family);
      const byPort = frontendId({ type: "node port", port }, "TCP", flow.family);
      if ([byAddress, byPort].some((id) => lost.get(id)?.targets.has(target) === true)) return true;
      const isNodePort = targetsOf(byAddress) === undefined;
      if (isNodePort && !(own.has(address) && servesNodePorts(address))) return false;
      const id = isNodePort ? byPort : byAddress;
      const targets = targetsOf(id);
      if (targets === undefined || targets.has(target)) return false;
      const isTranslated = target !== socketText({ address, port });
      if (!isTranslated) return begun === "all" || begun.has(id);
      // A server that was lost a moment ago may still answer.
      return isAboutAll && [this.#fresh, this.#waiting].every((recent) => recent.get(id)?.targets.has(target) !== true);
    };
  }
}

function questions({ lost, begun, isAboutAll }: Subject): readonly ConntrackFilter[] {
  if (begun === "all" || isAboutAll) return FAMILIES.map((family) => ({ family, ...WANTED }));
  return questionsFor([...lost.values(), ...begun.values()]);
}

/**
 * Returns the filters for the kernel: at most one per family, narrowed by what all frontends have in common, since the
 * kernel walks its whole table for each.
 */
function questionsFor(all: readonly FrontendTargets[]): readonly ConntrackFilter[] {
  return FAMILIES.flatMap((family): readonly ConntrackFilter[] => {
    const ofFamily = all.filter((one) => one.family === family).map(({ frontend }) => frontend);
    if (ofFamily.length === 0) return [];
    const destinationPort = common(ofFamily.map(({ port }) => port));
    const destination = common(ofFamily.map((frontend) => ("address" in frontend ? frontend.address : undefined)));
    const original: TupleFilter = {
      ...(destinationPort === undefined ? {} : { destinationPort }),
      ...(destination === undefined ? {} : { destination }),
    };
    return [{ family, ...WANTED, original }];
  });
}

function common<T>(values: readonly T[]): T | undefined {
  const [first] = values;
  return values.every((value) => value === first) ? first : undefined;
}

/** Returns the address and port that a client asked for, and the socket it was sent to as `socketText` prints it. */
function socketsOf({ original, reply }: FlowTuples): {
  readonly address?: Address;
  readonly port?: number;
  readonly target: string;
} {
  const { destination: address, destinationPort: port } = original;
  if (port === undefined || reply.sourcePort === undefined) return { target: "" };
  return { address, port, target: socketText({ address: reply.source, port: reply.sourcePort }) };
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
