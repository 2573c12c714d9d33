import type { MemberSet, MemberSource } from "../../compile/sets/member_set.ts";
import type { NodeGroup, PodGroup } from "../../compile/profile.ts";

/** A set that somebody holds, or whose elements are still to be removed. */
export interface ActiveSet {
  readonly set: MemberSet;
  readonly groups: readonly (PodGroup | NodeGroup)[];
  readonly sources: ReadonlyMap<string, readonly MemberSource[]>;
  /** The sources that give pods elements by the names of their ports, whatever groups they are in; by these names. */
  readonly ofNames: ReadonlyMap<string, readonly NamedSource[]>;
  readonly hasNames: boolean;
  holders: number;
  /** The holders that need all of its elements: a rule that denies would let through the pods that it does not find. */
  wholeHolders: number;
  /** How often each namespace holds it for its NetworkPolicies. */
  readonly owners: Map<string, number>;
  /** The namespace whose room it takes; undefined if nobody holds it, or somebody needs it whole. */
  payer: string | undefined;
  /** The number of elements; one that several sources give counts for each. */
  size: number;
  /** The number of identities that its groups selected when it was made, each counted for each group. */
  selections: number;
  /** There was no room for the set when it was made, so it has no elements (POL-93). */
  isClosed: boolean;
  /** Whether all members have been settled since the set is held. */
  isFilled: boolean;
  /** The number of members that have elements in it. */
  claims: number;
}

/** A source of the ports with one name, of all pods. */
type NamedSource = MemberSource & { readonly ports: Extract<MemberSource["ports"], { readonly type: "name" }> };

/** Without a group, a source must give the name of a port. */
function isOfEveryPod(source: MemberSource): source is NamedSource {
  if (source.group !== undefined) return false;
  if (source.ports.type === "name") return true;
  throw new RangeError(`a set of every pod with ${source.ports.type} as ports; expected a port's name`);
}

/** Returns a set that nobody holds yet. */
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
    ofNames: Map.groupBy(set.sources.filter(isOfEveryPod), ({ ports }) => ports.name),
    hasNames: set.sources.some(({ ports }) => ports.type === "name"),
    holders: 0,
    wholeHolders: 0,
    owners: new Map(),
    payer: undefined,
    size: 0,
    selections: 0,
    isClosed: false,
    isFilled: false,
    claims: 0,
  };
}
