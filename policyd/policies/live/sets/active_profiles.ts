import type { HeldSet, ProfileObjects } from "../../compile/sets/member_set.ts";
import { omittedOf } from "../../compile/compile_rules.ts";
import { nameGroupsOf } from "../../compile/name_rules.ts";
import type { PolicyOptions } from "../../compile/options.ts";
import { profileChainName, profileObjects, profileObjectsInSlices } from "../../compile/profile_chain.ts";
import type { Profile } from "../../compile/profile.ts";
import { shortList } from "../../../../objects/printable.ts";
import type { Slices } from "../../../lib/sliced_work.ts";
import { CLOSED_POLICY, OMITTED, policiesThatAsk } from "../closed_policies.ts";
import { FixedSets } from "./fixed_sets.ts";
import type { MemberSets } from "./member_sets.ts";
import type { PolicyRules } from "../policy_rules.ts";

/** The most policies that a problem names; the others are counted. */
const MOST_NAMED = 5;

const NO_POLICIES: readonly string[] = [];

/** A profile that applies to local pods, or will. */
export interface ActiveProfile {
  readonly profile: Profile;
  /** The chain of its rules, to which elements jump. */
  readonly chain: string;
}

interface OwnProfile extends ActiveProfile {
  readonly chains: ProfileObjects["chains"];
  readonly memberSets: ReadonlyMap<string, HeldSet>;
  /** The namespace of its pods, if NetworkPolicies isolate them; else empty. */
  readonly owner: string;
  readonly fixedSets: ReadonlyMap<string, HeldSet>;
  readonly nameSets: ProfileObjects["nameSets"];
  /** The sets for which it counts; undefined if there was no room for them, so that its NetworkPolicies allow nothing. */
  readonly room: number | undefined;
  holders: number;
  hasChains: boolean;
  /** The policies that use sets that lack elements, computed at this number of changes. */
  lacking: { readonly changes: number; readonly policies: readonly string[] };
}

/** Takes the keys of members. */
export type ToSettle = (members: ReadonlySet<string>) => void;

export interface ActiveProfilesParts {
  readonly rules: PolicyRules;
  readonly memberSets: Pick<MemberSets, "hold" | "missing" | "filled" | "release" | "room">;
  readonly options: PolicyOptions;
}

/** The profiles of the pods of this node, and the kernel's objects for each. */
export class ActiveProfiles {
  readonly #parts: ActiveProfilesParts;
  readonly #fixedSets: FixedSets;
  readonly #profiles = new Map<string, OwnProfile>();
  /** The kernel's objects for profiles that are about to be held, by their keys. */
  readonly #prepared = new Map<string, ProfileObjects>();

  constructor(parts: ActiveProfilesParts) {
    this.#parts = parts;
    this.#fixedSets = new FixedSets(parts.rules, parts.memberSets.room);
  }

  /** The number of profiles without room for their sets. */
  get closed(): number {
    return [...this.#profiles.values()].filter(({ room }) => room === undefined).length;
  }

  /** Returns undefined for a profile that no pod has. */
  get(key: string): ActiveProfile | undefined {
    return this.#profiles.get(key);
  }

  /**
   * Returns, by the keys of policies, why they allow some pods less than they say although nothing is wrong with them by
   * themselves: others have used up the pairs (POL-73), or their sets would be too large (POL-93).
   */
  restrictions(): ReadonlyMap<string, ReadonlySet<string>> {
    const found = new Map<string, Set<string>>();
    for (const own of this.#profiles.values()) {
      for (const { reason, policies } of this.#restrictionsOf(own)) {
        for (const policy of policies) found.set(policy, (found.get(policy) ?? new Set()).add(reason));
      }
    }
    return found;
  }

  /** The present problems, for the status. */
  problems(): readonly string[] {
    return [...this.#profiles.values()].flatMap((own) =>
      this.#restrictionsOf(own).map(
        ({ reason, policies }) =>
          `NetworkPolicies ${shortList(policies, MOST_NAMED)}: ${own.profile.direction}: ${reason}`,
      ),
    );
  }

  #restrictionsOf(own: OwnProfile): readonly { readonly reason: string; readonly policies: readonly string[] }[] {
    const all = [
      { reason: OMITTED, policies: omittedOf(own.profile) },
      { reason: CLOSED_POLICY, policies: this.#policiesLackingIn(own) },
    ];
    return all.filter(({ policies }) => policies.length > 0);
  }

  #policiesLackingIn(own: OwnProfile): readonly string[] {
    const { changes, lacking } = this.#parts.memberSets.room;
    if (own.room === undefined) return (own.profile.isolation ?? own.profile.shadow)?.policies ?? [];
    if (own.lacking.changes !== changes) {
      const sets = [...lacking].map(({ set }) => set);
      const used = sets.filter(({ name }) => own.memberSets.has(name) || own.fixedSets.has(name));
      own.lacking = { changes, policies: used.length === 0 ? NO_POLICIES : policiesThatAsk(own.profile, used) };
    }
    return own.lacking.policies;
  }

  /**
   * Adds a holder to a profile: its sets exist from now on, its chains after {@link complete}.
   *
   * @param toSettle gets the members whose elements its sets lack
   */
  hold(profile: Profile, toSettle: ToSettle): ActiveProfile {
    const own = this.#profiles.get(profile.key) ?? this.#newProfile(profile);
    own.holders++;
    if (own.hasChains) return own;
    toSettle(this.#parts.memberSets.missing(namesOf(own)));
    return own;
  }

  /** Does most of the work of the first {@link hold} of a profile, in slices. */
  *prepare(profile: Profile): Slices<void> {
    if (this.#profiles.has(profile.key)) return;
    this.#prepared.set(profile.key, yield* profileObjectsInSlices(profile, this.#parts.options));
  }

  /** Forgets what was prepared but is not held. */
  forgetPrepared(): void {
    this.#prepared.clear();
  }

  #newProfile(wanted: Profile): OwnProfile {
    const { memberSets, options } = this.#parts;
    const { key, direction } = wanted;
    const owner = ownerOf(wanted);
    const all = this.#prepared.get(key) ?? profileObjects(wanted, options);
    const room = setsOf(all);
    const hasRoom = memberSets.room.sets.take(owner, room);
    const profile = hasRoom ? wanted : allowingNothing(wanted);
    const objects = hasRoom ? all : profileObjects(profile, options);
    // The elements of its sets are not stored with each profile: many profiles may have the same ones.
    const own: OwnProfile = {
      profile,
      chain: profileChainName(direction, key, options),
      chains: objects.chains,
      memberSets: new Map(objects.memberSets.map(({ name, isAllowing }) => [name, { name, isAllowing }])),
      owner,
      fixedSets: new Map(objects.fixedSets.map(({ definition: { name }, isAllowing }) => [name, { name, isAllowing }])),
      nameSets: objects.nameSets,
      room: hasRoom ? room : undefined,
      holders: 0,
      hasChains: false,
      lacking: { changes: 0, policies: NO_POLICIES },
    };
    this.#profiles.set(key, own);
    for (const set of objects.fixedSets) this.#fixedSets.hold(set, owner);
    for (const set of objects.memberSets) memberSets.hold(set, owner);
    return own;
  }

  /** Adds the chains of a held profile, so that elements may jump to it. Its sets must be filled by then. */
  complete({ profile }: ActiveProfile): void {
    const own = this.#profiles.get(profile.key);
    if (own === undefined || own.hasChains) return;
    own.hasChains = true;
    for (const name of own.memberSets.keys()) this.#parts.memberSets.filled(name);
    this.#parts.rules.provide(`profile ${profile.key}`, { sets: own.nameSets, chains: own.chains });
  }

  /** Removes a holder, whose elements no longer lead to the profile. @param toSettle gets the members of its sets */
  release({ profile }: ActiveProfile, toSettle: ToSettle): void {
    const own = this.#profiles.get(profile.key);
    if (own === undefined || --own.holders > 0) return;
    this.#profiles.delete(profile.key);
    this.#parts.memberSets.room.sets.change(own.owner, -(own.room ?? 0));
    this.#parts.rules.provide(`profile ${profile.key}`, { sets: [], chains: [] });
    for (const set of own.fixedSets.values()) this.#fixedSets.release(set, own.owner);
    toSettle(this.#parts.memberSets.release([...own.memberSets.values()], own.owner));
  }
}

function namesOf({ memberSets }: OwnProfile): readonly string[] {
  return [...memberSets.keys()];
}

/** Returns the number of the kernel's sets that the NetworkPolicies of a profile need. */
function setsOf({ profile, memberSets, fixedSets }: ProfileObjects): number {
  const [members, fixed] = [memberSets, fixedSets].map((sets) => sets.filter(({ isAllowing }) => isAllowing).length);
  const names = nameGroupsOf({ ...profile, admin: [] }).length;
  return 2 * (members ?? 0) + (fixed ?? 0) + 2 * names;
}

/** Returns a profile whose NetworkPolicies isolate as before. */
function allowingNothing({ isolation, shadow, ...others }: Profile): Profile {
  return {
    ...others,
    isolation: isolation && { ...isolation, rules: [] },
    shadow: shadow && { ...shadow, rules: [] },
  };
}

/** Returns the namespace of the NetworkPolicies, which is before the name: they select pods of their own namespace. */
function ownerOf({ isolation, shadow }: Profile): string {
  return (isolation ?? shadow)?.policies[0]?.split("/")[0] ?? "";
}
