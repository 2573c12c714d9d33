import { type Direction, DIRECTIONS } from "../../objects/semantics/policies/flow.ts";
import { printable } from "../../objects/printable.ts";
import type { Io } from "../io.ts";
import type { NetworkPolicy } from "../../objects/model.ts";
import type { PolicyIndex } from "../../objects/semantics/policies/policy_index.ts";
import type { DirectionProfile } from "../../objects/semantics/policies/profile.ts";
import { MOST_PROFILE_PAIRS, sharesOf, tooLargeIn } from "../../policyd/policies/policy_size.ts";

const MOST_NAMED = 5;
const MOST_TOLD = 20;

/** A policy that allows less on a node than it says. The evaluator does not know this limit (POL-73). */
export interface Oversize {
  readonly policy: NetworkPolicy;
  readonly direction: Direction;
  readonly text: string;
  readonly fix: string;
}

/** Returns all policies that are too large, or that exceed the bounds of some pods together with earlier ones. */
export function oversizes(index: PolicyIndex): readonly Oversize[] {
  return [
    ...index.networkPolicies.flatMap(({ policy }) =>
      tooLargeIn(policy).map((one): Oversize => ({ policy, ...one, fix: "split it into several" })),
    ),
    ...omitted(index),
  ];
}

/** Returns in words how nodes differ from the answer about a policy. */
export function oversizeText({ policy, direction, text }: Oversize): string {
  return `on nodes NetworkPolicy ${policy.key} does less than this: ${direction}: ${text}`;
}

/** Prints remarks about all of them on stderr. @param side begins each line where there are several sides: `old: ` */
export function tellOversizes({ err }: Pick<Io, "err">, index: PolicyIndex, side = ""): void {
  const texts = oversizes(index).map(oversizeText);
  for (const text of texts.slice(0, MOST_TOLD)) err.write(`${side}${printable(text)}\n`);
  if (texts.length > MOST_TOLD) err.write(`${side}and ${texts.length - MOST_TOLD} more\n`);
}

function omitted({ pods }: PolicyIndex): readonly Oversize[] {
  const podsOf = new Map<string, { readonly policy: NetworkPolicy; readonly direction: Direction; pods: string[] }>();
  const ofProfile = new Map<DirectionProfile, readonly NetworkPolicy[]>();
  for (const { pod, subject } of pods.values()) {
    for (const direction of DIRECTIONS) {
      const profile = subject?.profile[direction];
      if (profile === undefined) continue;
      const policies = ofProfile.get(profile) ?? omittedOf(profile, direction);
      ofProfile.set(profile, policies);
      for (const policy of policies) {
        const key = `${direction} ${policy.key}`;
        const known = podsOf.get(key) ?? { policy, direction, pods: [] };
        known.pods.push(pod.key);
        podsOf.set(key, known);
      }
    }
  }
  return [...podsOf.values()].map(({ policy, direction, pods: all }) => ({
    policy,
    direction,
    text:
      `comes after policies with which it would have more than ${MOST_PROFILE_PAIRS} pairs of a peer or an exception ` +
      `and a port: it allows nothing to ${named(all)}`,
    fix: "have fewer or smaller policies select these pods",
  }));
}

function omittedOf({ isolating }: DirectionProfile, direction: Direction): readonly NetworkPolicy[] {
  const policies = isolating.map(({ policy }) => policy);
  const shares = sharesOf(policies, direction);
  return policies.filter((_, place) => shares[place] === "omitted");
}

function named(pods: readonly string[]): string {
  const others = pods.length > MOST_NAMED ? ` and ${pods.length - MOST_NAMED} others` : "";
  return `${pods.slice(0, MOST_NAMED).join(", ")}${others}`;
}
