import { SERVICE_ELEMENTS } from "../bounds.ts";
import type { BudgetBounds } from "../lib/budget.ts";
import type { Cancel } from "../lib/clock.ts";
import type { Slices } from "../lib/sliced_work.ts";
import type { ObjectConsumer } from "../component.ts";
import type { DesiredElement } from "../ruleset/desired/desired_element.ts";
import type { Commit } from "../ruleset/difference.ts";
import type { Haste } from "../ruleset/batch_window.ts";
import type { Ruleset } from "../ruleset/ruleset.ts";
import { INET_TABLE } from "../ruleset/table_part.ts";
import type { EndpointSlice, ObjectChange, Service } from "../../objects/model.ts";
import { usedTimeout } from "../../objects/timeout_choice.ts";
import { type AffinityTimeout, TimeoutClasses } from "./affinity/timeout_numbers.ts";
import { ProtectionFollower } from "./protection_follower.ts";
import type { FrontendRefusals, ProtectedSocketIndex } from "../protection/socket_index.ts";
import type { YieldedFrontends } from "./yielded_frontends.ts";
import { FrontendHolders, type FrontendId } from "./elements/arbitration.ts";
import type { CompileContext, NodePortAddresses } from "./rules/context.ts";
import { type CompiledService, compileFrontends, type FrontendClaims } from "./elements/compile_service.ts";
import { sourceHooks } from "./rules/check_part.ts";
import { portIdentity, portNumber } from "./rules/priority_number.ts";
import { RESTRICTED_PORTS } from "./rules/frontend_sets.ts";
import { nodePortElements, protectedElements } from "./elements/node_elements.ts";
import { ServiceIndex } from "./elements/service_index.ts";
import { roughSize } from "./elements/service_size.ts";
import type { ServiceFollower } from "./service_follower.ts";
import { ServiceRoom } from "./service_room.ts";
import { ServiceTurns, type ServiceTurnsParts } from "./service_turns.ts";

export interface ServiceProxyParts extends ServiceTurnsParts {
  readonly nodeName: string;
  /** The ruleset whose tables contain the parts of `services()`. Its owner starts and stops it. */
  readonly ruleset: Pick<Ruleset, "claim" | "provide" | "committed" | "isReconciled">;
  readonly nodePortAddresses: NodePortAddresses;
  readonly refuseExternalIps: boolean;
  /** The sockets that no Service gets; without it every Service gets what it claims. */
  readonly protection?: ProtectedSocketIndex;
  /** The ports of this node that Services do not take from others; without it they take them. */
  readonly yielded?: YieldedFrontends;
  readonly followers?: readonly ServiceFollower[];
  /** The bounds of the elements of Services; absent for the usual ones. */
  readonly bounds?: BudgetBounds;
}

/** The time after which the node's sockets are read again that could not be read, as for lack of a descriptor. */
const RETRY_MILLISECONDS = 1000;

/** A Service whose elements are claimed. */
interface Claimed {
  readonly compiled: CompiledService;
  readonly context: CompileContext;
  /** The number of its elements. */
  readonly size: number;
}

/**
 * Programs Services on this node. Each one's elements are claimed under its name, so the cost of a change depends only
 * on the size of the Services it affects. A large one is claimed frontend by frontend ({@link ServiceTurns}).
 */
export class ServiceProxy implements ObjectConsumer {
  readonly #parts: ServiceProxyParts;
  readonly #followers: readonly ServiceFollower[];
  readonly #index: ServiceIndex;
  readonly #holders = new FrontendHolders();
  readonly #timeouts = new TimeoutClasses();
  /** The Services that restrict their sources. */
  readonly #restricted = new Set<string>();
  #release: Cancel | undefined;
  #retry: Cancel | undefined;
  readonly #protection: ProtectionFollower;
  readonly #refusals: FrontendRefusals | undefined;
  /** Also says what may be served of each Service: nothing that makes elements or claims reads a whole one. */
  readonly #room: ServiceRoom;
  /** The frontends that large Services have claimed one by one, with the number of their elements. */
  readonly #frontends = new Map<string, Map<FrontendId, number>>();
  readonly #turns: ServiceTurns;

  constructor(parts: ServiceProxyParts) {
    this.#parts = parts;
    this.#followers = parts.followers ?? [];
    this.#room = new ServiceRoom(parts.bounds ?? SERVICE_ELEMENTS);
    this.#index = new ServiceIndex(parts.nodeName);
    const begin = (key: string): Slices<void> => this.#serve(key);
    this.#turns = new ServiceTurns(parts, begin, () => this.#work());
    this.#protection = new ProtectionFollower(parts.protection);
    this.#refusals = parts.yielded?.beside(parts.protection) ?? parts.protection;
    parts.protection?.askedChanged.subscribe(() => this.apply([]));
    parts.ruleset.committed.subscribe((commit) => this.#rulesInForce(commit));
    this.#claimNode();
  }

  apply(changes: readonly ObjectChange[]): void {
    const { services: changed, hasNodeChanged } = this.#index.apply(changes);
    const { protection } = this.#parts;
    const context = this.#context();
    const ofProtection = this.#protection.touched(context, this.#room.parts);
    if (ofProtection !== undefined) {
      this.#parts.ruleset.claim("protected sockets", protectedElements(protection?.sockets() ?? []));
    }
    const services = new Set([...changed, ...(ofProtection ?? [])]);
    const others = this.#assign(services, context);
    const touched = new Set([...services, ...others]);
    for (const key of this.#setTimeouts(touched)) touched.add(key);
    // Those that give up frontends come before those that get them.
    const leaving = [...this.#holders.leaving()].filter((key) => touched.has(key));
    for (const key of new Set([...leaving, ...touched])) {
      // One that gains or loses a frontend begins again.
      this.#turns.add(key, others.has(key) ? {} : this.#index.service(key));
    }
    if (hasNodeChanged) this.#claimNode();
    this.#work();
  }

  synced(): void {
    this.#turns.begin();
    this.#parts.yielded?.synced();
  }

  /** Yields the numbers of the ports whose clients stay, without the numbers of their timeouts. */
  *affinityPorts(): Generator<number> {
    for (const { service } of this.#room.parts.values()) {
      if (usedTimeout(service) === undefined) continue;
      for (const port of service.ports) yield portNumber(portIdentity(service.key, port), 0);
    }
  }

  problems(): readonly string[] {
    return this.#followers.flatMap((follower) => follower.problems?.() ?? []);
  }

  async stop(): Promise<void> {
    this.#release?.();
    this.#retry?.();
    this.#turns.stop();
    for (const follower of this.#followers) follower.stop?.();
  }

  #rulesInForce(commit: Commit | undefined): void {
    for (const follower of this.#followers) follower.rulesInForce?.(commit);
    this.#turns.inForce();
    // In another turn of the event loop, so that callers that wait for this commit are notified first.
    if (this.#timeouts.hasLeaving) this.#release ??= this.#parts.clock.after(0, () => this.#releaseTimeouts());
  }

  /**
   * Cuts Services to the room of their namespaces, and assigns their frontends. This comes before anything is compiled:
   * one Service gets in the same batch what another gives up.
   *
   * @returns the other Services that gain or lose a frontend
   */
  #assign(services: Iterable<string>, context: CompileContext): ReadonlySet<string> {
    const parts = [...services].map((key) => [key, this.#room.cut(key, this.#index.service(key), context)] as const);
    this.#decide(parts, context);
    const others = new Set<string>();
    for (const [key, service] of parts) {
      this.#protection.assigned(key, service, context);
      for (const other of this.#holders.replace(key, service, context)) others.add(other);
    }
    return others;
  }

  #decide(services: readonly (readonly [string, Service | undefined])[], context: CompileContext): void {
    const { yielded, clock } = this.#parts;
    yielded?.decide(services, context, (key, id) => this.#holders.claims(key, id));
    if (yielded === undefined || yielded.undecided.size === 0) return;
    this.#retry ??= clock.after(RETRY_MILLISECONDS, () => {
      this.#retry = undefined;
      const again = [...yielded.undecided].flatMap((key) => this.#index.service(key) ?? []);
      this.apply(again.map((object) => ({ type: "set", kind: "Service", key: object.key, object })));
    });
  }

  /** @returns the Services whose clients now stay for a different time */
  #setTimeouts(touched: ReadonlySet<string>): ReadonlySet<string> {
    const timeouts = [...touched].map((key) => {
      const service = this.#index.service(key);
      return [key, service && usedTimeout(service)] as const;
    });
    const changed = this.#timeouts.replace(timeouts);
    this.#claimTimeouts();
    return changed;
  }

  #releaseTimeouts(): void {
    this.#release = undefined;
    // The kernel may still have one of their numbers; the next commit tries again.
    if (!this.#parts.ruleset.isReconciled || this.#turns.size > 0) return;
    this.#timeouts.release();
    this.#claimTimeouts();
  }

  #claimTimeouts(): void {
    const { ruleset } = this.#parts;
    for (const { seconds, chains, claims } of this.#timeouts.takeRules()) {
      const owner = `affinity timeout ${seconds}`;
      ruleset.provide(owner, { table: INET_TABLE, sets: [], chains });
      ruleset.claim(owner, claims);
    }
  }

  #context(): CompileContext {
    const { nodeName, refuseExternalIps } = this.#parts;
    const refusals = this.#refusals;
    return { nodeName, refuseExternalIps, ...(refusals && { protection: refusals }), ...this.#index.nodeFacts() };
  }

  #work(): void {
    this.#turns.work();
    // When an endpoint ends that already got no new clients, no rule changes, and no commit follows.
    if (this.#parts.ruleset.isReconciled) this.#rulesInForce(undefined);
  }

  /** Replaces the claims of a Service. Lost frontends go first, so that other Services may get them. */
  *#serve(key: string): Slices<void> {
    if (this.#room.isToBeCutAgain(key)) {
      for (const other of this.#assign([key], this.#context())) this.#turns.add(other, {});
    }
    const part = this.#room.parts.get(key);
    const isNew = this.#holders.serve(key);
    yield* this.#drop(key, (id) => this.#holders.holder(id) === key);
    if (part === undefined) return this.#remove(key);
    const { service } = part;
    const slices = this.#index.slicesOf(key);
    const begun = this.#room.begin(key);
    const { compiled: all, size, context } = yield* this.#claimService(service, slices, isNew);
    const compiled = { ...all, problems: [...part.problems, ...all.problems] };
    this.#enqueue(this.#room.compiled(key, size, compiled.lacksRoom, begun));
    for (const follower of this.#followers) follower.compiled?.(service, compiled);
    this.#left(key);
    const served = { service, slices, context, holders: this.#holders };
    for (const follower of this.#followers) follower.replace?.(key, served);
  }

  *#claimService(service: Service, slices: readonly EndpointSlice[], isNew: boolean): Slices<Claimed> {
    const { key } = service;
    const rough = roughSize(service, slices);
    const isLarge = this.#turns.isLarge(rough);
    if (isLarge && !this.#frontends.has(key) && this.#holders.leaving().has(key)) this.#claim(ownerOf(key), []);
    if (isLarge) this.#left(key);
    const context = { ...this.#context(), room: this.#room.reserve(key, rough) };
    const timeoutOf = (seconds: number | undefined): AffinityTimeout => this.#timeouts.of(seconds);
    const compiling = compileFrontends(service, slices, context, this.#holders, timeoutOf);
    const hasRanges = service.loadBalancerSourceRanges !== undefined;
    if (isLarge && hasRanges) this.#setRestricted(key, true);
    const ofFrontends: (readonly DesiredElement[])[] = [];
    let size = 0;
    let isRestricted = false;
    let step = compiling.next();
    for (; step.done !== true; step = compiling.next()) {
      const { claims } = step.value;
      size += claims.length;
      isRestricted ||= hasRanges && claims.some(({ set }) => set === RESTRICTED_PORTS);
      if (isLarge) this.#claimFrontend(key, step.value);
      else ofFrontends.push(claims);
      yield;
    }
    const { claims: ownAddresses, served } = step.value;
    // The slice of a new Service often comes in the next message; both are then one batch (SYNC-09).
    const haste = isNew && slices.length === 0 ? "with its companion" : "usual";
    this.#claim(ownerOf(key), ownAddresses.concat(ofFrontends.flat()), haste);
    const ids = new Set(isLarge ? served.map(({ id }) => id) : []);
    yield* this.#drop(key, (id) => ids.has(id));
    this.#setRestricted(key, isRestricted);
    return { compiled: step.value, size: ownAddresses.length + size, context };
  }

  #remove(key: string): void {
    this.#claim(ownerOf(key), []);
    this.#enqueue(this.#room.remove(key));
    for (const follower of this.#followers) follower.removed?.(key);
    this.#setRestricted(key, false);
    this.#left(key);
    for (const follower of this.#followers) follower.replace?.(key, undefined);
  }

  #claimFrontend(key: string, { id, claims }: FrontendClaims): void {
    const frontends = this.#frontends.get(key) ?? new Map<FrontendId, number>();
    this.#frontends.set(key, frontends.set(id, claims.length));
    this.#claim(ownerOf(key, id), claims);
  }

  /** Gives up frontends that a large Service has claimed one by one. */
  *#drop(key: string, isKept: (id: FrontendId) => boolean): Slices<void> {
    const frontends = this.#frontends.get(key);
    for (const [id, elements] of frontends ?? []) {
      if (isKept(id)) continue;
      this.#turns.claimed(elements);
      this.#claim(ownerOf(key, id), []);
      frontends?.delete(id);
      yield;
    }
    if (frontends?.size === 0) this.#frontends.delete(key);
  }

  #claim(owner: string, claims: readonly DesiredElement[], haste?: Haste): void {
    this.#turns.claimed(claims.length);
    this.#parts.ruleset.claim(owner, claims, haste);
  }

  #left(key: string): void {
    for (const other of this.#holders.left(key)) this.#turns.add(other, {});
  }

  #enqueue(services: readonly string[]): void {
    for (const key of services) this.#turns.add(key, this.#index.service(key));
  }

  /** Provides the hooks that check sources while any Service has ranges of allowed sources. */
  #setRestricted(key: string, isRestricted: boolean): void {
    const before = this.#restricted.size;
    if (isRestricted) this.#restricted.add(key);
    else this.#restricted.delete(key);
    const { size } = this.#restricted;
    if ((before === 0) === (size === 0)) return;
    const chains = size === 0 ? [] : sourceHooks;
    this.#parts.ruleset.provide("source ranges", { table: INET_TABLE, sets: [], chains });
  }

  #claimNode(): void {
    const { ruleset, nodePortAddresses } = this.#parts;
    const facts = this.#index.nodeFacts();
    ruleset.claim("node ports", nodePortElements(nodePortAddresses, facts.primaryAddresses));
    for (const follower of this.#followers) follower.nodeChanged?.(facts);
  }
}

/** Returns the owner of a Service's claims, or of a frontend's: by `join` a flat string, as there are many. */
function ownerOf(...names: readonly string[]): string {
  return ["Service", ...names].join(" ");
}
