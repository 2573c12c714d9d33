import type { Machine } from "../machine.ts";
import { attempt, DrawbridgeError } from "../../kernel/error.ts";
import type { KernelNotifications } from "../../kernel/notifications/notifications.ts";
import { type Address, formatAddress } from "../../kernel/ip/address.ts";
import type { Cidr } from "../../kernel/ip/cidr.ts";
import type { ReceivedMessage } from "../../kernel/netlink/message.ts";
import { codeOf, problemLine } from "../problems/problem.ts";
import { ControlLoop, type NextPass } from "../lib/control_loop.ts";
import type { VerdictReader } from "../../objects/nodes/node_judge.ts";
import { problemsIn } from "../../objects/nodes/node_verdict.ts";
import type { ObjectConsumer } from "../component.ts";
import { NodeProblems } from "../events/node_problems.ts";
import { RenewedSubscription } from "../lib/renewed_subscription.ts";
import { Signal } from "../lib/signal.ts";
import { type Slices, workFor } from "../lib/sliced_work.ts";
import { desiredRoutes } from "./desired.ts";
import { entrySteps, removalSteps, tunnelProblems, tunnelSteps } from "./difference.ts";
import type { RouteKernel, Step } from "./route_kernel/kernel_state.ts";
import { leftoverSteps } from "./leftovers.ts";
import { astray, withOutward } from "./lookups.ts";
import { PassSchedule } from "../lib/pass_schedule.ts";
import { isReason, type View, viewOf } from "./relevance.ts";
import { clusterNodes, type RouteOptions, uplinksOf } from "./surroundings.ts";

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

export interface RouteReconcilerParts extends Pick<Machine, "clock" | "logger" | "events" | "nodeName" | "judge"> {
  readonly kernel: RouteKernel;
  readonly options: RouteOptions;
  /** Milliseconds between two resyncs. */
  readonly syncPeriod: number;
  /** Receives the addresses of all nodes that are reached without a router, after each pass. */
  readonly setOnLink?: (addresses: ReadonlySet<Address>) => void;
}

/**
 * Reconciles the routes to the pods of other nodes and to the Services' ranges, and the tunnel that some of them need.
 *
 * A pass compares the desired with the observed state: when ServiceCIDRs or Nodes change, when the kernel reports a
 * change that may concern routes, and every sync period. It works in slices. Nothing is written before all objects have
 * been read once, and everything stays in the kernel when the daemon ends.
 */
export class RouteReconciler implements ObjectConsumer {
  /** Emits when {@link podMtu} has changed. */
  readonly podMtuChanged = new Signal();
  readonly #parts: RouteReconcilerParts;
  readonly #readVerdict: VerdictReader;
  readonly #pace: PassSchedule;
  readonly #problems: NodeProblems;
  readonly #subscription: RenewedSubscription;
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
    const { serviceCidrs } = this.#parts.judge;
    const areRangesNew = serviceCidrs !== this.#serviceCidrs;
    this.#serviceCidrs = serviceCidrs;
    if (this.#readVerdict().size > 0 || areRangesNew) this.#lookSoon();
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
    return this.#isInForce && this.#view?.desired?.surroundings.podMtu !== undefined;
  }

  /** Returns this node's address between nodes in words, with the reasons against others of its Node; undefined so far. */
  get nodeAddress(): string | undefined {
    const { desired } = this.#view ?? {};
    const { own, underlay } = desired?.surroundings ?? {};
    const [primary] = own?.addresses ?? [];
    if (own === undefined || primary === undefined) return undefined;
    const known = [...(this.#parts.judge.judged.problemsOf.get(own.name) ?? []), ...(desired?.problems ?? [])];
    const against = known.filter((problem) => problem.startsWith(`Node ${own.name}: InternalIP`));
    const why = against.length === 0 ? "" : ` that other nodes can use: ${against.join("; ")}`;
    return `${formatAddress(primary)} by ${underlay?.name ?? "no link"}, the first InternalIP of Node ${own.name}${why}`;
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
    this.#subscription.stop();
    await this.#loop.stop();
    this.#parts.kernel.close();
  }

  #take(messages: readonly ReceivedMessage[]): void {
    if (this.#isDirty) return;
    const isRelevant = attempt(
      () => messages.some((message) => this.#isReason(message)),
      () => true,
    );
    if (isRelevant) this.#lookSoon();
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
    this.#isInForce = !isRefused;
    const next = this.#pace.ended(this.#spent, isRefused, this.#parts.syncPeriod);
    this.#spent = 0;
    if (this.#isDirty) this.#lookSoon();
    return next;
  }

  /** Compares and reconciles everything once. @returns whether the kernel refused something */
  *#pass(): Slices<boolean> {
    const { kernel, judge, nodeName, options } = this.#parts;
    try {
      let state = yield* kernel.read();
      this.#view = viewOf(state, this.#view?.desired);
      const nodes = clusterNodes(judge.judged, nodeName);
      const leftovers = leftoverSteps(nodes, options, state);
      const refused = new Set<string>();
      this.#carryOut(leftovers, refused);
      if (leftovers.length > 0) state = yield* kernel.read();
      state = withOutward(nodes, state, kernel);
      const desired = yield* desiredRoutes(nodes, judge.serviceCidrs, options, state);
      if ("unknown" in desired) {
        this.#view = viewOf(state, undefined);
        this.#problems.set([`${desired.unknown}: routes stay as they are`]);
        return false;
      }
      this.#setPodMtu(desired.surroundings.podMtu);
      const done: Step[] = [...leftovers];
      for (let round = 0; round < TUNNEL_ROUNDS && refused.size === 0; round++) {
        const steps = tunnelSteps(desired.tunnel, state);
        if (steps.length === 0) break;
        this.#carryOut(steps, refused);
        done.push(...steps);
        state = withOutward(nodes, yield* kernel.read(), kernel);
      }
      this.#view = viewOf(state, desired);
      const entries = yield* entrySteps(desired, state);
      for (let next = 0; next < entries.length; next += STEPS_AT_ONCE) {
        this.#carryOut(entries.slice(next, next + STEPS_AT_ONCE), refused);
        yield;
      }
      const removal = removalSteps(desired, state);
      this.#carryOut(removal, refused);
      if (removal.length > 0) this.#view = viewOf(yield* kernel.read(), desired);
      this.#parts.setOnLink?.(desired.onLink);
      this.#astray = astray(desired, nodes.others, state, kernel);
      this.#logSteps([...done, ...entries, ...removal]);
      this.#tell(refused);
      return refused.size > 0;
    } catch (error) {
      if (!(error instanceof DrawbridgeError)) throw error;
      this.#problems.set([error.message]);
      return true;
    }
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
    const { state, desired } = this.#view ?? {};
    const standing = desired && state ? [...desired.problems, ...tunnelProblems(desired.tunnel, state)] : [];
    this.#problems.set([...problemsIn(this.#parts.judge.judged), ...standing, ...this.#astray, ...refused]);
  }
}
