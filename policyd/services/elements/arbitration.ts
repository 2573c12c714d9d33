import type { Family } from "../../../kernel/ip/address.ts";
import type { Protocol, Service } from "../../../objects/model.ts";
import { keyOf } from "./frontend_element.ts";
import type { CompileContext } from "../rules/context.ts";
import type { Frontend } from "../../../objects/socket_refusal.ts";
import { familiesOf, frontendsOf } from "./frontends.ts";
import { listOf, type OneOrMore, putList } from "../../lib/one_or_more.ts";

/** A frontend as a key of maps, with the fields that its elements begin with: "4 167772161 tcp 80" or "4 tcp 30001". */
export type FrontendId = string;

/**
 * The precedence of claims to a frontend; the lower number wins. Cluster IPs and node ports are assigned by the API
 * server, addresses of load balancers by a controller, but an external IP is whatever a user wrote. An external IP that
 * is an address of a node also yields to the node port of another Service: a claim of rank `BEHIND` records this at the
 * node port and never gets a frontend.
 */
const Rank = { CLUSTER: 0, GIVEN: 1, EXTERNAL: 2, BEHIND: 3 } as const;
type Rank = (typeof Rank)[keyof typeof Rank];

/** A claim of one Service to one frontend, indexed by both. */
interface FrontendClaim {
  readonly id: FrontendId;
  /** The key of the Service. */
  readonly key: string;
  readonly rank: Rank;
  readonly createdAt: number;
  /** For an external IP at a node's address: the node port whose holder has precedence. */
  readonly behind?: FrontendId;
  /** For a claim of rank `BEHIND`: the external IPs that it stands for. */
  readonly external?: readonly FrontendId[];
}

export function frontendId(frontend: Frontend, protocol: Protocol, family: Family): FrontendId {
  return [family, ...keyOf(frontend, protocol)].join(" ");
}

/**
 * Decides which Service gets a frontend that several claim: by {@link Rank}, then the older one, then the Service whose
 * `namespace/name` sorts first. So all elements of a frontend come from one Service, and no externalIP takes over what
 * another Service has: a cluster IP, a load balancer's address, a node port or an externalIP (CLAIM-05).
 *
 * The cost of a change depends only on the frontends of the Service that changed and the claims to them.
 */
export class FrontendHolders {
  /** The claims of each Service; without a list if it has only one, as nearly all do. */
  readonly #claims = new Map<string, OneOrMore<FrontendClaim>>();
  /** The claims to each frontend, in the same way, the one that has it first. */
  readonly #claimants = new Map<FrontendId, OneOrMore<FrontendClaim>>();
  /** The frontends that several Services claim. */
  readonly #contested = new Set<FrontendId>();
  /** The Services that may have elements. */
  readonly #served = new Set<string>();
  /** Frontends that a Service has lost whose elements it still has: nobody else gets them before. */
  readonly #leaving = new Map<FrontendId, string>();

  /** Returns the key of the Service that has a frontend; undefined if none claims it. */
  holder(id: FrontendId): string | undefined {
    const best = this.#best(id);
    return best?.rank === Rank.BEHIND ? undefined : best?.key;
  }

  #best(id: FrontendId): FrontendClaim | undefined {
    return listOf(this.#claimants.get(id))[0];
  }

  /** Returns whether a Service claims a frontend. */
  claims(key: string, id: FrontendId): boolean {
    return listOf(this.#claimants.get(id)).some((claim) => claim.key === key);
  }

  /** Returns the key of the other Service that has a frontend which this one claims; undefined if this one has it. */
  rival(key: string, frontend: Frontend, protocol: Protocol, family: Family): string | undefined {
    // Nearly always no frontend is contested, and no id is needed.
    if (this.#contested.size + this.#leaving.size === 0) return undefined;
    const id = frontendId(frontend, protocol, family);
    const former = this.#leaving.get(id) ?? key;
    if (former !== key) return former;
    const holder = this.holder(id);
    if (holder !== key) return holder;
    const { behind } = listOf(this.#claimants.get(id)).find((claim) => claim.key === key) ?? {};
    const first = behind === undefined ? key : this.holder(behind);
    return first === key ? undefined : first;
  }

  /** Returns the Services that still have elements of frontends that they have lost. */
  leaving(): ReadonlySet<string> {
    return this.#leaving.size === 0 ? NOBODY : new Set(this.#leaving.values());
  }

  /** Notes that a Service gets elements of the frontends that it has. @returns whether it had none before */
  serve(key: string): boolean {
    return this.#served.size < this.#served.add(key).size;
  }

  /**
   * Notes that a Service has no elements of lost frontends any more.
   *
   * @returns the Services that get these frontends and have to be compiled again
   */
  left(key: string): ReadonlySet<string> {
    const touched = new Set<string>();
    for (const [id, former] of this.#leaving) {
      if (former !== key) continue;
      this.#leaving.delete(id);
      const holder = this.holder(id);
      if (holder !== undefined && holder !== key) touched.add(holder);
    }
    if (!this.#claims.has(key)) this.#served.delete(key);
    return touched;
  }

  /**
   * Replaces the claims of a Service by those of its present state, undefined for one that is gone.
   *
   * @param service only what may be served of it
   * @returns the keys of other Services that gained or lost a frontend and have to be compiled again
   */
  replace(key: string, service: Service | undefined, context: CompileContext): ReadonlySet<string> {
    const before = listOf(this.#claims.get(key));
    const claims = service === undefined ? NONE : claimsOf(service, context);
    // Nearly always only an endpoint has changed.
    if (areSame(before, claims)) return NOBODY;
    const touched = new Set<string>();
    if (before.length > 0) {
      const kept = new Set(claims.map(({ id }) => id));
      for (const { id } of before) if (!kept.has(id)) this.#put(id, key, undefined, touched);
    }
    for (const claim of claims) this.#put(claim.id, key, claim, touched);
    putList(this.#claims, key, claims);
    return touched;
  }

  #leave(id: FrontendId, key: string | undefined): void {
    if (key !== undefined && this.#served.has(key) && !this.#leaving.has(id)) this.#leaving.set(id, key);
  }

  /**
   * Replaces the claim of a Service to a frontend.
   *
   * @param touched receives the other Services that gain or lose the frontend
   */
  #put(id: FrontendId, key: string, claim: FrontendClaim | undefined, touched: Set<string>): void {
    const before = this.#claimants.get(id);
    if (before === undefined) {
      // Nearly always no other Service gains or loses the frontend.
      if (claim !== undefined) this.#claimants.set(id, claim);
      return;
    }
    const old = this.holder(id);
    const others = listOf(before).filter((other) => other.key !== key);
    const claimants =
      claim === undefined
        ? others
        : others.toSpliced(others.findLastIndex((other) => isBefore(other, claim)) + 1, 0, claim);
    putList(this.#claimants, id, claimants);
    if (claimants.length > 1) this.#contested.add(id);
    else this.#contested.delete(id);
    const now = this.holder(id);
    if (old === now) return;
    this.#leave(id, old);
    for (const holder of [old, now]) if (holder !== undefined && holder !== key) touched.add(holder);
    const isFirst = (holder: string | undefined, one: FrontendClaim): boolean =>
      holder === undefined || holder === one.key;
    for (const one of claimants) {
      if (one.rank !== Rank.BEHIND || one.key === key || isFirst(old, one) === isFirst(now, one)) continue;
      if (one.external?.some((other) => this.holder(other) === one.key) === true) touched.add(one.key);
    }
  }
}

const NONE: readonly never[] = [];
const NOBODY: ReadonlySet<string> = new Set();

function areSame(a: readonly FrontendClaim[], b: readonly FrontendClaim[]): boolean {
  const isSame = (one: FrontendClaim, other: FrontendClaim | undefined): boolean =>
    one.id === other?.id && one.rank === other.rank && one.createdAt === other.createdAt && one.behind === other.behind;
  return a.length === b.length && a.every((one, index) => isSame(one, b[index]));
}

function isBefore(a: FrontendClaim, b: FrontendClaim): boolean {
  if (a.rank !== b.rank) return a.rank < b.rank;
  return a.createdAt === b.createdAt ? a.key < b.key : a.createdAt < b.createdAt;
}

/** Returns the claims of a Service, each frontend once. */
function claimsOf(service: Service, context: CompileContext): readonly FrontendClaim[] {
  const { key, createdAt } = service;
  const claims: FrontendClaim[] = [];
  const behind = new Map<FrontendId, FrontendId[]>();
  for (const family of familiesOf(service)) {
    for (const port of service.ports) {
      const { protocol } = port;
      for (const frontend of frontendsOf(service, port, family, context)) {
        const claim = { id: frontendId(frontend, protocol, family), key, rank: rankOf(frontend), createdAt };
        if (frontend.type === "external" && context.protection?.isNodeAddress(frontend.address) === true) {
          const nodePort = frontendId({ type: "node port", port: frontend.port }, protocol, family);
          claims.push({ ...claim, behind: nodePort });
          const external = behind.get(nodePort) ?? [];
          behind.set(nodePort, external);
          external.push(claim.id);
        } else claims.push(claim);
      }
    }
  }
  // The copy has exactly the needed length; an array that was pushed to has room for 16 more elements.
  if (claims.length + behind.size < 2) return claims.slice();
  const ids = new Set<FrontendId>();
  const nodePorts = [...behind].map(([id, external]) => ({ id, key, rank: Rank.BEHIND, createdAt, external }));
  return claims.concat(nodePorts).filter(({ id }) => ids.size < ids.add(id).size);
}

function rankOf({ type }: Frontend): Rank {
  if (type === "cluster") return Rank.CLUSTER;
  return type === "external" ? Rank.EXTERNAL : Rank.GIVEN;
}
