import type { Protocol, Service } from "../../cluster/model.ts";
import { keyOf } from "./claims.ts";
import type { CompileContext } from "./context.ts";
import type { RuleFamily } from "./frontend_space.ts";
import type { Frontend } from "./frontends.ts";
import { familiesOf, frontendsOf } from "./frontends.ts";
import { servedPart } from "./service_size.ts";
import type { OneOrMore } from "../../one_or_more.ts";
import { listOf, putList } from "../../one_or_more.ts";

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
  /** Of each Service; by itself where it is the only one, as nearly all are. */
  readonly #claims = new Map<string, OneOrMore<FrontendClaim>>();
  /** Of each frontend, in the same way. */
  readonly #claimants = new Map<FrontendId, OneOrMore<FrontendClaim>>();
  /** The frontends of several. */
  readonly #contested = new Set<FrontendId>();

  /** The key of the Service that has a frontend; undefined where none claims it. */
  holder(id: FrontendId): string | undefined {
    const claims = this.#claimants.get(id);
    if (claims === undefined || "id" in claims) return claims?.key;
    let best: FrontendClaim | undefined;
    for (const claim of claims) {
      const { key, rank } = claim;
      if (best === undefined || rank < best.rank || (rank === best.rank && key < best.key)) best = claim;
    }
    return best?.key;
  }

  /** The text of a frontend's id as it is kept here, for others who keep it as well. */
  own(id: FrontendId): FrontendId {
    return listOf(this.#claimants.get(id))[0]?.id ?? id;
  }

  /** The key of the Service that has a frontend which this one claims, if it is another one. */
  rival(key: string, frontend: Frontend, protocol: Protocol, family: RuleFamily): string | undefined {
    // Nearly always there are none, and a frontend needs no id.
    if (this.#contested.size === 0) return undefined;
    const holder = this.holder(frontendId(frontend, protocol, family));
    return holder === key ? undefined : holder;
  }

  /**
   * Takes over a Service as it is now, undefined for one that is gone.
   *
   * @returns the keys of other Services that gained or lost a frontend by it, to be compiled anew
   */
  replace(key: string, service: Service | undefined, context: CompileContext): ReadonlySet<string> {
    const before = listOf(this.#claims.get(key));
    const claims = service === undefined ? NONE : claimsOf(service, context);
    // Nearly always it is an endpoint that changes.
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
    putList(this.#claimants, id, claimants);
    if (claimants.length > 1) this.#contested.add(id);
    else this.#contested.delete(id);
    const now = this.holder(id);
    if (old !== now) for (const holder of [old, now]) if (holder !== undefined && holder !== key) touched.add(holder);
  }
}

const NONE: readonly never[] = [];
const NOBODY: ReadonlySet<string> = new Set();

function areSame(a: readonly FrontendClaim[], b: readonly FrontendClaim[]): boolean {
  return a.length === b.length && a.every(({ id, rank }, index) => id === b[index]?.id && rank === b[index]?.rank);
}

/** No frontend twice. */
function claimsOf(whole: Service, context: CompileContext): readonly FrontendClaim[] {
  const { service } = servedPart(whole, context);
  const claims: FrontendClaim[] = [];
  for (const family of familiesOf(service)) {
    for (const port of service.ports) {
      for (const frontend of frontendsOf(service, port, family, context)) {
        const id = frontendId(frontend, port.protocol, family);
        claims.push({ id, key: service.key, rank: frontend.type === "cluster" ? 0 : 1 });
      }
    }
  }
  // As long as it is: one that is pushed to has room for 16 more.
  if (claims.length < 2) return claims.slice();
  const ids = new Set<FrontendId>();
  return claims.filter(({ id }) => ids.size < ids.add(id).size);
}
