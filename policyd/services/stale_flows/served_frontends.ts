import type { ServicePort } from "../../../objects/model.ts";
import { atOnce, type Slices } from "../../lib/sliced_work.ts";
import { type FrontendId, frontendId } from "../elements/arbitration.ts";
import { portEndpoints } from "../elements/endpoints.ts";
import { familiesOf, frontendsOf } from "../elements/frontends.ts";
import { servedWith } from "../elements/service_size.ts";
import { socketText } from "../elements/socket_address.ts";
import type { ServedService } from "../service_follower.ts";

/** Returns the endpoints of a frontend (`socketText`) at present; undefined where no Service has it. */
export type TargetsOf = (id: FrontendId) => ReadonlySet<string> | undefined;

/** Functions for the endpoints of frontends. */
type TargetsByFrontend = ReadonlyMap<FrontendId, () => ReadonlySet<string>>;

/** The Services of this node, by which flows are judged. */
export class ServedServices {
  readonly #services = new Map<string, ServedService>();
  #holders: ServedService["holders"] | undefined;

  /** Replaces a Service, undefined for one that is gone. @returns its former state */
  replace(key: string, served: ServedService | undefined): ServedService | undefined {
    const before = this.#services.get(key);
    this.#holders = served?.holders ?? this.#holders;
    if (served === undefined) this.#services.delete(key);
    else this.#services.set(key, served);
    return before;
  }

  /** Returns a function that always answers by the present Services, and reads each state of a Service once. */
  targetsOf(protocol: "TCP" | "UDP"): TargetsOf {
    const known = new Map<ServedService, TargetsByFrontend>();
    return (id) => {
      const served = this.#services.get(this.#holders?.holder(id) ?? "");
      if (served === undefined) return undefined;
      const frontends = known.get(served) ?? atOnce(servedFrontends(served, protocol));
      known.set(served, frontends);
      return frontends.get(id)?.();
    };
  }
}

/**
 * Returns the frontends of a Service with this protocol, and a function for all endpoints of each that serve
 * (`socketText`). These include terminating ones (TERM-04) and those that policies and hints send no new clients to, since
 * a flow to one of them is valid.
 *
 * @param holders by default the Service has only the frontends that no other one has
 */
export function* servedFrontends(
  { service: whole, slices, context, holders: present }: ServedService,
  wanted: "TCP" | "UDP",
  holders: Pick<ServedService["holders"], "rival"> = present,
): Slices<TargetsByFrontend> {
  const found = new Map<FrontendId, () => ReadonlySet<string>>();
  const isWanted = ({ protocol }: ServicePort): boolean => protocol === wanted;
  if (!whole.ports.some(isWanted)) return found;
  const { service, ports } = servedWith(whole, slices, context);
  for (const family of familiesOf(service)) {
    for (const port of service.ports.filter(isWanted)) {
      let known: ReadonlySet<string> | undefined;
      const targets = (): ReadonlySet<string> =>
        (known ??= new Set(portEndpoints(ports, port, family, context).usable.map(socketText)));
      for (const frontend of frontendsOf(service, port, family, context)) {
        const id = frontendId(frontend, wanted, family);
        if (found.has(id) || holders.rival(service.key, frontend, wanted, family) !== undefined) continue;
        found.set(id, targets);
      }
      yield;
    }
  }
  return found;
}
