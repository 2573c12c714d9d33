import { PROTOCOL_OF } from "../../objects/protocol.ts";
import { protocolFromNumber, isTransport } from "../../kernel/ip/protocol.ts";
import { type Address, addressFromValue } from "../../kernel/ip/address.ts";
import type { KeyField } from "../../kernel/nftables/model/expression.ts";
import type { Element, SetDefinition } from "../../kernel/nftables/model/object.ts";
import { groupHasPod } from "../policies/compile/peer_groups.ts";
import { type FlowView, type PolicedFlow, evaluateProfile } from "../policies/compile/profile_verdict.ts";
import type { PolicyOptions } from "../policies/compile/options.ts";
import { profileObjects } from "../policies/compile/profile_chain.ts";
import type { Direction, Profile, ProfileRule } from "../policies/compile/profile.ts";
import type { AddressHolder } from "../flows/flow_end_names.ts";
import type { PolicyView } from "../policies/live/policy_view.ts";
import { labelsOf, type PolicyRuleLabels } from "./policy_rule.ts";

/** Finds out which rules of a profile the elements of shared sets belong to. */
export interface MergedRules {
  /** @param profiles names of profiles: direction and key with "_" in between */
  of(profiles: Iterable<string>): readonly MergedProfile[];
}

export interface MergedProfile {
  readonly direction: Direction;
  readonly rules: readonly PolicyRuleLabels[];
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
/** Disables checks for traffic that is always allowed: rules of its own count it. */
const OPTIONS = { policePodToOwnNode: true, nodeLocalDNS: [] } as const;

/** Returns the merged rules of the profiles of this node's pods. */
export function mergedRules(
  view: Pick<PolicyView, "profileUse" | "holdersOf" | "namespaceLabels">,
  options: PolicyOptions,
): MergedRules {
  const flowView = flowViewOf(view);
  const known = new WeakMap<Profile, readonly MergedSet[]>();
  const setsOf = (profile: Profile): readonly MergedSet[] => {
    const sets = known.get(profile) ?? countingSets(profile, options, flowView);
    known.set(profile, sets);
    return sets;
  };
  return {
    of: (names) => {
      const profiles = [...names].flatMap((name) => view.profileUse(name.slice(name.indexOf("_") + 1))?.profile ?? []);
      const uses = Map.groupBy(
        profiles.flatMap((profile) => setsOf(profile)),
        ({ definition }) => definition.name,
      );
      return profiles.map((profile) => ({
        direction: profile.direction,
        rules: rulesOf(profile).map(({ origin }) => labelsOf(origin)),
        sets: setsOf(profile).filter(({ definition }) => uses.get(definition.name)?.length === 1),
      }));
    },
  };
}

function countingSets(profile: Profile, options: PolicyOptions, view: FlowView<AddressHolder>): readonly MergedSet[] {
  return profileObjects(profile, options).memberSets.flatMap(({ definitions, sources }) => {
    // Without a group, the set is about the ports of the receiving pod.
    const isOfReceiver = profile.direction === "egress" || sources.every(({ group }) => group === undefined);
    return [definitions[4], definitions[6]]
      .filter(({ hasCounters }) => hasCounters === true)
      .map((definition) => ({ definition, ruleOf: (element) => ruleOf(profile, flowOf(element, isOfReceiver), view) }));
  });
}

function rulesOf({ isolation, shadow }: Profile): readonly ProfileRule[] {
  return (isolation ?? shadow)?.rules ?? [];
}

function ruleOf(
  profile: Profile,
  flow: PolicedFlow | undefined,
  view: FlowView<AddressHolder>,
): PolicyRuleLabels | undefined {
  if (flow === undefined) return undefined;
  const found = rulesOf(profile).find((rule) => {
    const alone = { ...profile, admin: [], isolation: { policies: [], rules: [rule], omitted: [] }, shadow: undefined };
    return evaluateProfile(alone, flow, view, OPTIONS);
  });
  return found && labelsOf(found.origin);
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

function flowViewOf(view: Pick<PolicyView, "holdersOf" | "namespaceLabels">): FlowView<AddressHolder> {
  const { holdersOf, namespaceLabels } = view;
  return {
    membersAt: holdersOf,
    isInGroup: (group, holder) => {
      if (holder.type !== "pod" || group.type !== "pods") return false;
      const { namespace, labels } = holder.pod;
      return groupHasPod(group, { namespace, labels, namespaceLabels: namespaceLabels(namespace) });
    },
    hasPortName: (holder, name, protocol, port) => {
      const ports = holder.type === "pod" ? holder.pod.ports : [];
      return ports.some((one) => one.name === name && one.protocol === protocol && one.port === port);
    },
    isSamePod: () => false,
    isKnownBy: () => false,
    isOwnNode: () => false,
  };
}
