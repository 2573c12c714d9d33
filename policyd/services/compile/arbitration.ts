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

export function frontendId(frontend: Frontend, protocol: Protocol, family: RuleFamily): FrontendId {
  return `${family} ${keyOf(frontend, protocol).join(" ")}`;
}

/**
 * Which Service has a frontend that several claim: a cluster IP, which the API server gave out, beats what people wrote
 * into other Services, and then the Service whose `namespace/name` sorts first has it. So the elements of a frontend come
 * from one Service alone, and nobody takes over a cluster IP by an externalIP.
 *
 * A change costs the frontends of the Service that changed and the claims to those.
 */
export class FrontendHolders {
  readonly #claims = new Map<string, ReadonlyMap<FrontendId, Rank>>();
  readonly #claimants = new Map<FrontendId, Map<string, Rank>>();

  /** The key of the Service that has a frontend; undefined where none claims it. */
  holder(id: FrontendId): string | undefined {
    let best: readonly [string, Rank] | undefined;
    for (const [key, rank] of this.#claimants.get(id) ?? []) {
      if (best === undefined || rank < best[1] || (rank === best[1] && key < best[0])) best = [key, rank];
    }
    return best?.[0];
  }

  /**
   * Takes over a Service as it is now, undefined for one that is gone.
   *
   * @returns the keys of other Services that gained or lost a frontend by it, to be compiled anew
   */
  replace(key: string, service: Service | undefined, context: CompileContext): ReadonlySet<string> {
    const before = this.#claims.get(key);
    const after = service === undefined ? new Map<FrontendId, Rank>() : claimsOf(service, context);
    const touched = new Set<string>();
    for (const id of before?.keys() ?? []) if (!after.has(id)) this.#claim(id, key, undefined, touched);
    for (const [id, rank] of after) if (before?.get(id) !== rank) this.#claim(id, key, rank, touched);
    if (after.size === 0) this.#claims.delete(key);
    else this.#claims.set(key, after);
    return touched;
  }

  /** @param touched gets the others who gain or lose the frontend */
  #claim(id: FrontendId, key: string, rank: Rank | undefined, touched: Set<string>): void {
    const old = this.holder(id);
    const claimants = this.#claimants.get(id) ?? new Map<string, Rank>();
    if (rank === undefined) claimants.delete(key);
    else this.#claimants.set(id, claimants.set(key, rank));
    if (claimants.size === 0) this.#claimants.delete(id);
    const now = this.holder(id);
    if (old !== now) for (const holder of [old, now]) if (holder !== undefined && holder !== key) touched.add(holder);
  }
}

function claimsOf(service: Service, context: CompileContext): ReadonlyMap<FrontendId, Rank> {
  const claims = new Map<FrontendId, Rank>();
  for (const family of familiesOf(service)) {
    for (const port of service.ports) {
      for (const frontend of frontendsOf(service, port, family, context)) {
        const id = frontendId(frontend, port.protocol, family);
        if (!claims.has(id)) claims.set(id, frontend.type === "cluster" ? 0 : 1);
      }
    }
  }
  return claims;
}
