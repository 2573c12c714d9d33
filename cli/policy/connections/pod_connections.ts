import type { FlowEnds } from "../../../objects/semantics/policies/flow.ts";
import type { PolicyIndex } from "../../../objects/semantics/policies/policy_index.ts";
import { type ConnectionSet, EVERYTHING, NOTHING } from "./connection_set.ts";
import { ConnectionReader } from "./connections_between.ts";
import { type ClassifiedPod, PairTable } from "./pair_table.ts";
import { UnnamedPairs } from "./unnamed_pairs.ts";
import { FAMILIES, type Family } from "../../../kernel/ip/address.ts";
import {
  familiesOf,
  type ResolvedEnd,
  type ResolvedFlow,
  resolveFlow,
} from "../../../objects/semantics/policies/party.ts";

/** The connections between pods, over several cases that may differ. */
export interface Connections {
  /** Allowed in at least one case. */
  readonly some: ConnectionSet;
  /** Allowed in every case. */
  readonly every: ConnectionSet;
}

/** Computes the connections between pods. Equal connections are one object. */
export class PodConnections {
  /** The pods, and the results for their pairs. */
  readonly pairs: PairTable<Connections | undefined>;
  readonly #unnamed: UnnamedPairs;
  readonly #reader: ConnectionReader;
  readonly #ends: PodEnds;
  readonly #known = new Map<ConnectionSet, Map<ConnectionSet, Connections>>();
  readonly #everything = this.#same(EVERYTHING, EVERYTHING);
  readonly #nothing = this.#same(NOTHING, NOTHING);

  constructor(index: PolicyIndex) {
    this.#unnamed = new UnnamedPairs(index);
    this.#reader = new ConnectionReader(index);
    this.#ends = new PodEnds(index);
    this.pairs = new PairTable(index, (source, destination) => this.#between(source, destination));
  }

  /** Returns the connections between two pods; the cases are the families that both have, undefined without one. */
  ofPair(source: ClassifiedPod, destination: ClassifiedPod): Connections | undefined {
    const unnamed = this.#unnamed.between(source, destination);
    if (unnamed === undefined) return this.pairs.get(source, destination);
    return unnamed === EVERYTHING ? this.#everything : this.#nothing;
  }

  /** Joins some connections; an impossible case allows nothing. Undefined where all are impossible. */
  together(all: Iterable<Connections | undefined>): Connections | undefined {
    const { algebra } = this.#reader;
    let sum: Connections | undefined;
    let hasImpossible = false;
    for (const one of all) {
      if (one === undefined) hasImpossible = true;
      else if (sum === undefined) sum = one;
      else if (sum !== one)
        sum = this.#same(algebra.union(sum.some, one.some), algebra.intersection(sum.every, one.every));
    }
    return sum !== undefined && hasImpossible ? this.#same(sum.some, NOTHING) : sum;
  }

  /** Returns the part of some connections that is in a set; nothing for undefined. */
  limited(all: Connections | undefined, set: ConnectionSet): Connections {
    if (all === undefined) return this.#same(NOTHING, NOTHING);
    const { algebra } = this.#reader;
    const limit = algebra.same(set);
    return this.#same(algebra.intersection(all.some, limit), algebra.intersection(all.every, limit));
  }

  /** Returns the same connections as not allowed in every case. */
  sometimes({ some }: Connections): Connections {
    return this.#same(some, NOTHING);
  }

  /** Returns the connections from one end to another in one family; undefined where no packet can be sent. */
  between(ends: FlowEnds): Connections | undefined {
    const set = this.#reader.between(ends);
    return set === undefined ? undefined : this.#same(set, set);
  }

  #between(source: string, destination: string): Connections | undefined {
    return this.together(
      this.#ends.flows(source, destination).map((flow) => {
        const set = this.#reader.ofFlow(flow);
        return this.#same(set, set);
      }),
    );
  }

  #same(some: ConnectionSet, every: ConnectionSet): Connections {
    let ofSome = this.#known.get(some);
    if (ofSome === undefined) this.#known.set(some, (ofSome = new Map<ConnectionSet, Connections>()));
    let known = ofSome.get(every);
    if (known === undefined) ofSome.set(every, (known = { some, every }));
    return known;
  }
}

/** A pod in each family in which it can send; without an address also in no family, since it may get any. */
type EndsByFamily = ReadonlyMap<Family | undefined, ResolvedEnd>;

/** Pods as ends of flows, each resolved once. */
class PodEnds {
  readonly #index: PolicyIndex;
  readonly #known = new Map<string, EndsByFamily>();

  constructor(index: PolicyIndex) {
    this.#index = index;
  }

  /** Returns the possible flows from one pod to another, one for each family that both have. */
  flows(sourceKey: string, destinationKey: string): readonly ResolvedFlow[] {
    const [sources, destinations] = [this.#endsOf(sourceKey), this.#endsOf(destinationKey)];
    const flows: ResolvedFlow[] = [];
    const first = destinations.has(undefined) ? sources : destinations;
    for (const family of first.has(undefined) ? [undefined] : first.keys()) {
      const source = sources.get(family);
      const destination = destinations.get(family);
      if (source !== undefined && destination !== undefined) flows.push({ family, source, destination });
    }
    return flows;
  }

  #endsOf(key: string): EndsByFamily {
    const known = this.#known.get(key);
    if (known !== undefined) return known;
    const end = { type: "pod", key } as const;
    const ends = { source: end, destination: end };
    const families = familiesOf(this.#index, ends) ?? [undefined, ...FAMILIES];
    const found = families.flatMap((family): [Family | undefined, ResolvedEnd][] => {
      const flow = resolveFlow(this.#index, { ...ends, family, protocol: "ICMP" });
      return "kind" in flow ? [] : [[family, flow.source]];
    });
    const byFamily = new Map(found);
    this.#known.set(key, byFamily);
    return byFamily;
  }
}
