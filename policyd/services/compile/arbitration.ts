import type { Protocol, Service } from "../../cluster/model.ts";
import { keyOf } from "./claims.ts";
import type { CompileContext } from "./context.ts";
import type { RuleFamily } from "./frontend_space.ts";
import type { Frontend } from "./frontends.ts";
import { familiesOf, frontendsOf } from "./frontends.ts";

/** A frontend as a key of maps: what its elements begin with, "4 167772161 tcp 80" or "4 tcp 30001". */
export type FrontendId = string;

/** How strong a claim to a frontend is; the lower number wins. */
type Rank = 0 | 1;

/** One for each frontend of each Service, kept by both. */
interface FrontendClaim {
  readonly id: FrontendId;
  /** Of the Service. */
  readonly key: string;
  readonly rank: Rank;
}

export function frontendId(frontend: Frontend, protocol: Protocol, family: RuleFamily): FrontendId {
  return [family, ...keyOf(frontend, protocol)].join(" ");
}

/**
 * Which Service has a frontend that several claim: a cluster IP, which the API server gave out, beats what people wrote
 * into other Services, and then the Service whose `namespace/name` sorts first has it. So the elements of a frontend come
 * from one Service alone, and nobody takes over a cluster IP by an externalIP.
 *
 * A change costs the frontends of the Service that changed and the claims to those.
 */
export class FrontendHolders {
  readonly #claims = new Map<string, readonly FrontendClaim[]>();
  /** By itself where it is the only one, as nearly all are. */
  readonly #claimants = new Map<FrontendId, FrontendClaim | readonly FrontendClaim[]>();

  /** The key of the Service that has a frontend; undefined where none claims it. */
  holder(id: FrontendId): string | undefined {
    let best: FrontendClaim | undefined;
    for (const claim of listOf(this.#claimants.get(id))) {
      const { key, rank } = claim;
      if (best === undefined || rank < best.rank || (rank === best.rank && key < best.key)) best = claim;
    }
    return best?.key;
  }

  /**
   * Takes over a Service as it is now, undefined for one that is gone.
   *
   * @returns the keys of other Services that gained or lost a frontend by it, to be compiled anew
   */
  replace(key: string, service: Service | undefined, context: CompileContext): ReadonlySet<string> {
    const before = this.#claims.get(key) ?? NONE;
    const claims = service === undefined ? NONE : claimsOf(service, context);
    const touched = new Set<string>();
    // Nearly always it is an endpoint that changes.
    if (areSame(before, claims)) return touched;
    const kept = new Set(before.length === 0 ? NONE : claims.map(({ id }) => id));
    for (const { id } of before) if (!kept.has(id)) this.#put(id, key, undefined, touched);
    for (const claim of claims) this.#put(claim.id, key, claim, touched);
    if (claims.length === 0) this.#claims.delete(key);
    else this.#claims.set(key, claims);
    return touched;
  }

  /**
   * Replaces what a Service claims of a frontend.
   *
   * @param touched gets the others who gain or lose the frontend
   */
  #put(id: FrontendId, key: string, claim: FrontendClaim | undefined, touched: Set<string>): void {
    const before = this.#claimants.get(id);
    if (before === undefined) {
      // Nearly always: nobody else gains or loses by it.
      if (claim !== undefined) this.#claimants.set(id, claim);
      return;
    }
    const old = this.holder(id);
    const others = listOf(before).filter((other) => other.key !== key);
    const claimants = claim === undefined ? others : others.concat([claim]);
    const [first] = claimants;
    if (first === undefined) this.#claimants.delete(id);
    else this.#claimants.set(id, claimants.length === 1 ? first : claimants);
    const now = this.holder(id);
    if (old !== now) for (const holder of [old, now]) if (holder !== undefined && holder !== key) touched.add(holder);
  }
}

const NONE: readonly never[] = [];

function listOf(claims: FrontendClaim | readonly FrontendClaim[] | undefined): readonly FrontendClaim[] {
  if (claims === undefined) return NONE;
  return "id" in claims ? [claims] : claims;
}

function areSame(a: readonly FrontendClaim[], b: readonly FrontendClaim[]): boolean {
  return a.length === b.length && a.every(({ id, rank }, index) => id === b[index]?.id && rank === b[index]?.rank);
}

/** No frontend twice. */
function claimsOf(service: Service, context: CompileContext): readonly FrontendClaim[] {
  const claims = new Map<FrontendId, FrontendClaim>();
  for (const family of familiesOf(service)) {
    for (const port of service.ports) {
      for (const frontend of frontendsOf(service, port, family, context)) {
        const id = frontendId(frontend, port.protocol, family);
        if (!claims.has(id)) claims.set(id, { id, key: service.key, rank: frontend.type === "cluster" ? 0 : 1 });
      }
    }
  }
  return [...claims.values()];
}
