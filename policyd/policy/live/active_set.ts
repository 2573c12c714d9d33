import type { MemberSet, MemberSource } from "../compile/member_set.ts";
import type { NodeGroup, PodGroup } from "../compile/profile.ts";

/** A set that somebody holds, or whose elements are still to go. */
export interface ActiveSet {
  readonly set: MemberSet;
  readonly groups: readonly (PodGroup | NodeGroup)[];
  readonly sources: ReadonlyMap<string, readonly MemberSource[]>;
  /** What pods have in it by the names of their ports, whatever groups they are in. */
  readonly ofNames: readonly NamedSource[];
  readonly hasNames: boolean;
  holders: number;
  /** How many of them need all of its elements: a rule that denies would let through the pods that it does not find. */
  wholeHolders: number;
  /** How often each namespace holds it for its NetworkPolicies. */
  readonly owners: Map<string, number>;
  /** It is too large, and has no elements (POL-93). */
  isClosed: boolean;
  /** Whether all members have been settled since it is held. */
  isFilled: boolean;
  /** How many members have elements in it. */
  claims: number;
}

/** All pods' ports of a name. */
type NamedSource = MemberSource & { readonly ports: Extract<MemberSource["ports"], { readonly type: "name" }> };

/** Only ports' names are asked of every pod. */
function isOfEveryPod(source: MemberSource): source is NamedSource {
  if (source.group !== undefined) return false;
  if (source.ports.type === "name") return true;
  throw new RangeError(`a set of every pod with ${source.ports.type} as ports; expected a port's name`);
}

/** One that nobody holds yet. */
export function activeSet(set: MemberSet): ActiveSet {
  const groups = new Map<string, PodGroup | NodeGroup>();
  const sources = new Map<string, MemberSource[]>();
  for (const source of set.sources) {
    if (source.group === undefined) continue;
    groups.set(source.group.key, source.group);
    const others = sources.get(source.group.key);
    if (others === undefined) sources.set(source.group.key, [source]);
    else others.push(source);
  }
  return {
    set,
    groups: [...groups.values()],
    sources,
    ofNames: set.sources.filter(isOfEveryPod),
    hasNames: set.sources.some(({ ports }) => ports.type === "name"),
    holders: 0,
    wholeHolders: 0,
    owners: new Map(),
    isClosed: false,
    isFilled: false,
    claims: 0,
  };
}
