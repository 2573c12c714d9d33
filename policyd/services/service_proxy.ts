import type { AttachmentRecord } from "../../attachment/attachment.ts";
import { namespaceOf } from "../../objects/namespace_of.ts";
import { SERVICE_ELEMENTS } from "../bounds.ts";
import { Budget, type BudgetBounds } from "../lib/budget.ts";
import type { Cancel, Clock } from "../lib/clock.ts";
import type { ObjectConsumer } from "../component.ts";
import type { DesiredElement } from "../ruleset/desired/desired_element.ts";
import type { Commit } from "../ruleset/commit.ts";
import type { Ruleset } from "../ruleset/ruleset.ts";
import { INET_TABLE } from "../ruleset/table_part.ts";
import type { ObjectChange } from "../../objects/model.ts";
import { usedTimeout } from "../../objects/timeout_choice.ts";
import { type AffinityTimeout, TimeoutClasses } from "./affinity/timeout_numbers.ts";
import { ProtectionFollower } from "./protection_follower.ts";
import type { ProtectedSocketIndex } from "../protection/socket_index.ts";
import { FrontendHolders } from "./elements/arbitration.ts";
import type { CompileContext, NodePortAddresses } from "./rules/context.ts";
import { compileService } from "./elements/compile_service.ts";
import { sourceHooks } from "./rules/check_part.ts";
import { RESTRICTED_PORTS } from "./rules/frontend_sets.ts";
import { localPodElements, nodePortElements, protectedElements } from "./elements/node_elements.ts";
import { ServiceIndex } from "./elements/service_index.ts";
import type { ServiceFollower } from "./service_follower.ts";
import type { ServiceObserver } from "./service_observer.ts";

export interface ServiceProxyParts {
  readonly nodeName: string;
  /** The ruleset whose tables contain the parts of `services()`. Its owner starts and stops it. */
  readonly ruleset: Pick<Ruleset, "claim" | "provide" | "committed" | "isReconciled">;
  readonly clock: Pick<Clock, "after">;
  readonly nodePortAddresses: NodePortAddresses;
  readonly refuseExternalIps: boolean;
  /** The sockets that no Service gets; without it every Service gets what it claims. */
  readonly protection?: ProtectedSocketIndex;
  readonly followers?: readonly ServiceFollower[];
  readonly observers?: readonly ServiceObserver[];
  /** The bounds of the elements of Services; absent for the usual ones. */
  readonly bounds?: BudgetBounds;
}

/**
 * Programs Services on this node. Each one's elements are claimed under its name, so the cost of a change depends only
 * on the size of the Services it affects.
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
  readonly #protection: ProtectionFollower;
  readonly #problems = new Map<string, readonly string[]>();
  readonly #budget: Budget;
  /** The number of elements of each Service. */
  readonly #sizes = new Map<string, number>();

  constructor(parts: ServiceProxyParts) {
    this.#parts = parts;
    this.#followers = parts.followers ?? [];
    this.#budget = new Budget(parts.bounds ?? SERVICE_ELEMENTS);
    this.#index = new ServiceIndex(parts.nodeName);
    this.#protection = new ProtectionFollower(parts.protection);
    parts.protection?.askedChanged.subscribe(() => this.apply([]));
    parts.ruleset.committed.subscribe((commit) => this.#rulesInForce(commit));
    this.#claimNode();
  }

  apply(changes: readonly ObjectChange[]): void {
    const { services: changed, appeared, hasNodeChanged } = this.#index.apply(changes);
    const { nodeName, refuseExternalIps, protection } = this.#parts;
    const context = {
      nodeName,
      refuseExternalIps,
      ...(protection === undefined ? {} : { protection }),
      ...this.#index.nodeFacts(),
    };
    const ofProtection = this.#protection.touched(context, this.#index);
    if (this.#protection.haveSocketsChanged()) {
      this.#parts.ruleset.claim("protected sockets", protectedElements(protection?.sockets() ?? []));
    }
    const services = ofProtection.length === 0 ? changed : new Set([...changed, ...ofProtection]);
    // Frontends are assigned before anything is compiled: one Service gets in the same batch what another gives up.
    const touched = new Set(services);
    for (const key of services) {
      for (const other of this.#holders.replace(key, this.#index.service(key), context)) touched.add(other);
    }
    for (const key of this.#setTimeouts(touched)) touched.add(key);
    for (const key of touched) this.#claimService(key, context, appeared.has(key));
    if (hasNodeChanged) this.#claimNode();
    // When an endpoint ends that already got no new clients, no rule changes, and no commit follows.
    if (this.#parts.ruleset.isReconciled) this.#rulesInForce(undefined);
  }

  problems(): readonly string[] {
    return [...this.#problems.values(), ...this.#followers.map((follower) => follower.problems())].flat();
  }

  async stop(): Promise<void> {
    this.#release?.();
    for (const follower of this.#followers) follower.stop();
  }

  #rulesInForce(commit: Commit | undefined): void {
    for (const follower of this.#followers) follower.rulesInForce(commit);
    // In another turn of the event loop, so that callers that wait for this commit are notified first.
    if (this.#timeouts.hasLeaving) this.#release ??= this.#parts.clock.after(0, () => this.#releaseTimeouts());
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
    if (!this.#parts.ruleset.isReconciled) return;
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

  #claimService(key: string, context: CompileContext, isNew: boolean): void {
    const { ruleset } = this.#parts;
    const service = this.#index.service(key);
    this.#problems.delete(key);
    this.#setSize(key, 0);
    const slices = service === undefined ? [] : this.#index.slicesOf(key);
    const served = service === undefined ? undefined : { service, slices, context, holders: this.#holders };
    for (const follower of this.#followers) follower.replace(key, served);
    const { observers = [] } = this.#parts;
    if (service === undefined) {
      for (const observer of observers) observer.removed(key);
      this.#protection.removed(key);
      this.#setRestricted(key, false);
      return ruleset.claim(ownerOf(key), []);
    }
    const timeoutOf = (seconds: number | undefined): AffinityTimeout => this.#timeouts.of(seconds);
    const roomy = { ...context, room: this.#budget.roomOf(namespaceOf(key)) };
    const compiled = compileService(service, slices, roomy, this.#holders, timeoutOf);
    const { claims, problems, ignoredEndpoints } = compiled;
    this.#setSize(key, claims.length);
    for (const observer of observers) observer.compiled(service, compiled);
    this.#protection.compiled(service, compiled.refused);
    const hasRanges = service.loadBalancerSourceRanges !== undefined;
    this.#setRestricted(key, hasRanges && claims.some(({ set }) => set === RESTRICTED_PORTS));
    // The slice of a new Service often comes in the next message; both are then one batch (SYNC-09).
    ruleset.claim(ownerOf(key), claims, isNew && slices.length === 0 ? "with its companion" : "usual");
    const ignored =
      ignoredEndpoints.length === 0
        ? []
        : [`Service ${key}: ${ignoredEndpoints.length} endpoints with addresses that no machine can have`];
    if (problems.length + ignored.length > 0) this.#problems.set(key, [...problems, ...ignored]);
  }

  #setSize(key: string, size: number): void {
    this.#budget.change(namespaceOf(key), size - (this.#sizes.get(key) ?? 0));
    if (size === 0) this.#sizes.delete(key);
    else this.#sizes.set(key, size);
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
    for (const follower of this.#followers) follower.nodeChanged(facts);
  }
}

/** Returns the owner of a Service's claims. `join` makes a flat string for each, and concatenation does not. */
function ownerOf(service: string): string {
  return ["Service", service].join(" ");
}

/** Returns the elements that Services need for a pod of this node: those of its own addresses. */
export function serviceElements({ addresses }: AttachmentRecord): readonly DesiredElement[] {
  return localPodElements(addresses.map(({ address }) => address));
}
