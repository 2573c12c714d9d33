import type { Family } from "../../../kernel/ip/address.ts";
import {
  familiesOf,
  type ResolvedEnd,
  type ResolvedFlow,
  resolveFlow,
} from "../../../objects/semantics/policies/party.ts";
import type { PolicyIndex } from "../../../objects/semantics/policies/policy_index.ts";

/** A pod in each family in which it can send; the key is undefined without an address, when it may get any. */
type EndsByFamily = ReadonlyMap<Family | undefined, ResolvedEnd>;

/** Pods as ends of flows, each resolved once. */
export class PodEnds {
  readonly #index: PolicyIndex;
  readonly #known = new Map<string, EndsByFamily>();

  constructor(index: PolicyIndex) {
    this.#index = index;
  }

  /** Returns the possible flows from one pod to another, one for each family that both have. */
  flows(sourceKey: string, destinationKey: string): readonly ResolvedFlow[] {
    const [sources, destinations] = [this.#endsOf(sourceKey), this.#endsOf(destinationKey)];
    const flows: ResolvedFlow[] = [];
    for (const family of (destinations.has(undefined) ? sources : destinations).keys()) {
      const source = endIn(sources, family);
      const destination = endIn(destinations, family);
      if (source !== undefined && destination !== undefined) flows.push({ family, source, destination });
    }
    return flows;
  }

  #endsOf(key: string): EndsByFamily {
    const known = this.#known.get(key);
    if (known !== undefined) return known;
    const end = { type: "pod", key } as const;
    const ends = { source: end, destination: end };
    const families = familiesOf(this.#index, ends) ?? [undefined];
    const found = families.flatMap((family): [Family | undefined, ResolvedEnd][] => {
      const flow = resolveFlow(this.#index, { ...ends, family, protocol: "ICMP" });
      return "kind" in flow ? [] : [[family, flow.source]];
    });
    const byFamily = new Map(found);
    this.#known.set(key, byFamily);
    return byFamily;
  }
}

function endIn(ends: EndsByFamily, family: Family | undefined): ResolvedEnd | undefined {
  return ends.get(family) ?? ends.get(undefined);
}
