import { DrawbridgeError } from "../../kernel/error.ts";
import type { KernelNotifications } from "../../kernel/notifications/notifications.ts";
import { type Address, formatAddress } from "../../kernel/ip/address.ts";
import { type Cidr, formatCidr } from "../../kernel/ip/cidr.ts";
import type { ReceivedMessage } from "../../kernel/netlink/message.ts";
import { codeOf, problemLine } from "../problems/problem.ts";
import type { Cancel, Clock } from "../lib/clock.ts";
import type { NodeJudge, VerdictReader } from "../../objects/nodes/node_judge.ts";
import type { ObjectConsumer } from "../component.ts";
import type { NoticeSink } from "../events/notice.ts";
import { RenewedSubscription } from "../lib/renewed_subscription.ts";
import type { Logger } from "../log/logger.ts";
import { type Slices, workFor } from "../lib/sliced_work.ts";
import { desiredEntries, frameOf, planRoutes } from "./desired.ts";
import { entrySteps, removalSteps, tunnelSteps } from "./difference.ts";
import type { RouteKernel, Step } from "./route_kernel/kernel_state.ts";
import { leftoverSteps } from "./leftovers.ts";
import { astray, withOutward } from "./lookups.ts";
import { nodeSteps } from "./node_steps.ts";
import { PassSchedule, SETTLE_MILLISECONDS } from "../lib/pass_schedule.ts";
import { peersOf } from "./peers.ts";
import { RouteReport } from "./route_report.ts";
import type { RouteOptions } from "./surroundings.ts";
import { isReason, standingProblems, type View, viewOf } from "./view.ts";

/** The longest time in milliseconds that a pass takes the thread before it yields. */
const SLICE_MILLISECONDS = 8;
/** Changes sent to the kernel between two yields; they take a millisecond or two. */
const STEPS_AT_ONCE = 64;
/** Enough rounds to create the tunnel, to set what needs its index, and to check the result. */
const TUNNEL_ROUNDS = 3;
/** Milliseconds until a refused subscription is tried again. */
const SUBSCRIPTION_RETRY = 5000;

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

export interface RouteReconcilerParts {
  readonly kernel: RouteKernel;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly events: NoticeSink;
  readonly nodeName: string;
  readonly judge: NodeJudge;
  readonly options: RouteOptions;
  /** Milliseconds between two resyncs. */
  readonly syncPeriod: number;
  /** Receives the addresses of all nodes that are reached without a router, after each pass. */
  readonly setOnLink?: (addresses: ReadonlySet<Address>) => void;
}

/**
 * Reconciles the routes to the pods of other nodes and to the Services' ranges, and the tunnel that some of them need.
 *
 * A pass compares the desired with the observed state: when ServiceCIDRs or this node's own Node change, when the
 * kernel reports a change that may concern routes, and every sync period. It works in slices. A change of another Node
 * changes only the entries that lead to it. Nothing is written before all objects have been read once, and everything
 * stays in the kernel when the daemon ends.
 */
export class RouteReconciler implements ObjectConsumer {
  readonly #parts: RouteReconcilerParts;
  readonly #readVerdict: VerdictReader;
  readonly #pace: PassSchedule;
  readonly #report: RouteReport;
  readonly #subscription: RenewedSubscription;
  /** Names of the nodes whose routes do not follow the last verdict yet. */
  readonly #changed = new Set<string>();
  #serviceCidrs: readonly Cidr[] = [];
  /** Undefined before the first read. */
  #view: View | undefined;
  /** Whether the kernel has the desired state, apart from changes that it still has to report. */
  #isInForce = false;
  #podMtu: number | undefined;
  /** Packets that other programs' rules lead elsewhere, as of the last pass. */
  #astray: readonly string[] = [];
  #mtuFollower: () => void = () => {};
  #isSynced = false;
  #isStopped = false;
  /** The pass in progress. */
  #look: Slices<boolean> | undefined;
  /** Milliseconds that it has taken so far. */
  #spent = 0;
  #isAgain = false;
  #pending: Cancel | undefined;
  #following: Cancel | undefined;
  #next: Cancel | undefined;
  #later: Cancel | undefined;

  constructor(parts: RouteReconcilerParts) {
    this.#parts = parts;
    this.#readVerdict = parts.judge.reader();
    this.#pace = new PassSchedule(parts.clock);
    this.#report = new RouteReport(parts, this.#pace);
    this.#subscription = new RenewedSubscription({
      clock: parts.clock,
      source: { kind: "route", groups: GROUPS },
      listener: { onMessages: (messages) => this.#take(messages), onOverrun: () => this.#lookSoon() },
      retryMilliseconds: SUBSCRIPTION_RETRY,
      onRefused: (error) =>
        parts.logger.error("no notifications about routes; subscribing again until it succeeds", { error }),
      onOpen: (wasRefused) => {
        if (wasRefused) parts.logger.info("notifications about routes arrive again");
        this.#lookSoon();
      },
    });
  }

  apply(): void {
    const { clock } = this.#parts;
    for (const name of this.#readVerdict()) this.#changed.add(name);
    this.#followServiceRanges();
    if (this.#changed.size > 0 && this.#isSynced && !this.#isStopped) {
      this.#following ??= clock.after(SETTLE_MILLISECONDS, () => this.#follow());
    }
  }

  #followServiceRanges(): void {
    const { serviceCidrs } = this.#parts.judge;
    if (serviceCidrs === this.#serviceCidrs) return;
    const isSame = serviceCidrs.map(formatCidr).join() === this.#serviceCidrs.map(formatCidr).join();
    this.#serviceCidrs = serviceCidrs;
    if (!isSame) this.#lookSoon();
  }

  synced(): void {
    this.#isSynced = true;
    this.#begin();
  }

  /** Subscribes to the kernel's notifications; while that is refused it is tried again, and only the resyncs remain. */
  async start(events: KernelNotifications): Promise<void> {
    await this.#subscription.start(events);
  }

  /** Whether the kernel has the desired state; false until an interface has this node's first InternalIP. */
  get areInForce(): boolean {
    return this.#isInForce && this.#view?.made?.podMtu !== undefined;
  }

  /** Returns this node's address between nodes in words, with the reasons against others of its Node; undefined so far. */
  get nodeAddress(): string | undefined {
    const { made } = this.#view ?? {};
    const { own, underlay } = made?.plan.surroundings ?? {};
    if (own?.primary === undefined) return undefined;
    const known = [...(this.#parts.judge.judged.problemsOf.get(own.name) ?? []), ...(made?.problems ?? [])];
    const against = known.filter((problem) => problem.startsWith(`Node ${own.name}: InternalIP`));
    const why = against.length === 0 ? "" : ` that other nodes can use: ${against.join("; ")}`;
    return `${formatAddress(own.primary)} by ${underlay?.name ?? "no link"}, the first InternalIP of Node ${own.name}${why}`;
  }

  /** The last known MTU of pods in bytes; undefined until it is first known. */
  get podMtu(): number | undefined {
    return this.#podMtu;
  }

  /** Returns the names of the links with default routes, as of the last read. */
  uplinks(): readonly string[] {
    const { routes = [], links = [] } = this.#view?.state ?? {};
    const indexes = new Set(routes.flatMap((route) => (route.destination === undefined ? route.outputInterface : [])));
    return links.flatMap(({ index, name }) => (indexes.has(index) ? [name] : []));
  }

  /** Sets the one function that is called when {@link podMtu} changes. */
  followPodMtu(follower: () => void): void {
    this.#mtuFollower = follower;
  }

  problems(): readonly string[] {
    return this.#report.problems.map((text) => (codeOf(text) === undefined ? problemLine("routes", text) : text));
  }

  async stop(): Promise<void> {
    this.#isStopped = true;
    this.#pending?.();
    this.#following?.();
    this.#next?.();
    this.#later?.();
    this.#subscription.stop();
    this.#parts.kernel.close();
  }

  #take(messages: readonly ReceivedMessage[]): void {
    if (this.#pending !== undefined || this.#isAgain) return;
    try {
      if (messages.some((message) => this.#isReason(message))) this.#lookSoon();
    } catch (error) {
      if (!(error instanceof DrawbridgeError)) throw error;
      this.#lookSoon();
    }
  }

  #isReason(message: ReceivedMessage): boolean {
    // A first pass that has not begun will read the change; one in progress may have read too early.
    if (this.#view === undefined) return this.#look !== undefined;
    return isReason(message, this.#view);
  }

  #lookSoon(): void {
    if (!this.#isSynced || this.#isStopped) return;
    if (this.#look !== undefined) this.#isAgain = true;
    else this.#pending ??= this.#parts.clock.after(this.#pace.pause, () => this.#begin());
  }

  /** Updates the entries that lead to changed Nodes. */
  #follow(): void {
    this.#following?.();
    this.#following = undefined;
    // Changes during a pass are handled after it.
    if (this.#look !== undefined || this.#changed.size === 0) return;
    const steps = this.#nodeSteps(this.#changed);
    this.#changed.clear();
    if (steps === undefined) {
      this.#isInForce = false;
      return this.#pace.pause > SETTLE_MILLISECONDS ? this.#lookSoon() : this.#begin();
    }
    const refused = new Set<string>();
    try {
      this.#carryOut(steps, refused);
    } catch (error) {
      if (!(error instanceof DrawbridgeError)) throw error;
      refused.add(error.message);
    }
    this.#report.done(steps);
    this.#tell(refused);
    this.#tellOnLink();
    if (refused.size > 0) this.#end(0, true);
  }

  #nodeSteps(names: ReadonlySet<string>): readonly Step[] | undefined {
    const { judge, nodeName } = this.#parts;
    if (!this.#isInForce || this.#view?.made === undefined) return undefined;
    const { state, made } = this.#view;
    return nodeSteps(names, judge.judged.nodes, { nodeName, plan: made.plan, tunnel: state.tunnel });
  }

  #begin(): void {
    this.#pending?.();
    this.#pending = undefined;
    this.#later?.();
    this.#spent = 0;
    this.#look = this.#pass();
    this.#goOn(this.#look);
  }

  #goOn(look: Slices<boolean>): void {
    const { clock } = this.#parts;
    const startedAt = clock.now();
    let isRefused = false;
    const isDone = workFor(SLICE_MILLISECONDS, clock, () => {
      const step = look.next();
      if (step.done === true) isRefused = step.value;
      return step.done !== true;
    });
    this.#spent += clock.now() - startedAt;
    if (!isDone) this.#next = clock.after(0, () => this.#goOn(look));
    else {
      this.#look = undefined;
      this.#end(this.#spent, isRefused);
    }
  }

  #end(spent: number, isRefused: boolean): void {
    const { clock, syncPeriod } = this.#parts;
    this.#isInForce = !isRefused;
    this.#tellOnLink();
    this.#later?.();
    this.#later = clock.after(this.#pace.ended(spent, isRefused, syncPeriod), () => this.#begin());
    if (this.#isAgain) {
      this.#isAgain = false;
      this.#lookSoon();
    }
    this.#follow();
  }

  /** Compares and reconciles everything once. @returns whether the kernel refused something */
  *#pass(): Slices<boolean> {
    const { kernel, judge, nodeName, options } = this.#parts;
    try {
      let state = yield* kernel.read();
      this.#view = viewOf(state, this.#view?.made);
      this.#changed.clear();
      const peers = peersOf(judge.judged, nodeName);
      const leftovers = leftoverSteps(peers, options, state);
      const refused = new Set<string>();
      this.#carryOut(leftovers, refused);
      if (leftovers.length > 0) state = yield* kernel.read();
      state = withOutward(peers, state, kernel);
      const plan = yield* planRoutes(peers, options, state);
      if ("unknown" in plan) {
        this.#view = viewOf(state, undefined);
        this.#report.tell([`${plan.unknown}: routes stay as they are`]);
        return false;
      }
      const frame = frameOf(plan, judge.serviceCidrs);
      const made = { plan, ...frame };
      this.#setPodMtu(frame.podMtu);
      const done: Step[] = [...leftovers];
      for (let round = 0; round < TUNNEL_ROUNDS && refused.size === 0; round++) {
        const steps = tunnelSteps(frame.tunnel, state);
        if (steps.length === 0) break;
        this.#carryOut(steps, refused);
        done.push(...steps);
        state = withOutward(peers, yield* kernel.read(), kernel);
      }
      this.#view = viewOf(state, made);
      const entries = yield* entrySteps(desiredEntries(plan, frame), state);
      for (let next = 0; next < entries.length; next += STEPS_AT_ONCE) {
        this.#carryOut(entries.slice(next, next + STEPS_AT_ONCE), refused);
        yield;
      }
      const removal = removalSteps(frame, state);
      this.#carryOut(removal, refused);
      if (removal.length > 0) this.#view = viewOf(yield* kernel.read(), made);
      this.#astray = astray(plan, peers.others, state, kernel);
      this.#report.done([...done, ...entries, ...removal]);
      this.#tell(refused);
      return refused.size > 0;
    } catch (error) {
      if (!(error instanceof DrawbridgeError)) throw error;
      this.#report.tell([error.message]);
      return true;
    }
  }

  #tellOnLink(): void {
    const plan = this.#view?.made?.plan;
    if (plan !== undefined) this.#parts.setOnLink?.(plan.onLink);
  }

  /** @param refused receives what the kernel refused. @throws DrawbridgeError when the kernel does not answer */
  #carryOut(steps: readonly Step[], refused: Set<string>): void {
    if (steps.length === 0) return;
    for (const { message } of this.#parts.kernel.apply(steps)) refused.add(message);
  }

  /** Sets the pods' MTU. An unknown one keeps the last: pods are still created while an interface is down. */
  #setPodMtu(mtu: number | undefined): void {
    if (mtu === undefined || mtu === this.#podMtu) return;
    this.#podMtu = mtu;
    this.#mtuFollower();
  }

  #tell(refused: ReadonlySet<string>): void {
    this.#report.tell([...standingProblems(this.#parts.judge.judged, this.#view), ...this.#astray, ...refused]);
  }
}
