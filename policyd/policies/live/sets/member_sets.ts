import type { HeldSet, MemberSet, MemberSource } from "../../compile/sets/member_set.ts";
import type { NodeGroup, PodGroup } from "../../compile/profile.ts";
import { type Claimed, elementsOf, isSame, type Member, sizeOf, type SourcesOfSet } from "./member_claims.ts";
import { type ActiveSet, activeSet } from "./active_set.ts";
import type { GroupIndex, Identity } from "../index/group_index.ts";
import type { PolicyRules } from "../policy_rules.ts";
import { isHeld, type Lack, type RoomBounds, SetRoom } from "./set_room.ts";

/** The content of the sets, in numbers. */
export interface SetTotals {
  readonly sets: number;
  /** Each member is counted in every set it is in. */
  readonly members: number;
  /** Pairs of a member's address and a port, each counted in every set it is in. */
  readonly elements: number;
  /** The number of sets, also of those whose elements never change, that lack elements for want of room (POL-93). */
  readonly closed: number;
}

/** The held sets that use a group. */
interface Users {
  readonly sets: Set<ActiveSet>;
  /** The one for which the identities in the group count. */
  payer: ActiveSet;
}

/** How much more room than it found a set must have before it is tried again that did not find out what it needs. */
const MORE_ROOM = 1.25;

/** The sets of most members of a large cluster. */
const NOTHING: readonly never[] = [];

/**
 * The kernel's sets that follow the objects of the cluster: those that somebody holds, with the elements of all their
 * members. Its methods return the members to {@link settle}, which may be done in any number of turns.
 */
export class MemberSets {
  /** The room of these and of all other sets of NetworkPolicies. */
  readonly room: SetRoom;
  readonly #rules: PolicyRules;
  readonly #groups: GroupIndex;
  readonly #sets = new Map<string, ActiveSet>();
  /** By the keys of groups. */
  readonly #users = new Map<string, Users>();
  /** The held sets with sources of every pod, by the names of ports. */
  readonly #byName = new Map<string, Set<ActiveSet>>();
  /** The sources that apply to an identity because of its groups, computed on request. */
  readonly #known = new WeakMap<Identity, readonly SourcesOfSet[]>();
  readonly #claimed = new Map<string, Claimed>();
  readonly #toSettle: (members: ReadonlySet<string>) => void;

  /** @param toSettle gets the members whose elements a set lacks, or must lose because there is no room for them */
  constructor(
    rules: PolicyRules,
    groups: GroupIndex,
    toSettle: (members: ReadonlySet<string>) => void,
    bounds?: RoomBounds,
  ) {
    this.#rules = rules;
    this.#groups = groups;
    this.#toSettle = toSettle;
    this.room = new SetRoom(bounds);
    groups.room = { enters: (key) => this.#enters(key), left: (key) => this.#count(key, -1) };
  }

  /** Returns the current content of the sets, in numbers. */
  totals(): SetTotals {
    let members = 0;
    let elements = 0;
    for (const { claims, size } of this.#sets.values()) {
      members += claims;
      elements += size;
    }
    return { sets: this.#sets.size, members, elements, closed: this.room.lacking.size };
  }

  /**
   * Adds a holder to a set. The set exists until each of its holders releases it.
   *
   * @param owner the namespace whose pods need the set
   */
  hold(set: MemberSet, owner: string): void {
    const active = this.#sets.get(set.name) ?? this.#newSet(set);
    if (this.room.hold(active, set, owner)) this.#open(active);
  }

  /** Gives a set all its elements if there is room for them: those that it lacks are queued. */
  #open(active: ActiveSet): void {
    const refused = this.#follow(active);
    if (refused !== undefined) return this.room.refuse(active, refused);
    if (active.state === "closed") {
      const elements = this.#expected(active);
      if (!this.room.hasRoom(active, elements)) return this.room.refuse(active, { elements });
      active.state = "filling";
    }
    this.#forgetSources([active]);
    if (active.lack === undefined) return;
    this.room.tries(active);
    this.#toSettle(this.#membersOf([active]));
  }

  /** Returns the keys of the members to be settled before held sets are {@link filled}; empty when they are. */
  missing(names: readonly string[]): ReadonlySet<string> {
    const sets = names.map((name) => this.#sets.get(name)).filter((active) => active !== undefined);
    const isIncomplete = ({ state, lack, wholeHolders }: ActiveSet): boolean =>
      state === "filling" || (state === "open" && lack !== undefined && wholeHolders > 0);
    return this.#membersOf(sets.filter(isIncomplete));
  }

  /** Notes that all members of a held set have been settled. */
  filled(name: string): void {
    const active = this.#sets.get(name);
    if (active?.state === "filling") active.state = "open";
  }

  /** Removes one holder from each of these sets. @returns the keys of the members that are to be settled */
  release(held: readonly HeldSet[], owner: string): ReadonlySet<string> {
    const sets: ActiveSet[] = [];
    for (const set of held) {
      const active = this.#sets.get(set.name);
      if (active !== undefined && this.room.release(active, set, owner)) sets.push(active);
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
    if (!this.room.hasRoom(active, growth)) {
      const isClosing = active.state === "filling";
      this.room.refuse(active, { elements: isClosing ? active.size + growth : growth });
      if (isClosing) this.#close(active);
      return false;
    }
    if (claimed === undefined) active.claims++;
    this.#rules.claim(ownerOf(active, key), elementsOf(active.set, sources, member));
    this.room.change(active, growth);
    return true;
  }

  /** Removes all elements from a set that no rule uses yet. */
  #close(active: ActiveSet): void {
    active.state = "closed";
    this.#forgetSources([active]);
    this.#toSettle(this.#membersOf([active]));
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
      this.room.change(active, -sizeOf(sources, before));
      active.claims--;
      this.#forgetEmpty(active);
    }
  }

  #wantedBy({ identity, ports }: Member): readonly SourcesOfSet[] {
    const ofGroups = this.#sourcesOf(identity);
    if (this.#byName.size === 0 || ports.length === 0) return ofGroups;
    const found = new Map(ofGroups.map(({ active, sources }) => [active, [...sources]]));
    for (const name of new Set(ports.map((port) => port.name ?? ""))) {
      for (const active of this.#byName.get(name) ?? []) {
        if (active.state === "closed") continue;
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
      for (const active of this.#users.get(key)?.sets ?? NOTHING) {
        if (active.state !== "closed") add(active, active.sources.get(key) ?? []);
      }
    }
    const all = found.size === 0 ? NOTHING : [...found].map(([active, sources]) => ({ active, sources }));
    this.#known.set(identity, all);
    return all;
  }

  #newSet(set: MemberSet): ActiveSet {
    const active = activeSet(set, (one) => this.#open(one));
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
    for (const identity of isOfEveryPod ? this.#groups.identities() : []) {
      for (const member of identity.members) members.add(member);
    }
    for (const identity of this.#identitiesOf(sets)) for (const member of identity.members) members.add(member);
    return members;
  }

  /** The identities in the groups of these sets. */
  *#identitiesOf(sets: readonly ActiveSet[]): Iterable<Identity> {
    for (const { groups } of sets) for (const { key } of groups) yield* this.#groups.identitiesOf(key);
  }

  /**
   * Follows the groups of a set. Those that nobody followed, or not all of whose identities, count for this set now.
   *
   * @returns what the set lacks at least if its groups select too many identities; new groups are not followed then
   */
  #follow(active: ActiveSet): Partial<Lack> | undefined {
    const added: (PodGroup | NodeGroup)[] = [];
    const others: (readonly [users: Users, identities: number])[] = [];
    let taken = 0;
    for (const group of active.groups) {
      const users = this.#users.get(group.key) ?? { sets: new Set(), payer: active };
      this.#users.set(group.key, users);
      users.sets.add(active);
      if (this.#groups.isComplete(group.key)) continue;
      added.push(group);
      if (users.payer === active) continue;
      const { size } = this.#groups.identitiesOf(group.key);
      others.push([users, size]);
      taken += size;
    }
    for (const name of active.ofNames.keys()) {
      this.#byName.set(name, (this.#byName.get(name) ?? new Set()).add(active));
    }
    const most = this.room.selectionsOf(active);
    const entered = taken > most ? undefined : this.#groups.activate(added, most - taken);
    if (entered === undefined) return { selections: Math.ceil(MORE_ROOM * Math.max(0, most)) + 1 };
    this.room.hasRoom(active, 0, taken + entered);
    this.room.change(active, 0, taken + entered);
    for (const [users, identities] of others) {
      this.room.change(users.payer, 0, -identities);
      users.payer = active;
    }
    return undefined;
  }

  /** Counts an identity that a group selects for one of the sets that use it. @returns whether one has room for it */
  #enters(key: string): boolean {
    const users = this.#users.get(key);
    if (users === undefined) return true;
    const { size } = this.#groups.identitiesOf(key);
    const growthOf = (active: ActiveSet): number => (active === users.payer ? 1 : size + 1);
    const payer = [users.payer, ...users.sets].find((active) => this.room.hasRoom(active, 0, growthOf(active)));
    if (payer === undefined) {
      for (const active of users.sets) this.room.refuse(active, { selections: growthOf(active) });
      return false;
    }
    if (payer !== users.payer) this.#setPayer(key, users, payer);
    this.room.change(payer, 0, 1);
    return true;
  }

  /** Counts the identities that a group selects for another set, whether that has room or not. */
  #setPayer(key: string, users: Users, payer: ActiveSet | undefined): void {
    const { size } = this.#groups.identitiesOf(key);
    this.room.change(users.payer, 0, -size);
    if (payer === undefined) return;
    this.room.change(payer, 0, size);
    users.payer = payer;
  }

  /** Adds a number of identities to what a group counts. */
  #count(key: string, identities: number): void {
    const payer = this.#users.get(key)?.payer;
    if (payer !== undefined) this.room.change(payer, 0, identities);
  }

  #disuse(group: PodGroup | NodeGroup, active: ActiveSet): void {
    const users = this.#users.get(group.key);
    if (users === undefined) return;
    users.sets.delete(active);
    const [other] = users.sets;
    if (users.payer === active) this.#setPayer(group.key, users, other);
    if (other !== undefined) return;
    this.#users.delete(group.key);
    this.#groups.deactivate(group);
  }

  /** Removes a set that nobody holds and in which no member has elements. */
  #forgetEmpty(active: ActiveSet): void {
    if (isHeld(active) || active.claims > 0 || this.#sets.get(active.set.name) !== active) return;
    this.#sets.delete(active.set.name);
    this.#rules.provide(`set ${active.set.name}`, { sets: [], chains: [] });
  }
}

function areSame(a: readonly MemberSource[], b: readonly MemberSource[]): boolean {
  return a.length === b.length && a.every((source, index) => source === b[index]);
}

function ownerOf({ set }: ActiveSet, member: string): string {
  return `${set.name} ${member}`;
}
