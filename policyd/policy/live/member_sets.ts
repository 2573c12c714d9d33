import type { Address } from "../../../kernel/ip/address.ts";
import { familyOf } from "../../../kernel/ip/address.ts";
import { keyText } from "../../../kernel/nftables/element.ts";
import type { ContainerPort } from "../../cluster/model.ts";
import type { Claim } from "../../dataplane/claim.ts";
import { memberKeys } from "../compile/member_elements.ts";
import type { MemberSet, MemberSource } from "../compile/member_set.ts";
import { POLICY_TABLE } from "../compile/policy_table.ts";
import type { NodeGroup, PodGroup } from "../compile/profile.ts";
import type { GroupIndex, Identity } from "./group_index.ts";
import type { PolicyRules } from "./policy_rules.ts";

/** A pod or a node as sets have it. */
export interface Member {
  readonly identity: Identity;
  /** Each once. */
  readonly addresses: readonly Address[];
  /** None for a node. */
  readonly ports: readonly ContainerPort[];
}

interface ActiveSet {
  readonly set: MemberSet;
  readonly groups: readonly (PodGroup | NodeGroup)[];
  readonly sources: ReadonlyMap<string, readonly MemberSource[]>;
  readonly ofEveryPod: readonly MemberSource[];
  readonly hasNames: boolean;
  holders: number;
  /** Whether all members have been settled since it is held. */
  isFilled: boolean;
  /** How many members have elements in it. */
  claims: number;
}

/** What a member's elements in a set were made of. */
interface Claimed {
  readonly active: ActiveSet;
  readonly sources: readonly MemberSource[];
  readonly addresses: readonly Address[];
  readonly ports: readonly ContainerPort[];
}

/** What a set means for members of an identity. */
interface SourcesOfSet {
  readonly active: ActiveSet;
  readonly sources: readonly MemberSource[];
}

/** Of most members of a large cluster. */
const NOTHING: readonly never[] = [];

/**
 * The sets of the kernel that follow what is in the cluster: those somebody holds, with the elements of all their
 * members. What it returns are the members to {@link settle}, which may be done in any number of turns.
 */
export class MemberSets {
  readonly #rules: PolicyRules;
  readonly #groups: GroupIndex;
  readonly #sets = new Map<string, ActiveSet>();
  /** The held sets by the keys of their groups. */
  readonly #users = new Map<string, Set<ActiveSet>>();
  readonly #ofEveryPod = new Set<ActiveSet>();
  /** What the groups of an identity mean for it; made when it is asked for. */
  readonly #known = new WeakMap<Identity, readonly SourcesOfSet[]>();
  /** Lists, as nearly all members are in a few sets. */
  readonly #claimed = new Map<string, readonly Claimed[]>();

  constructor(rules: PolicyRules, groups: GroupIndex) {
    this.#rules = rules;
    this.#groups = groups;
  }

  /** How many sets there are, and how many members they have, each counted in every set it is in. */
  totals(): { readonly sets: number; readonly members: number } {
    let members = 0;
    for (const { claims } of this.#sets.values()) members += claims;
    return { sets: this.#sets.size, members };
  }

  /** Wants a set; the same one is wanted as often as it is held. */
  hold(set: MemberSet): void {
    const active = this.#sets.get(set.name) ?? this.#newSet(set);
    if (active.holders++ > 0) return;
    for (const group of active.groups) this.#use(group, active);
    if (active.ofEveryPod.length > 0) this.#ofEveryPod.add(active);
    this.#forgetSources(active);
  }

  /** The keys of the members that are to be settled before a held set is {@link filled}; none when it is. */
  missing(name: string): ReadonlySet<string> {
    const active = this.#sets.get(name);
    return active === undefined || active.isFilled ? new Set() : this.#membersOf(active);
  }

  /** All members of a held set have been settled. */
  filled(name: string): void {
    const active = this.#sets.get(name);
    if (active !== undefined) active.isFilled = true;
  }

  /** Wants a set once less. @returns the keys of the members that are to be settled */
  release(name: string): ReadonlySet<string> {
    const active = this.#sets.get(name);
    if (active === undefined || --active.holders > 0) return new Set();
    active.isFilled = false;
    this.#forgetSources(active);
    const members = this.#membersOf(active);
    this.#ofEveryPod.delete(active);
    for (const group of active.groups) this.#disuse(group, active);
    this.#forgetEmpty(active);
    return members;
  }

  /** An identity is in other groups than before. */
  groupsChanged(identity: Identity): void {
    this.#known.delete(identity);
  }

  /** Makes the elements of a member what it is by now; undefined for one that is gone. */
  settle(key: string, member: Member | undefined): void {
    const isThere = member !== undefined && member.addresses.length > 0;
    const wanted = isThere ? this.#sourcesOf(member.identity) : NOTHING;
    const before = new Map((this.#claimed.get(key) ?? NOTHING).map((claimed) => [claimed.active, claimed]));
    const wantedSets = new Set(wanted.map(({ active }) => active));
    for (const active of before.keys()) {
      if (wantedSets.has(active)) continue;
      this.#rules.claim(ownerOf(active, key), []);
      active.claims--;
      this.#forgetEmpty(active);
    }
    const after = member === undefined ? NOTHING : wanted.map((one) => this.#claim(key, one, member, before));
    if (after.length === 0) this.#claimed.delete(key);
    else this.#claimed.set(key, after);
  }

  /** Has a member's elements in a set be what is wanted. */
  #claim(
    key: string,
    { active, sources }: SourcesOfSet,
    member: Member,
    before: ReadonlyMap<ActiveSet, Claimed>,
  ): Claimed {
    const claimed = before.get(active);
    if (claimed !== undefined && isSame(claimed, sources, member, active.hasNames)) return claimed;
    this.#rules.claim(ownerOf(active, key), elementsOf(active.set, sources, member));
    if (claimed === undefined) active.claims++;
    return { active, sources, addresses: member.addresses, ports: member.ports };
  }

  #sourcesOf(identity: Identity): readonly SourcesOfSet[] {
    const known = this.#known.get(identity);
    if (known !== undefined) return known;
    const found = new Map<ActiveSet, MemberSource[]>();
    const add = (active: ActiveSet, sources: readonly MemberSource[]): void => {
      const before = found.get(active);
      if (before === undefined) found.set(active, [...sources]);
      else before.push(...sources);
    };
    for (const key of identity.groups) {
      for (const active of this.#users.get(key) ?? []) add(active, active.sources.get(key) ?? []);
    }
    if (identity.namespace !== undefined) for (const active of this.#ofEveryPod) add(active, active.ofEveryPod);
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

  #forgetSources(active: ActiveSet): void {
    for (const identity of this.#identitiesOf(active)) this.#known.delete(identity);
  }

  #membersOf(active: ActiveSet): ReadonlySet<string> {
    const members = new Set<string>();
    for (const identity of this.#identitiesOf(active)) for (const member of identity.members) members.add(member);
    return members;
  }

  *#identitiesOf({ groups, ofEveryPod }: ActiveSet): Iterable<Identity> {
    if (ofEveryPod.length > 0) yield* this.#groups.podIdentities();
    for (const { key } of groups) yield* this.#groups.identitiesOf(key);
  }

  #use(group: PodGroup | NodeGroup, active: ActiveSet): void {
    const users = this.#users.get(group.key) ?? new Set();
    if (users.size === 0) this.#groups.activate(group);
    this.#users.set(group.key, users.add(active));
  }

  #disuse(group: PodGroup | NodeGroup, active: ActiveSet): void {
    const users = this.#users.get(group.key);
    users?.delete(active);
    if (users === undefined || users.size > 0) return;
    this.#users.delete(group.key);
    this.#groups.deactivate(group);
  }

  /** A set goes when nobody wants it and no member has elements in it. */
  #forgetEmpty(active: ActiveSet): void {
    if (active.holders > 0 || active.claims > 0 || this.#sets.get(active.set.name) !== active) return;
    this.#sets.delete(active.set.name);
    this.#rules.provide(`set ${active.set.name}`, { sets: [], chains: [] });
  }
}

function activeSet(set: MemberSet): ActiveSet {
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
    ofEveryPod: set.sources.filter(({ group }) => group === undefined),
    hasNames: set.sources.some(({ ports }) => ports.type === "name"),
    holders: 0,
    isFilled: false,
    claims: 0,
  };
}

function elementsOf(
  { definitions }: MemberSet,
  sources: readonly MemberSource[],
  { addresses, ports }: Member,
): readonly Claim[] {
  const claims = new Map<string, Claim>();
  for (const address of addresses) {
    const set = definitions[familyOf(address)].name;
    for (const source of sources) {
      for (const key of memberKeys(source, address, ports)) {
        claims.set(keyText(key), { table: POLICY_TABLE, set, element: { key } });
      }
    }
  }
  return [...claims.values()];
}

function isSame(
  before: Claimed,
  sources: readonly MemberSource[],
  { addresses, ports }: Member,
  hasNames: boolean,
): boolean {
  if (before.addresses.length !== addresses.length || before.sources.length !== sources.length) return false;
  if (hasNames && before.ports !== ports) return false;
  return (
    before.addresses.every((address) => addresses.includes(address)) &&
    before.sources.every((source, index) => source === sources[index])
  );
}

function ownerOf({ set }: ActiveSet, member: string): string {
  return `${set.name} ${member}`;
}
