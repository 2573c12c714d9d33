import { type Address, familyOf } from "../../../kernel/ip/address.ts";
import type { Direction } from "../../../objects/semantics/policies/flow.ts";
import type { IndexedRule } from "../../../objects/semantics/policies/indexed_policy.ts";
import { numbersIn } from "../../../objects/semantics/policies/peer_selection.ts";
import type { DirectionProfile } from "../../../objects/semantics/policies/profile.ts";
import { hasSharedAddress, type PolicyIndex } from "../../../objects/semantics/policies/policy_index.ts";
import { type ConnectionSet, EVERYTHING, NOTHING } from "./connection_set.ts";
import { type ClassifiedPod, isOwn } from "./pair_table.ts";

/** The policies of pods in one direction, reduced to which pods they name by labels. */
type Side =
  /** No policy applies. */
  | "open"
  /** Policies apply whose rules have to be evaluated for each peer. */
  | "asked"
  /** The pod is isolated, and its rules name only pods with these identities: 1 at each identity's number. */
  | Uint8Array;

/** The pods of a class, as ends of connections. */
interface ClassEnd {
  readonly identity: number;
  /** The families of the pods' addresses, as bits; all of them while a pod has no address. */
  readonly families: number;
  readonly egress: Side;
  readonly ingress: Side;
}

const IPV4 = 1;
const IPV6 = 2;

/**
 * Computes the connections of pairs in which no rule of one pod names the other. Most pairs are like this, since a
 * policy names few pods; only whether both ends are open then matters.
 */
export class UnnamedPairs {
  readonly #index: PolicyIndex;
  /**
   * By the class's number; null for the host's network, whose pods count as their node for policies, and where several
   * pods have an address, of which the policies of all apply (POL-95).
   */
  readonly #ends: (ClassEnd | null)[] = [];
  readonly #sides: Readonly<Record<Direction, Map<DirectionProfile, Side>>> = { egress: new Map(), ingress: new Map() };

  constructor(index: PolicyIndex) {
    this.#index = index;
  }

  /** Returns the connections between two pods; undefined if rules must be evaluated or no packet can be sent. */
  between(source: ClassifiedPod, destination: ClassifiedPod): ConnectionSet | undefined {
    const from = this.#ends[source.classNumber] ?? this.#endOf(source);
    const to = this.#ends[destination.classNumber] ?? this.#endOf(destination);
    if (from === null || to === null) return undefined;
    const { egress } = from;
    const { ingress } = to;
    if (egress === "asked" || ingress === "asked" || (from.families & to.families) === 0) return undefined;
    if (egress !== "open" && egress[to.identity] === 1) return undefined;
    if (ingress !== "open" && ingress[from.identity] === 1) return undefined;
    if (isOwn(source, destination)) return undefined;
    return egress === "open" && ingress === "open" ? EVERYTHING : NOTHING;
  }

  #endOf({ key, classNumber }: ClassifiedPod): ClassEnd | null {
    const entry = this.#index.pods.get(key);
    const { subject } = entry ?? {};
    const end =
      entry === undefined || subject === undefined || hasSharedAddress(this.#index, entry.pod)
        ? null
        : {
            identity: subject.identity.number,
            families: familiesOf(entry.pod.addresses),
            egress: this.#sideOf("egress", subject.profile.egress),
            ingress: this.#sideOf("ingress", subject.profile.ingress),
          };
    this.#ends[classNumber] = end;
    return end;
  }

  #sideOf(direction: Direction, profile: DirectionProfile): Side {
    const known = this.#sides[direction].get(profile);
    if (known !== undefined) return known;
    const side = this.#readSide(direction, profile);
    this.#sides[direction].set(profile, side);
    return side;
  }

  #readSide(direction: Direction, { admin, isolating, baseline }: DirectionProfile): Side {
    if (admin.length > 0 || baseline.length > 0) return "asked";
    if (isolating.length === 0) return "open";
    // Isolated pods still reach the node's own DNS.
    if (direction === "egress" && this.#index.options.nodeLocalDNS.length > 0) return "asked";
    return namedBy(isolating.flatMap(({ rules }) => rules[direction]));
  }
}

/** Returns the identities that some rules name; nodes have no identity. */
function namedBy(rules: readonly IndexedRule[]): Side {
  const all: Uint8Array[] = [];
  for (const { peers } of rules) {
    if (peers === undefined) return "asked";
    for (const peer of peers) {
      if (peer.type === "addresses") return "asked";
      if (peer.type === "pods") all.push(peer.members);
    }
  }
  const [first, ...more] = all;
  if (first === undefined) return new Uint8Array();
  if (more.length === 0) return first;
  const named = first.slice();
  for (const members of more) for (const number of numbersIn(members)) named[number] = 1;
  return named;
}

function familiesOf(addresses: readonly Address[]): number {
  if (addresses.length === 0) return IPV4 | IPV6;
  let families = 0;
  for (const address of addresses) families |= familyOf(address) === 4 ? IPV4 : IPV6;
  return families;
}
