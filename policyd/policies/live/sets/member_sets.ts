import type { MemberSet, MemberSource } from "../../compile/sets/member_set.ts";
import type { NodeGroup, PodGroup } from "../../compile/profile.ts";
import { type Claimed, elementsOf, isSame, type Member, sizeOf, type SourcesOfSet } from "./member_claims.ts";
import { type ActiveSet, activeSet } from "./active_set.ts";
import type { GroupIndex, Identity } from "../index/group_index.ts";
import type { PolicyRules } from "../policy_rules.ts";
import { type RoomBounds, SetRoom } from "./set_room.ts";

/** The content of the sets, in numbers. */
export interface SetTotals {
  readonly sets: number;
  /** Each member is counted in every set it is in. */
  readonly members: number;
  /** Pairs of a member's address and a port, each counted in every set it is in. */
  readonly elements: number;
  /** The number of sets that lack elements because there was no room for them (POL-93). */
  readonly closed: number;
}

/** The sets of most members of a large cluster. */
const NOTHING: readonly never[] = [];

/**
 * The kernel's sets that follow the objects of the cluster: those that somebody holds, with the elements of all their
 * members. Its methods return the members to {@link settle}, which may be done in any number of turns.
 */
export class MemberSets {
  readonly #rules: PolicyRules;
  readonly #groups: GroupIndex;
  readonly #sets = new Map<string, ActiveSet>();
  /** The held sets by the keys of their groups. */
  readonly #users = new Map<string, Set<ActiveSet>>();
  /** The held sets with sources of every pod, by the names of ports. */
  readonly #byName = new Map<string, Set<ActiveSet>>();
  /** The sources that apply to an identity because of its groups, computed on request. */
  readonly #known = new WeakMap<Identity, readonly SourcesOfSet[]>();
  readonly #claimed = new Map<string, Claimed>();
  readonly #room: SetRoom;
  /** The held sets that lack elements, because there was no room for them (POL-93). */
  readonly #closed = new Set<ActiveSet>();
  #closings = 0;
  readonly #toSettle: (members: ReadonlySet<string>) => void;

  /** @param toSettle gets the members whose elements must be removed because there is no room for their set */
  constructor(
    rules: PolicyRules,
    groups: GroupIndex,
    toSettle: (members: ReadonlySet<string>) => void,
    bounds?: RoomBounds,
  ) {
    this.#rules = rules;
    this.#groups = groups;
    this.#toSettle = toSettle;
    this.#room = new SetRoom(bounds);
  }

  /** Returns the current content of the sets, in numbers. */
  totals(): SetTotals {
    let members = 0;
    for (const { claims } of this.#sets.values()) members += claims;
    return { sets: this.#sets.size, members, elements: this.#room.total, closed: this.#closed.size };
  }

  /**
   * Adds a holder to a set. The set exists until each of its holders releases it.
   *
   * @param owner the namespace whose pods need the set
   */
  hold(set: MemberSet, owner: string): void {
    const active = this.#sets.get(set.name) ?? this.#newSet(set);
    if (set.isAllowing) active.owners.set(owner, (active.owners.get(owner) ?? 0) + 1);
    else active.wholeHolders++;
    this.#room.holdersChanged(active);
    const isToOpen = active.payer === undefined && this.#closed.has(active);
    if (active.holders++ > 0 && !isToOpen) return;
    this.#lacks(active, false);
    active.isFilled = false;
    active.isClosed = !this.#use(active) || !this.#room.hasRoom(active, this.#expected(active));
    if (active.isClosed) this.#lacks(active, true);
    this.#forgetSources([active]);
  }

  /** Returns the held sets that lack elements because there was no room for them (POL-93). */
  *closed(): Iterable<MemberSet> {
    for (const { set } of this.#closed) yield set;
  }

  /** A number that changes whenever {@link closed} does. */
  get closings(): number {
    return this.#closings;
  }

  /** Returns the keys of the members to be settled before held sets are {@link filled}; empty when they are. */
  missing(names: readonly string[]): ReadonlySet<string> {
    const sets = names.map((name) => this.#sets.get(name)).filter((active) => active !== undefined);
    return this.#membersOf(sets.filter(({ isFilled, isClosed }) => !isFilled && !isClosed));
  }

  /** Notes that all members of a held set have been settled. */
  filled(name: string): void {
    const active = this.#sets.get(name);
    if (active !== undefined) active.isFilled = true;
  }

  /** Removes one holder from each of these sets. @returns the keys of the members that are to be settled */
  release(held: readonly Pick<MemberSet, "name" | "isAllowing">[], owner: string): ReadonlySet<string> {
    const sets: ActiveSet[] = [];
    for (const { name, isAllowing } of held) {
      const active = this.#sets.get(name);
      if (active === undefined) continue;
      if (isAllowing) disown(active, owner);
      else active.wholeHolders--;
      this.#room.holdersChanged(active);
      if (--active.holders > 0) continue;
      active.isFilled = false;
      this.#lacks(active, false);
      sets.push(active);
    }
    this.#forgetSources(sets);
    const members = this.#membersOf(sets);
    for (const active of sets) {
      for (const name of active.ofNames.keys()) {
        const others = this.#byName.get(name);
        others?.delete(active);
        if (others?.size === 0) this.#byName.delete(name);
      }
      for (const group of active.groups) this.#disuse(group, active);
      this.#room.change(active, 0, -active.selections);
      this.#forgetEmpty(active);
    }
    return members;
  }

  /** Notes that the groups of an identity have changed. */
  groupsChanged(identity: Identity): void {
    this.#known.delete(identity);
  }

  /** Updates the elements of a member to its present state; undefined for one that is gone. */
  settle(key: string, member: Member | undefined): void {
    const isThere = member !== undefined && member.addresses.length > 0;
    const wanted = isThere ? this.#wantedBy(member) : NOTHING;
    const before = this.#claimed.get(key);
    const setsBefore = before?.sets ?? NOTHING;
    this.#leave(key, before, wanted);
    if (member === undefined || wanted.length === 0) {
      this.#claimed.delete(key);
      return;
    }
    const sourcesBefore = new Map(setsBefore.map(({ active, sources }) => [active, sources]));
    const refused = wanted.filter((one) => !this.#put(key, one, sourcesBefore.get(one.active), member, before));
    const sets = refused.length === 0 ? wanted : wanted.filter((one) => !refused.includes(one));
    // The elements that a member had may be wrong by now.
    const lost = before && {
      ...before,
      sets: setsBefore.filter(({ active }) => refused.some((one) => one.active === active)),
    };
    if (refused.length > 0) this.#leave(key, lost, NOTHING);
    const { addresses, ports, shared } = member;
    this.#claimed.set(key, { sets, addresses, ports, isShared: shared.size > 0 });
  }

  /**
   * Claims a member's elements in one set.
   *
   * @param claimed the sources from which it has elements there
   * @returns whether there is room for them
   */
  #put(
    key: string,
    { active, sources }: SourcesOfSet,
    claimed: readonly MemberSource[] | undefined,
    member: Member,
    before: Claimed | undefined,
  ): boolean {
    if (before !== undefined && claimed !== undefined) {
      if (areSame(claimed, sources) && isSame(before, member, active.hasNames)) return true;
    }
    const growth = sizeOf(sources, member) - sizeOf(claimed ?? NOTHING, before);
    if (!this.#room.hasRoom(active, growth)) {
      this.#lacks(active, true);
      if (!active.isFilled) this.#close(active);
      return false;
    }
    if (claimed === undefined) active.claims++;
    this.#rules.claim(ownerOf(active, key), elementsOf(active.set, sources, member));
    this.#room.change(active, growth);
    return true;
  }

  /** Removes all elements from a set that no rule uses yet. */
  #close(active: ActiveSet): void {
    active.isClosed = true;
    this.#forgetSources([active]);
    this.#toSettle(this.#membersOf([active]));
  }

  /** Notes whether a set lacks elements. */
  #lacks(active: ActiveSet, isLacking: boolean): void {
    if (this.#closed.has(active) === isLacking) return;
    if (isLacking) this.#closed.add(active);
    else this.#closed.delete(active);
    this.#closings++;
  }

  /** Returns how many elements a filled set has at least; those of named ports are counted when they exist. */
  #expected({ set }: ActiveSet): number {
    let elements = 0;
    for (const { group, ports } of set.sources) {
      if (group === undefined || ports.type === "name") continue;
      let members = 0;
      for (const identity of this.#groups.identitiesOf(group.key)) members += identity.members.size;
      elements += members * (ports.type === "numbers" ? ports.ports.length : 0);
    }
    return elements;
  }

  /** Removes a member's elements from the sets to which it does not belong any more. */
  #leave(key: string, before: Claimed | undefined, wanted: readonly SourcesOfSet[]): void {
    const wantedSets = new Set(wanted.map(({ active }) => active));
    for (const { active, sources } of before?.sets ?? NOTHING) {
      if (wantedSets.has(active)) continue;
      this.#rules.claim(ownerOf(active, key), []);
      this.#room.change(active, -sizeOf(sources, before));
      active.claims--;
      this.#forgetEmpty(active);
    }
  }

  #wantedBy({ identity, ports }: Member): readonly SourcesOfSet[] {
    const ofGroups = this.#sourcesOf(identity);
    if (this.#byName.size === 0 || identity.namespace === undefined || ports.length === 0) return ofGroups;
    const found = new Map(ofGroups.map(({ active, sources }) => [active, [...sources]]));
    for (const name of new Set(ports.map((port) => port.name ?? ""))) {
      for (const active of this.#byName.get(name) ?? []) {
        if (active.isClosed) continue;
        const sources = found.get(active) ?? [];
        for (const source of active.ofNames.get(name) ?? NOTHING) sources.push(source);
        found.set(active, sources);
      }
    }
    return [...found].map(([active, sources]) => ({ active, sources }));
  }

  #sourcesOf(identity: Identity): readonly SourcesOfSet[] {
    const known = this.#known.get(identity);
    if (known !== undefined) return known;
    const found = new Map<ActiveSet, readonly MemberSource[]>();
    // Most identities are in one group of a set, and then share the list of that group.
    const add = (active: ActiveSet, sources: readonly MemberSource[]): void => {
      const before = found.get(active);
      found.set(active, before === undefined ? sources : [...before, ...sources]);
    };
    for (const key of identity.groups) {
      for (const active of this.#users.get(key) ?? []) {
        if (!active.isClosed) add(active, active.sources.get(key) ?? []);
      }
    }
    const all = found.size === 0 ? NOTHING : [...found].map(([active, sources]) => ({ active, sources }));
    this.#known.set(identity, all);
    return all;
  }

  #newSet(set: MemberSet): ActiveSet {
    const active = activeSet(set);
    this.#sets.set(set.name, active);
    this.#rules.provide(`set ${set.name}`, { sets: [set.definitions[4], set.definitions[6]], chains: [] });
    return active;
  }

  #forgetSources(sets: readonly ActiveSet[]): void {
    for (const identity of this.#identitiesOf(sets)) this.#known.delete(identity);
  }

  /** Returns the members that may have elements in the sets. A set of every pod concerns all: settling checks ports. */
  #membersOf(sets: readonly ActiveSet[]): ReadonlySet<string> {
    const members = new Set<string>();
    const isOfEveryPod = sets.some(({ ofNames }) => ofNames.size > 0);
    for (const identity of isOfEveryPod ? this.#groups.podIdentities() : []) {
      for (const member of identity.members) members.add(member);
    }
    for (const identity of this.#identitiesOf(sets)) for (const member of identity.members) members.add(member);
    return members;
  }

  /** The identities in the groups of these sets. */
  *#identitiesOf(sets: readonly ActiveSet[]): Iterable<Identity> {
    for (const { groups } of sets) for (const { key } of groups) yield* this.#groups.identitiesOf(key);
  }

  /** @returns whether its groups are followed, which they are not if they select too many identities */
  #use(active: ActiveSet): boolean {
    const added: (PodGroup | NodeGroup)[] = [];
    for (const group of active.groups) {
      if (!this.#groups.isActive(group.key)) added.push(group);
      this.#users.set(group.key, (this.#users.get(group.key) ?? new Set()).add(active));
    }
    for (const name of active.ofNames.keys()) {
      this.#byName.set(name, (this.#byName.get(name) ?? new Set()).add(active));
    }
    const selections = this.#groups.activate(added, this.#room.selectionsOf(active));
    if (selections !== undefined) this.#room.change(active, 0, selections);
    return selections !== undefined;
  }

  #disuse(group: PodGroup | NodeGroup, active: ActiveSet): void {
    const users = this.#users.get(group.key);
    users?.delete(active);
    if (users === undefined || users.size > 0) return;
    this.#users.delete(group.key);
    this.#groups.deactivate(group);
  }

  /** Removes a set that nobody holds and in which no member has elements. */
  #forgetEmpty(active: ActiveSet): void {
    if (active.holders > 0 || active.claims > 0 || this.#sets.get(active.set.name) !== active) return;
    this.#sets.delete(active.set.name);
    this.#rules.provide(`set ${active.set.name}`, { sets: [], chains: [] });
  }
}

function disown({ owners }: ActiveSet, owner: string): void {
  const left = (owners.get(owner) ?? 0) - 1;
  if (left > 0) owners.set(owner, left);
  else owners.delete(owner);
}

function areSame(a: readonly MemberSource[], b: readonly MemberSource[]): boolean {
  return a.length === b.length && a.every((source, index) => source === b[index]);
}

function ownerOf({ set }: ActiveSet, member: string): string {
  return `${set.name} ${member}`;
}
