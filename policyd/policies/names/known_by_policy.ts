import type { Address } from "../../../kernel/ip/address.ts";
import { namesByPolicy } from "../compile/name_rules.ts";
import type { NamedPod } from "../live/policy_view.ts";
import { byPattern, type KnownAddresses, longestOf } from "./known_addresses.ts";

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
 * Returns what pods know by the names of policies, by the policies' kinds and keys, the last learned of a pod first.
 *
 * @param most the number of addresses for each policy
 */
export function knownByPolicy(
  pods: ReadonlyMap<Address, NamedPod>,
  known: KnownAddresses,
  now: number,
  most: number,
): ReadonlyMap<string, readonly KnownName[]> {
  const found = new Map<string, KnownName[]>();
  for (const [own, { podKey: pod, profile }] of pods) {
    const policies = profile === undefined ? new Map<string, readonly string[]>() : namesByPolicy(profile);
    for (const policy of policies.keys()) found.set(policy, found.get(policy) ?? []);
    const index = byPattern(policies);
    // A policy that has enough is not looked for any more: it may be one of thousands.
    const drop = (policy: string): void => {
      for (const pattern of policies.get(policy) ?? []) index.get(pattern)?.delete(policy);
    };
    for (const entry of known.of(own).toReversed()) {
      for (const [policy, { name, until }] of longestOf(entry, index)) {
        const all = found.get(policy) ?? [];
        if (all.length >= most) drop(policy);
        else if (until > now) all.push({ name, address: entry.remote, pod, seconds: Math.ceil((until - now) / 1000) });
      }
    }
  }
  return found;
}
