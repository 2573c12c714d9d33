import type { AttachmentRecord } from "../../ipam/attachment.ts";
import type { Cidr } from "../../kernel/ip/cidr.ts";
import type { Dataplane } from "../dataplane.ts";
import type { Claim } from "../dataplane/claim.ts";
import type { Commit } from "../dataplane/commit.ts";
import type { Ruleset } from "../dataplane/ruleset.ts";
import type { ObjectChange } from "../source/object_source.ts";
import { FrontendHolders } from "./compile/arbitration.ts";
import type { CompileContext, NodePortAddresses } from "./compile/context.ts";
import { compileService } from "./compile/compile_service.ts";
import { localPodElements, nodePortElements, podRangeElements } from "./compile/node_elements.ts";
import { ServiceIndex } from "./compile/service_index.ts";
import type { ServiceFollower } from "./service_follower.ts";
import type { ServiceObserver } from "./service_observer.ts";

export interface ServicesDataplaneParts {
  readonly nodeName: string;
  /** Whose tables have the part `services()`. Whoever owns it starts and stops it. */
  readonly ruleset: Pick<Ruleset, "claim" | "follow" | "isSynced">;
  /** Pod networks beside those the Node objects name. */
  readonly podCidrs: readonly Cidr[];
  /** Ranges of Services beside those of ServiceCIDR objects. */
  readonly serviceCidrs?: readonly Cidr[];
  readonly nodePortAddresses: NodePortAddresses;
  readonly refuseExternalIps: boolean;
  readonly followers?: readonly ServiceFollower[];
  readonly observers?: readonly ServiceObserver[];
}

/**
 * Services on this node: each one's elements are claimed under its name, so a change costs what the Services it touches
 * are made of.
 */
export class ServicesDataplane implements Dataplane {
  readonly #parts: ServicesDataplaneParts;
  readonly #followers: readonly ServiceFollower[];
  readonly #index: ServiceIndex;
  readonly #holders = new FrontendHolders();
  readonly #problems = new Map<string, readonly string[]>();

  constructor(parts: ServicesDataplaneParts) {
    this.#parts = parts;
    this.#followers = parts.followers ?? [];
    const { nodeName, podCidrs, serviceCidrs = [] } = parts;
    this.#index = new ServiceIndex(nodeName, { ownCidrs: podCidrs, serviceCidrs });
    parts.ruleset.follow((commit) => this.#rulesInForce(commit));
    this.#claimNode();
    this.#claimPodRanges();
  }

  apply(changes: readonly ObjectChange[]): void {
    const { services, hasNodeChanged, havePodCidrsChanged } = this.#index.apply(changes);
    const { nodeName, refuseExternalIps } = this.#parts;
    const context = { nodeName, refuseExternalIps, ...this.#index.nodeFacts() };
    // Who has a frontend is settled before anything is compiled: what one Service lets go is another's in the same batch.
    const touched = new Set(services);
    for (const key of services) {
      for (const other of this.#holders.replace(key, this.#index.service(key), context)) touched.add(other);
    }
    for (const key of touched) this.#claimService(key, context);
    if (hasNodeChanged) this.#claimNode();
    if (havePodCidrsChanged) this.#claimPodRanges();
    // An endpoint that ends after it got no new clients any more changes no rule.
    if (this.#parts.ruleset.isSynced) this.#rulesInForce(undefined);
  }

  synced(): void {
    this.#index.synced();
  }

  /** What Services need of a pod is claimed with what binds it to its port ({@link serviceElements}). */
  async register(): Promise<void> {}

  async unregister(): Promise<void> {}

  problems(): readonly string[] {
    return [...this.#problems.values(), ...this.#followers.map((follower) => follower.problems())].flat();
  }

  async stop(): Promise<void> {
    for (const follower of this.#followers) follower.stop();
  }

  #rulesInForce(commit: Commit | undefined): void {
    for (const follower of this.#followers) follower.rulesInForce(commit);
  }

  #claimService(key: string, context: CompileContext): void {
    const { ruleset } = this.#parts;
    const service = this.#index.service(key);
    this.#problems.delete(key);
    const slices = service === undefined ? [] : this.#index.slicesOf(key);
    const served = service === undefined ? undefined : { service, slices, context, holders: this.#holders };
    for (const follower of this.#followers) follower.replace(key, served);
    const { observers = [] } = this.#parts;
    if (service === undefined) {
      for (const observer of observers) observer.removed(key);
      return ruleset.claim(`Service ${key}`, []);
    }
    const compiled = compileService(service, slices, context, this.#holders);
    const { claims, problems, ignoredEndpoints } = compiled;
    for (const observer of observers) observer.compiled(service, compiled);
    ruleset.claim(`Service ${key}`, claims);
    const ignored =
      ignoredEndpoints.length === 0 ? [] : [`Service ${key}: ${ignoredEndpoints.length} endpoints nobody can have`];
    if (problems.length + ignored.length > 0) this.#problems.set(key, [...problems, ...ignored]);
  }

  #claimNode(): void {
    const { ruleset, nodePortAddresses } = this.#parts;
    const facts = this.#index.nodeFacts();
    ruleset.claim("node ports", nodePortElements(nodePortAddresses, facts.primaryAddresses));
    for (const follower of this.#followers) follower.nodeChanged(facts);
  }

  #claimPodRanges(): void {
    const { ruleset, podCidrs } = this.#parts;
    ruleset.claim("pod ranges", podRangeElements([...podCidrs, ...this.#index.podCidrs()]));
  }
}

/** What Services need to know of a pod of this node: which addresses are its own. */
export function serviceElements({ addresses }: AttachmentRecord): readonly Claim[] {
  return localPodElements(addresses.map(({ address }) => address));
}
