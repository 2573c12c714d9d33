import type { Claim } from "../../dataplane/claim.ts";
import type { FixedSet, ProfileObjects } from "../compile/member_set.ts";
import type { PolicyOptions } from "../compile/options.ts";
import { POLICY_TABLE } from "../compile/policy_table.ts";
import { profileChainName, profileObjects } from "../compile/profile_chain.ts";
import type { Profile } from "../compile/profile.ts";
import type { MemberSets } from "./member_sets.ts";
import type { PolicyRules } from "./policy_rules.ts";

/** A profile that local pods are judged by, or will be. */
export interface ActiveProfile {
  readonly profile: Profile;
  /** The chain to jump to. */
  readonly chain: string;
}

interface OwnProfile extends ActiveProfile {
  readonly objects: ProfileObjects;
  holders: number;
  hasChains: boolean;
}

/** Takes the keys of members. */
export type ToSettle = (members: ReadonlySet<string>) => void;

/** More elements of fixed sets than these are claimed in several turns. */
const MOST_ELEMENTS = 1000;

/** The profiles of the pods of this node, with what the kernel has of each. */
export class ActiveProfiles {
  readonly #rules: PolicyRules;
  readonly #memberSets: Pick<MemberSets, "hold" | "missing" | "filled" | "release">;
  readonly #options: PolicyOptions;
  readonly #profiles = new Map<string, OwnProfile>();

  constructor(
    rules: PolicyRules,
    memberSets: Pick<MemberSets, "hold" | "missing" | "filled" | "release">,
    options: PolicyOptions,
  ) {
    this.#rules = rules;
    this.#memberSets = memberSets;
    this.#options = options;
  }

  /** Undefined for one that no pod has. */
  get(key: string): ActiveProfile | undefined {
    return this.#profiles.get(key);
  }

  /**
   * Wants a profile, the same one as often as it is held: its sets are there from now on, its chains after
   * {@link complete}.
   *
   * @param toSettle gets the members whose elements its sets lack
   */
  hold(profile: Profile, toSettle: ToSettle): ActiveProfile {
    const own = this.#profiles.get(profile.key) ?? this.#newProfile(profile);
    own.holders++;
    if (own.hasChains) return own;
    for (const { name } of own.objects.memberSets) toSettle(this.#memberSets.missing(name));
    return own;
  }

  #newProfile(profile: Profile): OwnProfile {
    const objects = profileObjects(profile, this.#options);
    const chain = profileChainName(profile.direction, profile.key);
    const own: OwnProfile = { profile, chain, objects, holders: 0, hasChains: false };
    this.#profiles.set(profile.key, own);
    this.#provide(own);
    for (const [index, claims] of chunks(objects.fixedSets).entries()) {
      this.#rules.claim(`profile ${profile.key} ${index}`, claims);
    }
    for (const set of objects.memberSets) this.#memberSets.hold(set);
    return own;
  }

  /** Makes a held profile one that elements may jump to. Its sets must be filled by then. */
  complete({ profile }: ActiveProfile): void {
    const own = this.#profiles.get(profile.key);
    if (own === undefined || own.hasChains) return;
    own.hasChains = true;
    for (const { name } of own.objects.memberSets) this.#memberSets.filled(name);
    this.#provide(own);
  }

  /** Wants a profile once less. No element jumps to it any more. @param toSettle gets the members of its sets */
  release({ profile }: ActiveProfile, toSettle: ToSettle): void {
    const own = this.#profiles.get(profile.key);
    if (own === undefined || --own.holders > 0) return;
    this.#profiles.delete(profile.key);
    for (const index of chunks(own.objects.fixedSets).keys()) {
      this.#rules.claim(`profile ${profile.key} ${index}`, []);
    }
    this.#rules.provide(`profile ${profile.key}`, { sets: [], chains: [] });
    for (const { name } of own.objects.memberSets) toSettle(this.#memberSets.release(name));
  }

  #provide({ profile, objects, hasChains }: OwnProfile): void {
    this.#rules.provide(`profile ${profile.key}`, {
      sets: objects.fixedSets.map(({ definition }) => definition),
      chains: hasChains ? objects.chains : [],
    });
  }
}

function chunks(fixedSets: readonly FixedSet[]): readonly (readonly Claim[])[] {
  const claims = fixedSets.flatMap(({ definition, elements }) =>
    elements.map((element): Claim => ({ table: POLICY_TABLE, set: definition.name, element })),
  );
  const found: (readonly Claim[])[] = [];
  for (let start = 0; start < claims.length; start += MOST_ELEMENTS) {
    found.push(claims.slice(start, start + MOST_ELEMENTS));
  }
  return found;
}
