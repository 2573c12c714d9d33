import type { Address } from "../../../../kernel/ip/address.ts";
import type { DesiredElement } from "../../../ruleset/desired/desired_element.ts";
import { type Direction, DIRECTIONS, type ProfilesByDirection } from "../../compile/profile.ts";
import { askerElement, nameGroupsOf } from "../../compile/name_rules.ts";
import { knownElements, selfElements, verdictElement } from "../../compile/table_elements.ts";
import type { ActiveProfile, ActiveProfiles, ToSettle } from "../sets/active_profiles.ts";
import type { ExpectedPod } from "./expected_pods.ts";
import type { ProfiledPod, LocalPod, PodProfiles } from "./local_pods.ts";
import type { PolicyRules } from "../policy_rules.ts";

/** Assigns profiles to the pods of this node: those being prepared, and those to which the pods' elements lead. */
export class LocalVerdicts {
  readonly #rules: PolicyRules;
  readonly #profiles: ActiveProfiles;
  /** Gets the members of sets that nobody holds any more. */
  readonly #released: ToSettle;

  constructor(rules: PolicyRules, profiles: ActiveProfiles, released: ToSettle) {
    this.#rules = rules;
    this.#profiles = profiles;
    this.#released = released;
  }

  /** Holds profiles for a pod, which apply from {@link switch} on. @param toSettle gets the members their sets lack */
  want(local: ProfiledPod, profiles: ProfilesByDirection, toSettle: ToSettle): void {
    const before = local.wanted;
    const hold = (direction: Direction): ActiveProfile | undefined => {
      const profile = profiles[direction];
      return profile && this.#profiles.hold(profile, toSettle, before?.[direction]);
    };
    local.wanted = { egress: hold("egress"), ingress: hold("ingress") };
    this.#release(before);
  }

  /** Puts the wanted profiles of a pod in force, whose sets are filled by now, and applies them to it if attached. */
  switch(local: LocalPod | ExpectedPod): void {
    const { wanted } = local;
    if (wanted === undefined) return;
    for (const profile of heldBy(wanted)) this.#profiles.complete(profile);
    if (local.type === "attached") this.#claim(local, wanted);
  }

  /** Lets a pod send and receive nothing. */
  close(local: LocalPod | ExpectedPod): void {
    if (local.type === "attached") this.#claim(local, undefined);
    this.#release(local.wanted);
    local.wanted = undefined;
  }

  #claim(local: LocalPod, profiles: PodProfiles | undefined): void {
    const { key, addresses, claimed: before } = local;
    for (const { profile } of heldBy(profiles)) this.#profiles.hold(profile, () => {});
    local.claimed = profiles;
    this.#rules.claim(`attachment ${key}`, profiles === undefined ? [] : elementsOf(addresses, profiles));
    this.#release(before);
  }

  #release(profiles: PodProfiles | undefined): void {
    for (const profile of heldBy(profiles)) this.#profiles.release(profile, this.#released);
  }
}

/** Returns all elements of a pod. It has a verdict in each direction, even if no policy selects it. */
function elementsOf(addresses: readonly Address[], profiles: PodProfiles): readonly DesiredElement[] {
  const verdicts = DIRECTIONS.flatMap((direction) =>
    addresses.map((address) => verdictElement(direction, address, profiles[direction]?.chain)),
  );
  const askers = nameGroupsOf(profiles.egress?.profile).length > 0 ? addresses.map(askerElement) : [];
  return [...knownElements(addresses), ...selfElements(addresses), ...verdicts, ...askers];
}

function heldBy(profiles: PodProfiles | undefined): readonly ActiveProfile[] {
  return DIRECTIONS.map((direction) => profiles?.[direction]).filter((profile) => profile !== undefined);
}
