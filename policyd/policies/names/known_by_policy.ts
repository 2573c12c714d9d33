import type { Address } from "../../../kernel/ip/address.ts";
import { namedPeers } from "../compile/name_rules.ts";
import type { NamedPod } from "../live/policy_view.ts";
import type { KnownAddresses } from "./known_addresses.ts";

/** An address that a pod knows by a name of a policy. */
export interface KnownName {
  readonly name: string;
  readonly address: Address;
  /** Undefined for an attachment without a pod. */
  readonly pod: string | undefined;
  /** The seconds for which it still counts. */
  readonly seconds: number;
}

/**
 * Returns the addresses that pods know by the names of each policy, by the policy's kind and key. Of each pod and list
 * of names, the address that was learned last comes first.
 *
 * @param most the number of addresses for each policy
 */
export function knownByPolicy(
  pods: ReadonlyMap<Address, NamedPod>,
  known: KnownAddresses,
  now: number,
  most: number,
): ReadonlyMap<string, readonly KnownName[]> {
  const found = new Map<string, Map<string, KnownName>>();
  for (const [own, { podKey: pod, profile }] of pods) {
    // Thousands of policies may have the same list.
    const byGroup = new Map<string, KnownName[]>();
    for (const { remote: address, groups } of known.of(own).toReversed()) {
      for (const [key, { name, until }] of groups) {
        const all = byGroup.get(key) ?? [];
        byGroup.set(key, all);
        // One that was too long to be kept over a restart is empty.
        if (name !== "" && until > now && all.length < most)
          all.push({ name, address, pod, seconds: Math.ceil((until - now) / 1000) });
      }
    }
    for (const { policy, group } of profile === undefined ? [] : namedPeers(profile)) {
      // Several lists of a policy may have the same.
      const all = found.get(policy) ?? new Map<string, KnownName>();
      found.set(policy, all);
      for (const one of byGroup.get(group.key) ?? []) {
        if (all.size < most) all.set(`${own} ${one.address} ${one.name}`, one);
      }
    }
  }
  return new Map([...found].map(([policy, all]) => [policy, [...all.values()]]));
}
