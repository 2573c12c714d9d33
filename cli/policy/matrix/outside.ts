import type { Pod } from "../../../objects/model.ts";
import type { PolicyIndex } from "../../../objects/semantics/policies/policy_index.ts";
import { familyOf } from "../../../kernel/ip/address.ts";
import type { Connections, PodConnections } from "../connections/pod_connections.ts";
import { type OutsideRegion, outsideRegions, regionEnd } from "../outside_region.ts";
import type { RepresentativePods } from "./representative_pods.ts";

/**
 * Returns the parts of the outside that policies distinguish, in the families that some pods have or may get.
 *
 * @param asked as in outsideRegions
 */
export function regionsFor(index: PolicyIndex, pods: readonly Pod[], asked?: string): readonly OutsideRegion[] {
  const mayHave = (family: 4 | 6): boolean =>
    pods.some(({ addresses }) => addresses.length === 0 || addresses.some((one) => familyOf(one) === family));
  return outsideRegions([index], asked).filter(({ family }) => mayHave(family));
}

/** Computes connections between the outside and pods, once for all pods that policies do not distinguish. */
export class OutsideConnections {
  readonly #connections: PodConnections;
  readonly #known = new Map<OutsideRegion, Map<number, Connections | undefined>>();
  readonly #direction: "from outside" | "to outside";

  constructor(connections: PodConnections, direction: "from outside" | "to outside") {
    this.#connections = connections;
    this.#direction = direction;
  }

  /** Returns the connections of some pods to, or from, a part of the outside. */
  with(region: OutsideRegion, cast: RepresentativePods): Connections | undefined {
    const known = this.#known.get(region) ?? new Map<number, Connections | undefined>();
    this.#known.set(region, known);
    const cases = cast.map(({ pods: [{ key, classNumber }] }) => {
      if (!known.has(classNumber)) known.set(classNumber, this.#ask(region, key));
      return known.get(classNumber);
    });
    return this.#connections.together(cases);
  }

  #ask(region: OutsideRegion, key: string): Connections | undefined {
    const { family } = region;
    const [pod, outside] = [{ type: "pod", key } as const, regionEnd(region)];
    return this.#direction === "to outside"
      ? this.#connections.between({ source: pod, destination: outside, family })
      : this.#connections.between({ source: outside, destination: pod, family });
  }
}
