import { PROTOCOL_OF } from "../../objects/protocol.ts";
import { protocolFromNumber, isTransport } from "../../kernel/ip/protocol.ts";
import { type Address, addressFromValue } from "../../kernel/ip/address.ts";
import type { KeyField } from "../../kernel/nftables/model/expression.ts";
import type { Element, SetDefinition } from "../../kernel/nftables/model/object.ts";
import { firstMatch, type PolicedFlow } from "../policies/compile/profile_verdict.ts";
import type { PolicyOptions } from "../policies/compile/options.ts";
import { profileObjectsInSlices } from "../policies/compile/profile_chain.ts";
import type { Direction, Profile, ProfileRule } from "../policies/compile/profile.ts";
import type { PolicyView } from "../policies/live/policy_view.ts";
import type { Slices } from "../lib/sliced_work.ts";
import { labelsOf, type PolicyRuleLabels } from "./policy_rule.ts";

/** Finds out which rules of a profile the elements of shared sets belong to. */
export interface MergedRules {
  /** @param profiles names of profiles: direction and key with "_" in between */
  of(profiles: Iterable<string>): Slices<readonly MergedProfile[]>;
}

export interface MergedProfile {
  readonly direction: Direction;
  readonly rules: readonly ProfileRule[];
  /** Sets that no other profile uses: the counters of a shared set do not show whose packets they counted. */
  readonly sets: readonly MergedSet[];
}

/** A set whose elements have counters. */
export interface MergedSet {
  readonly definition: SetDefinition;
  /** Returns the first rule that allows what the element allows; undefined where no rule does any more. */
  readonly ruleOf: (element: Element) => PolicyRuleLabels | undefined;
}

/** Stands for the other end of a flow, which does not matter where only one end is checked. */
const NOBODY = addressFromValue(4, 0n);

/** Returns the merged rules of the profiles of this node's pods. */
export function mergedRules(view: Pick<PolicyView, "profile" | "peers">, options: PolicyOptions): MergedRules {
  const known = new WeakMap<Profile, readonly MergedSet[]>();
  return {
    *of(names) {
      const found: { readonly profile: Profile; readonly sets: readonly MergedSet[] }[] = [];
      for (const name of names) {
        const profile = view.profile(name.slice(name.indexOf("_") + 1));
        if (profile === undefined) continue;
        const sets = known.get(profile) ?? (yield* countingSets(profile, options, view.peers));
        known.set(profile, sets);
        found.push({ profile, sets });
        yield;
      }
      const uses = Map.groupBy(
        found.flatMap(({ sets }) => sets),
        ({ definition }) => definition.name,
      );
      return found.map(({ profile, sets }) => ({
        direction: profile.direction,
        rules: rulesOf(profile),
        sets: sets.filter(({ definition }) => uses.get(definition.name)?.length === 1),
      }));
    },
  };
}

function* countingSets(
  profile: Profile,
  options: PolicyOptions,
  peers: PolicyView["peers"],
): Slices<readonly MergedSet[]> {
  // Merged rules have no names.
  const view = { ...peers, knownNames: () => [] };
  const ruleOf = (flow: PolicedFlow | undefined): PolicyRuleLabels | undefined => {
    const found = flow && firstMatch(rulesOf(profile), profile.direction, flow, view);
    return found && labelsOf(found.origin);
  };
  return (yield* profileObjectsInSlices(profile, options)).memberSets.flatMap(({ definitions, sources }) => {
    // Without a group, the set is about the ports of the receiving pod.
    const isOfReceiver = profile.direction === "egress" || sources.every(({ group }) => group === undefined);
    return [definitions[4], definitions[6]]
      .filter(({ hasCounters }) => hasCounters === true)
      .map((definition) => ({ definition, ruleOf: (element) => ruleOf(flowOf(element, isOfReceiver)) }));
  });
}

function rulesOf({ isolation, shadow }: Profile): readonly ProfileRule[] {
  return (isolation ?? shadow)?.rules ?? [];
}

/** Returns the flow that an element allows: to an address, or from one, at every port or at one. */
function flowOf({ key: [first, word, port] }: Element, isOfReceiver: boolean): PolicedFlow | undefined {
  const address = addressOf(first);
  if (address === undefined || NOBODY === undefined) return undefined;
  const name = typeof word === "number" ? protocolFromNumber(word) : word;
  return {
    source: isOfReceiver ? NOBODY : address,
    destination: isOfReceiver ? address : NOBODY,
    protocol: isTransport(name) ? PROTOCOL_OF[name] : undefined,
    port: typeof port === "number" ? port : 0,
  };
}

function addressOf(value: KeyField | undefined): Address | undefined {
  if (typeof value === "number") return addressFromValue(4, BigInt(value));
  return typeof value === "bigint" ? addressFromValue(6, value) : undefined;
}
