import type { HeldSet, ProfileObjects } from "../../compile/sets/member_set.ts";
import { omittedOf } from "../../compile/compile_rules.ts";
import { digest } from "../../compile/digest.ts";
import type { PolicyOptions } from "../../compile/options.ts";
import { profileChainName, profileObjects, profileObjectsInSlices } from "../../compile/profile_chain.ts";
import type { Profile } from "../../compile/profile.ts";
import { shortList } from "../../../../objects/printable.ts";
import type { Slices } from "../../../lib/sliced_work.ts";
import { CLOSED_POLICY, OMITTED, policiesThatAsk } from "../closed_policies.ts";
import { FixedSets } from "./fixed_sets.ts";
import type { MemberSets } from "./member_sets.ts";
import type { PolicyRules } from "../policy_rules.ts";
import type { ProfiledPod } from "../pods/local_pods.ts";

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
  /** The names of the kernel's sets that its NetworkPolicies need. */
  readonly sets: readonly string[];
  /** Whether there was no room for them, so that its NetworkPolicies allow nothing. */
  readonly isClosed: boolean;
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
  readonly #closed = new Set<OwnProfile>();
  /** The kernel's objects for profiles that are about to be held, by their keys. */
  readonly #prepared = new Map<string, ProfileObjects>();

  constructor(parts: ActiveProfilesParts) {
    this.#parts = parts;
    this.#fixedSets = new FixedSets(parts.rules, parts.memberSets.room);
  }

  /** The number of profiles without room for their sets. */
  get closed(): number {
    return this.#closed.size;
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
    if (own.isClosed) return (own.profile.isolation ?? own.profile.shadow)?.policies ?? [];
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
   * @param replaced the profile that the holder has until then
   */
  hold(profile: Profile, toSettle: ToSettle, replaced?: ActiveProfile): ActiveProfile {
    const own = this.#find(profile) ?? this.#newProfile(profile, replaced);
    own.holders++;
    if (own.hasChains) return own;
    toSettle(this.#parts.memberSets.missing(namesOf(own)));
    return own;
  }

  /** Does most of the work of the first {@link hold} of a profile, in slices. */
  *prepare(profile: Profile): Slices<void> {
    if (this.#find(profile) !== undefined) return;
    this.#prepared.set(profile.key, yield* profileObjectsInSlices(profile, this.#parts.options));
  }

  /** Forgets what was prepared but is not held. */
  forgetPrepared(): void {
    this.#prepared.clear();
  }

  /** Returns the pods with a closed profile for whose sets there is room by now, if any sets have gone. */
  takeOpenable<T extends Pick<ProfiledPod, "wanted">>(pods: readonly T[]): readonly T[] {
    if (this.#closed.size === 0 || !this.#parts.memberSets.room.counts.takeFreed()) return [];
    const openable = new Set<ActiveProfile | undefined>([...this.#closed].filter((own) => this.#hasRoom(own)));
    return pods.filter(({ wanted }) => openable.has(wanted?.egress) || openable.has(wanted?.ingress));
  }

  #hasRoom({ owner, sets }: OwnProfile): boolean {
    return this.#parts.memberSets.room.counts.hasRoom(owner, sets);
  }

  /** Returns a profile that has holders, or the closed one in its place while there is no room for its sets. */
  #find({ key }: Profile): OwnProfile | undefined {
    const own = this.#profiles.get(key);
    if (own !== undefined || this.#closed.size === 0) return own;
    const closed = this.#profiles.get(closedKey(key));
    return closed === undefined || this.#hasRoom(closed) ? undefined : closed;
  }

  #newProfile(wanted: Profile, replaced: ActiveProfile | undefined): OwnProfile {
    const { memberSets, options } = this.#parts;
    const { counts } = memberSets.room;
    const owner = ownerOf(wanted);
    const all = this.#prepared.get(wanted.key) ?? profileObjects(wanted, options);
    const sets = setsOf(all);
    const before = replaced && this.#profiles.get(replaced.profile.key);
    const isClosed = !counts.hasRoom(owner, sets, before?.isClosed === false ? before.sets.length : 0);
    const profile = isClosed ? allowingNothing(wanted) : wanted;
    const objects = isClosed ? profileObjects(profile, options) : all;
    // The elements of its sets are not stored with each profile: many profiles may have the same ones.
    const own: OwnProfile = {
      profile,
      chain: profileChainName(profile.direction, profile.key, options),
      chains: objects.chains,
      memberSets: new Map(objects.memberSets.map(({ name, isAllowing }) => [name, { name, isAllowing }])),
      owner,
      fixedSets: new Map(objects.fixedSets.map(({ definition: { name }, isAllowing }) => [name, { name, isAllowing }])),
      sets,
      isClosed,
      holders: 0,
      hasChains: false,
      lacking: { changes: 0, policies: NO_POLICIES },
    };
    this.#profiles.set(profile.key, own);
    if (isClosed) this.#closed.add(own);
    else counts.hold(owner, sets);
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
    this.#parts.rules.provide(`profile ${profile.key}`, { sets: [], chains: own.chains });
  }

  /** Removes a holder, whose elements no longer lead to the profile. @param toSettle gets the members of its sets */
  release({ profile }: ActiveProfile, toSettle: ToSettle): void {
    const own = this.#profiles.get(profile.key);
    if (own === undefined || --own.holders > 0) return;
    this.#profiles.delete(profile.key);
    if (!this.#closed.delete(own)) this.#parts.memberSets.room.counts.release(own.owner, own.sets);
    this.#parts.rules.provide(`profile ${profile.key}`, { sets: [], chains: [] });
    for (const set of own.fixedSets.values()) this.#fixedSets.release(set, own.owner);
    toSettle(this.#parts.memberSets.release([...own.memberSets.values()], own.owner));
  }
}

function namesOf({ memberSets }: OwnProfile): readonly string[] {
  return [...memberSets.keys()];
}

/** Returns the names of the kernel's sets that the NetworkPolicies of a profile need. */
function setsOf({ memberSets, fixedSets }: ProfileObjects): readonly string[] {
  const members = memberSets
    .filter(({ isAllowing }) => isAllowing)
    .flatMap(({ definitions }) => [definitions[4], definitions[6]]);
  const fixed = fixedSets.filter(({ isAllowing }) => isAllowing).map(({ definition }) => definition);
  return [...members, ...fixed].map(({ name }) => name);
}

/** Returns a profile in place of another, whose NetworkPolicies isolate as before. */
function allowingNothing({ key, isolation, shadow, ...others }: Profile): Profile {
  return {
    ...others,
    key: closedKey(key),
    isolation: isolation && { ...isolation, rules: [] },
    shadow: shadow && { ...shadow, rules: [] },
  };
}

function closedKey(key: string): string {
  return digest(["closed", key]);
}

/** Returns the namespace of the NetworkPolicies, which is before the name: they select pods of their own namespace. */
function ownerOf({ isolation, shadow }: Profile): string {
  return (isolation ?? shadow)?.policies[0]?.split("/")[0] ?? "";
}
