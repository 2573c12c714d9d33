import { DrawbridgeError } from "../../kernel/error.ts";
import type { KernelNotifications } from "../../kernel/notifications/notifications.ts";
import { type Address, formatAddress } from "../../kernel/ip/address.ts";
import { type Cidr, formatCidr } from "../../kernel/ip/cidr.ts";
import type { ReceivedMessage } from "../../kernel/netlink/message.ts";
import { codeOf, problemLine } from "../problems/problem.ts";
import type { Cancel, Clock } from "../lib/clock.ts";
import { ControlLoop, type NextPass } from "../lib/control_loop.ts";
import type { NodeJudge, VerdictReader } from "../../objects/nodes/node_judge.ts";
import type { ObjectConsumer } from "../component.ts";
import { NodeProblems } from "../events/node_problems.ts";
import type { NoticeSink } from "../events/notice.ts";
import { RenewedSubscription } from "../lib/renewed_subscription.ts";
import { Signal } from "../lib/signal.ts";
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
import { type RouteOptions, uplinksOf } from "./surroundings.ts";
import { isReason, standingProblems, type View, viewOf } from "./view.ts";

/** The longest time in milliseconds that a pass takes the thread before it yields. */
const SLICE_MILLISECONDS = 8;
/** Changes sent to the kernel between two yields; they take a millisecond or two. */
const STEPS_AT_ONCE = 64;
/** Enough rounds to create the tunnel, to set what needs its index, and to check the result. */
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
  /** Emits when {@link podMtu} has changed. */
  readonly podMtuChanged = new Signal();
  readonly #parts: RouteReconcilerParts;
  readonly #readVerdict: VerdictReader;
  readonly #pace: PassSchedule;
  readonly #problems: NodeProblems;
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
  #isSynced = false;
  readonly #loop: ControlLoop;
  /** The pass in progress, of which the loop runs one slice after the other. */
  #look: Slices<boolean> | undefined;
  /** Milliseconds that it has taken so far. */
  #spent = 0;
  /** Whether routes may have changed since the last pass began. */
  #isDirty = false;
  #following: Cancel | undefined;

  constructor(parts: RouteReconcilerParts) {
    this.#parts = parts;
    this.#readVerdict = parts.judge.reader();
    this.#pace = new PassSchedule(parts.clock);
    this.#problems = new NodeProblems(parts, "RoutesProblem", "routes are not all in the desired state");
    this.#loop = new ControlLoop({ clock: parts.clock, pass: () => this.#slice(), pause: () => this.#pace.pause });
    this.#subscription = new RenewedSubscription({
      clock: parts.clock,
      source: { kind: "route", groups: GROUPS },
      listener: { onMessages: (messages) => this.#take(messages), onOverrun: () => this.#lookSoon() },
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
    if (this.#changed.size > 0 && this.#isSynced && !this.#loop.isStopped) {
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
    this.#loop.run();
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
    return uplinksOf(routes, links);
  }

  problems(): readonly string[] {
    return this.#problems.present.map((text) => (codeOf(text) === undefined ? problemLine("routes", text) : text));
  }

  async stop(): Promise<void> {
    this.#following?.();
    this.#subscription.stop();
    await this.#loop.stop();
    this.#parts.kernel.close();
  }

  #take(messages: readonly ReceivedMessage[]): void {
    if (this.#isDirty) return;
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
    this.#isDirty = true;
    if (this.#isSynced && this.#look === undefined) this.#loop.enqueue();
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
      return this.#pace.pause > SETTLE_MILLISECONDS ? this.#lookSoon() : this.#loop.run();
    }
    const refused = new Set<string>();
    try {
      this.#carryOut(steps, refused);
    } catch (error) {
      if (!(error instanceof DrawbridgeError)) throw error;
      refused.add(error.message);
    }
    this.#logSteps(steps);
    this.#tell(refused);
    this.#tellOnLink();
    if (refused.size > 0) this.#loop.within(this.#ended(0, true));
  }

  #nodeSteps(names: ReadonlySet<string>): readonly Step[] | undefined {
    const { judge, nodeName } = this.#parts;
    if (!this.#isInForce || this.#view?.made === undefined) return undefined;
    const { state, made } = this.#view;
    return nodeSteps(names, judge.judged.nodes, { nodeName, plan: made.plan, tunnel: state.tunnel });
  }

  #slice(): NextPass {
    const { clock } = this.#parts;
    const startedAt = clock.now();
    if (this.#look === undefined) this.#isDirty = false;
    const look = this.#look ?? this.#pass();
    this.#look = look;
    let isRefused = false;
    const isDone = workFor(SLICE_MILLISECONDS, clock, () => {
      const step = look.next();
      if (step.done === true) isRefused = step.value;
      return step.done !== true;
    });
    this.#spent += clock.now() - startedAt;
    if (!isDone) return 0;
    this.#look = undefined;
    const next = this.#ended(this.#spent, isRefused);
    this.#spent = 0;
    if (this.#isDirty) this.#lookSoon();
    this.#follow();
    return next;
  }

  /** Notes that the routes were reconciled. @returns milliseconds until all of them are compared again */
  #ended(spent: number, isRefused: boolean): number {
    this.#isInForce = !isRefused;
    this.#tellOnLink();
    return this.#pace.ended(spent, isRefused, this.#parts.syncPeriod);
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
        this.#problems.set([`${plan.unknown}: routes stay as they are`]);
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
      this.#logSteps([...done, ...entries, ...removal]);
      this.#tell(refused);
      return refused.size > 0;
    } catch (error) {
      if (!(error instanceof DrawbridgeError)) throw error;
      this.#problems.set([error.message]);
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

  #logSteps(steps: readonly Step[]): void {
    const { logger } = this.#parts;
    if (steps.length === 0) return;
    const isOften = this.#pace.changed();
    const removed = steps.filter(({ type }) => type.startsWith("delete")).length;
    const fields = { set: steps.length - removed, removed };
    if (isOften) logger.debug("routes changed", fields);
    else logger.info("routes changed", fields);
  }

  /** Sets the pods' MTU. An unknown one keeps the last: pods are still created while an interface is down. */
  #setPodMtu(mtu: number | undefined): void {
    if (mtu === undefined || mtu === this.#podMtu) return;
    this.#podMtu = mtu;
    this.podMtuChanged.emit();
  }

  #tell(refused: ReadonlySet<string>): void {
    this.#problems.set([...standingProblems(this.#parts.judge.judged, this.#view), ...this.#astray, ...refused]);
  }
}
