import { DrawbridgeError } from "../../kernel/error.ts";
import type { KernelEvents, Subscription } from "../../kernel/events/events.ts";
import type { Cidr } from "../../kernel/ip/cidr.ts";
import type { ReceivedMessage } from "../../kernel/netlink/message.ts";
import type { Cancel, Clock } from "../clock.ts";
import { NodeJudge } from "../cluster/node_judge.ts";
import type { Dataplane } from "../dataplane.ts";
import type { NoticeSink } from "../events/notice.ts";
import { nodeNamed } from "../events/notice.ts";
import type { Logger } from "../log/logger.ts";
import type { ObjectChange } from "../source/object_source.ts";
import type { Desired, RouteOptions } from "./desired.ts";
import { desiredRoutes } from "./desired.ts";
import { entrySteps, removalSteps, tunnelProblems, tunnelSteps } from "./difference.ts";
import type { KernelState, RouteKernel, Step } from "./kernel_state.ts";
import type { Peers } from "./peers.ts";
import { peersOf } from "./peers.ts";
import { isRelevant } from "./relevance.ts";

/** What one program does in several steps is looked at once. */
const SETTLE_MILLISECONDS = 20;
/** What another program undoes again and again is put right again less often, but within a second. */
const LONGEST_PAUSE = 500;
const STREAK_MILLISECONDS = 1000;
const UNPACED_CHANGES = 5;
/** Between two looks the thread is for others, so many times as long as the last one took. */
const REST_SHARE = 4;
/** What the kernel refused is tried again. */
const FIRST_RETRY = 1000;
const LAST_RETRY = 30_000;
/** Making the tunnel, giving it what needs its index, and seeing that it is as it should be. */
const TUNNEL_ROUNDS = 3;

const GROUPS = [
  "link",
  "neighbour",
  "ipv4-address",
  "ipv4-route",
  "ipv4-rule",
  "ipv6-address",
  "ipv6-route",
  "ipv6-rule",
] as const;

export interface RoutesDataplaneParts {
  readonly kernel: RouteKernel;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly events: NoticeSink;
  readonly nodeName: string;
  /** This node's pod CIDRs where its Node object has none. */
  readonly podCidrs: readonly Cidr[];
  /** Ranges of Services beside those of ServiceCIDR objects. */
  readonly serviceCidrs: readonly Cidr[];
  readonly options: RouteOptions;
  /** Milliseconds between two looks without any reason. */
  readonly syncPeriod: number;
}

/**
 * Routes to the pods of other nodes and to the Services' ranges, and the tunnel some of them need.
 *
 * It compares what there should be with what there is whenever Nodes or ServiceCIDRs change, when the kernel tells of a
 * change that may concern routes, and every sync period. Nothing is written before everything has been read once, and
 * all of it stays when the daemon ends.
 */
export class RoutesDataplane implements Dataplane {
  readonly #parts: RoutesDataplaneParts;
  readonly #judge: NodeJudge;
  #peers: Peers | undefined;
  #state: KernelState | undefined;
  #podMtu: number | undefined;
  #mtuFollower: () => void = () => {};
  #problems: readonly string[] = [];
  #told: ReadonlySet<string> = new Set();
  #isSynced = false;
  #isStopped = false;
  #pending: Cancel | undefined;
  #later: Cancel | undefined;
  #subscription: Subscription | undefined;
  #retry = FIRST_RETRY;
  /** Passes in a row, each shortly after the one before, that had to change something. */
  #streak = 0;
  #changedAt = Number.NEGATIVE_INFINITY;
  #restUntil = Number.NEGATIVE_INFINITY;

  constructor(parts: RoutesDataplaneParts) {
    this.#parts = parts;
    const { nodeName, podCidrs, serviceCidrs } = parts;
    this.#judge = new NodeJudge({ nodeName, ownCidrs: podCidrs, serviceCidrs });
  }

  apply(changes: readonly ObjectChange[]): void {
    if (!this.#judge.apply(changes)) return;
    this.#peers = undefined;
    this.#lookSoon();
  }

  synced(): void {
    this.#isSynced = true;
    this.#judge.synced();
    this.#look();
  }

  /** Has changes by other programs told from now on; without them only the periodic look remains. */
  async start(events: KernelEvents): Promise<void> {
    const { logger } = this.#parts;
    try {
      this.#subscription = await events.subscribe(
        { kind: "route", groups: GROUPS },
        {
          onMessages: (messages) => this.#take(messages),
          onOverrun: () => this.#lookSoon(),
          onFailure: (error) => logger.error("changes of routes are not told any more", { error: error.message }),
        },
      );
      this.#lookSoon();
    } catch (error) {
      if (this.#isStopped) return;
      logger.error("changes of routes are not told", { error: error instanceof Error ? error.message : String(error) });
    }
  }

  /** Bytes of the largest packet of a pod, as last known; undefined while it was never known. */
  get podMtu(): number | undefined {
    return this.#podMtu;
  }

  /** Has changes of {@link podMtu} told; there is one follower. */
  followPodMtu(follower: () => void): void {
    this.#mtuFollower = follower;
  }

  async register(): Promise<void> {}

  async unregister(): Promise<void> {}

  problems(): readonly string[] {
    return this.#problems.map((problem) => `routes: ${problem}`);
  }

  async stop(): Promise<void> {
    this.#isStopped = true;
    this.#pending?.();
    this.#later?.();
    this.#subscription?.close();
    this.#parts.kernel.close();
  }

  #take(messages: readonly ReceivedMessage[]): void {
    const state = this.#state;
    if (state === undefined || this.#pending !== undefined) return;
    try {
      if (messages.some((message) => isRelevant(message, state))) this.#lookSoon();
    } catch (error) {
      if (!(error instanceof DrawbridgeError)) throw error;
      this.#lookSoon();
    }
  }

  #lookSoon(): void {
    if (!this.#isSynced || this.#isStopped) return;
    const { clock } = this.#parts;
    const extra = Math.max(0, this.#streak - UNPACED_CHANGES);
    const pause = Math.max(
      Math.min(SETTLE_MILLISECONDS * 2 ** extra, LONGEST_PAUSE),
      Math.ceil(this.#restUntil - clock.now()),
    );
    this.#pending ??= clock.after(pause, () => this.#look());
  }

  #look(): void {
    const { clock, syncPeriod } = this.#parts;
    this.#pending?.();
    this.#pending = undefined;
    this.#later?.();
    const startedAt = clock.now();
    const errors = this.#pass();
    this.#restUntil = clock.now() + REST_SHARE * (clock.now() - startedAt);
    const next = errors.length === 0 ? syncPeriod : Math.min(this.#retry, syncPeriod);
    this.#retry = errors.length === 0 ? FIRST_RETRY : Math.min(this.#retry * 2, LAST_RETRY);
    this.#later = clock.after(next, () => this.#look());
  }

  /** One comparison and what follows from it. @returns what the kernel refused, in words */
  #pass(): readonly string[] {
    const { kernel } = this.#parts;
    try {
      this.#state = kernel.read();
      const desired = this.#desired(this.#state);
      if ("unknown" in desired) {
        this.#tell([`${desired.unknown}: routes stay as they are`]);
        return [];
      }
      this.#setPodMtu(desired.podMtu);
      const errors: DrawbridgeError[] = [];
      const done: Step[] = [];
      const carryOut = (steps: readonly Step[]): void => {
        if (steps.length === 0) return;
        errors.push(...kernel.apply(steps));
        done.push(...steps);
        this.#state = kernel.read();
      };
      for (let round = 0; round < TUNNEL_ROUNDS && errors.length === 0; round++) {
        carryOut(tunnelSteps(desired.tunnel, this.#state));
      }
      carryOut(entrySteps(desired, this.#state));
      carryOut(removalSteps(desired, this.#state));
      this.#count(done);
      const refused = [...new Set(errors.map(({ message }) => message))];
      this.#tell([...desired.problems, ...tunnelProblems(desired.tunnel, this.#state), ...refused]);
      return refused;
    } catch (error) {
      if (!(error instanceof DrawbridgeError)) throw error;
      this.#tell([error.message]);
      return [error.message];
    }
  }

  #desired(state: KernelState): Desired | { readonly unknown: string } {
    const { nodeName, options } = this.#parts;
    this.#peers ??= peersOf(this.#judge.judged, nodeName);
    return desiredRoutes(this.#peers, this.#judge.serviceCidrs, options, state);
  }

  /** One that cannot be told now stays: pods go on being made while an interface is down. */
  #setPodMtu(mtu: number | undefined): void {
    if (mtu === undefined || mtu === this.#podMtu) return;
    this.#podMtu = mtu;
    this.#mtuFollower();
  }

  #count(done: readonly Step[]): void {
    const { clock, logger } = this.#parts;
    if (done.length === 0) return;
    const now = clock.now();
    this.#streak = now - this.#changedAt < STREAK_MILLISECONDS ? this.#streak + 1 : 1;
    this.#changedAt = now;
    const removed = done.filter(({ type }) => type.startsWith("delete")).length;
    const fields = { set: done.length - removed, removed };
    if (this.#streak <= UNPACED_CHANGES) logger.info("routes changed", fields);
    else logger.debug("routes changed", fields);
  }

  #tell(problems: readonly string[]): void {
    const { logger, events, nodeName } = this.#parts;
    for (const problem of problems) {
      if (this.#told.has(problem)) continue;
      logger.warn("routes are not all as they should be", { reason: problem });
      events.tell({ regarding: nodeNamed(nodeName), reason: "RoutesProblem", note: problem });
    }
    this.#problems = problems;
    this.#told = new Set(problems);
  }
}
