import type { MemberSet, MemberSource } from "../../compile/sets/member_set.ts";
import type { NodeGroup, PodGroup } from "../../compile/profile.ts";
import { newShared, type SharedSet } from "./set_room.ts";

/** A set that somebody holds, or whose elements are still to be removed. */
export interface ActiveSet extends SharedSet {
  readonly set: MemberSet;
  readonly groups: readonly (PodGroup | NodeGroup)[];
  readonly sources: ReadonlyMap<string, readonly MemberSource[]>;
  /** The sources that give pods elements by the names of their ports, whatever groups they are in; by these names. */
  readonly ofNames: ReadonlyMap<string, readonly NamedSource[]>;
  readonly hasNames: boolean;
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

/** Returns a set that nobody holds yet. @param open tries to give a set all its elements */
export function activeSet(set: MemberSet, open: (active: ActiveSet) => void): ActiveSet {
  const groups = new Map<string, PodGroup | NodeGroup>();
  const sources = new Map<string, MemberSource[]>();
  for (const source of set.sources) {
    if (source.group === undefined) continue;
    groups.set(source.group.key, source.group);
    const others = sources.get(source.group.key);
    if (others === undefined) sources.set(source.group.key, [source]);
    else others.push(source);
  }
  const active: ActiveSet = {
    ...newShared(set, () => open(active)),
    set,
    groups: [...groups.values()],
    sources,
    ofNames: Map.groupBy(set.sources.filter(isOfEveryPod), ({ ports }) => ports.name),
    hasNames: set.sources.some(({ ports }) => ports.type === "name"),
    claims: 0,
  };
  return active;
}
