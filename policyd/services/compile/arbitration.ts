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

interface FrontendClaim {
  readonly id: FrontendId;
  readonly rank: Rank;
}

interface Claimant {
  /** Of a Service. */
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
  /** A list, as nearly all frontends are claimed by one. */
  readonly #claimants = new Map<FrontendId, readonly Claimant[]>();

  /** The key of the Service that has a frontend; undefined where none claims it. */
  holder(id: FrontendId): string | undefined {
    let best: Claimant | undefined;
    for (const claimant of this.#claimants.get(id) ?? []) {
      const { key, rank } = claimant;
      if (best === undefined || rank < best.rank || (rank === best.rank && key < best.key)) best = claimant;
    }
    return best?.key;
  }

  /**
   * Takes over a Service as it is now, undefined for one that is gone.
   *
   * @returns the keys of other Services that gained or lost a frontend by it, to be compiled anew
   */
  replace(key: string, service: Service | undefined, context: CompileContext): ReadonlySet<string> {
    const before = ranksOf(this.#claims.get(key) ?? []);
    const claims = service === undefined ? [] : claimsOf(service, context);
    const after = ranksOf(claims);
    const touched = new Set<string>();
    for (const id of before.keys()) if (!after.has(id)) this.#claim(id, key, undefined, touched);
    for (const [id, rank] of after) if (before.get(id) !== rank) this.#claim(id, key, rank, touched);
    if (claims.length === 0) this.#claims.delete(key);
    else this.#claims.set(key, claims);
    return touched;
  }

  /** @param touched gets the others who gain or lose the frontend */
  #claim(id: FrontendId, key: string, rank: Rank | undefined, touched: Set<string>): void {
    const old = this.holder(id);
    const others = (this.#claimants.get(id) ?? []).filter((claimant) => claimant.key !== key);
    const claimants = rank === undefined ? others : others.concat([{ key, rank }]);
    if (claimants.length === 0) this.#claimants.delete(id);
    else this.#claimants.set(id, claimants);
    const now = this.holder(id);
    if (old !== now) for (const holder of [old, now]) if (holder !== undefined && holder !== key) touched.add(holder);
  }
}

function ranksOf(claims: readonly FrontendClaim[]): ReadonlyMap<FrontendId, Rank> {
  return new Map(claims.map(({ id, rank }) => [id, rank]));
}

/** No frontend twice. */
function claimsOf(service: Service, context: CompileContext): readonly FrontendClaim[] {
  const claims = new Map<FrontendId, FrontendClaim>();
  for (const family of familiesOf(service)) {
    for (const port of service.ports) {
      for (const frontend of frontendsOf(service, port, family, context)) {
        const id = frontendId(frontend, port.protocol, family);
        if (!claims.has(id)) claims.set(id, { id, rank: frontend.type === "cluster" ? 0 : 1 });
      }
    }
  }
  return [...claims.values()];
}
