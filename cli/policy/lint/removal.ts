import type { ClusterNetworkPolicy, NetworkPolicy } from "../../../policyd/objects/model.ts";
import type { Direction, FlowEnd, FlowEnds } from "../../../policyd/semantics/policies/flow.ts";
import { familiesOf } from "../../../policyd/semantics/policies/party.ts";
import { podClasses } from "../../../policyd/semantics/policies/pod_class.ts";
import type { PodEntry, PolicyIndex } from "../../../policyd/semantics/policies/policy_index.ts";
import type { DirectionProfile, Profile } from "../../../policyd/semantics/policies/profile.ts";
import { connectionText } from "../connections/connection_set.ts";
import { ConnectionReader } from "../connections/connections_between.ts";
import { outsideRegions } from "../outside_region.ts";

type Policy = NetworkPolicy | ClusterNetworkPolicy;

/** The most pairs of ends that are compared; with more, the policy counts as needed. */
const MOST_PAIRS = 100_000;

/**
 * Finds policies without an effect. It compares the connections with and without them, between one or two pods of each
 * class (podClasses), nodes, and an address of each outside range that policies distinguish.
 */
export class Removal {
  #index: PolicyIndex;
  readonly #ends: readonly FlowEnd[];

  constructor(index: PolicyIndex) {
    const chosen = podClasses(index).flatMap(({ pods }) => representatives(index, pods));
    const keep = new Set(chosen);
    // A small index is quick to change, and its other parts do not depend on the number of pods in a class.
    this.#index = { ...index, pods: new Map([...index.pods].filter(([key]) => keep.has(key))) };
    const pods = chosen.map((key): FlowEnd => ({ type: "pod", key }));
    const nodes = [...index.nodes.keys()].map((name): FlowEnd => ({ type: "node", name }));
    const outside = outsideRegions([index]).map(({ representative }) => representative);
    this.#ends = [...outside.map((address): FlowEnd => ({ type: "address", address })), ...nodes, ...pods];
  }

  /** Removes a policy for good if that changes no connection. @returns whether it was removed */
  removeIfUnneeded(policy: Policy): boolean {
    const subjects = [...this.#index.pods].filter(([, entry]) => isSubject(entry, policy)).map(([key]) => key);
    if (subjects.length * this.#ends.length > MOST_PAIRS || this.#mayBeNeededAtHome(policy, subjects)) return false;
    const after = without(this.#index, policy);
    const readers = [new ConnectionReader(this.#index), new ConnectionReader(after)];
    const isNeeded = subjects.some((key) => this.#ends.some((end) => this.#differs(readers, key, end)));
    if (isNeeded) return false;
    this.#index = after;
    return true;
  }

  /** Only ClusterNetworkPolicies block a pod's own node, and of a template's pods nobody knows the node. */
  #mayBeNeededAtHome(policy: Policy, subjects: readonly string[]): boolean {
    if (policy.kind === "NetworkPolicy") return false;
    const namesNodes = [...policy.egress, ...policy.ingress].some(
      ({ peers }) => peers?.some(({ type }) => type === "nodes" || type === "networks") ?? true,
    );
    return namesNodes && subjects.some((key) => this.#index.pods.get(key)?.pod.nodeName === undefined);
  }

  #differs(readers: readonly ConnectionReader[], key: string, end: FlowEnd): boolean {
    const pod: FlowEnd = { type: "pod", key };
    const isItself = end.type === "pod" && end.key === key;
    const ways: readonly FlowEnds[] = [
      { source: pod, destination: end },
      { source: end, destination: pod },
      // ClusterNetworkPolicies apply to a pod's connections to itself through a Service.
      ...(isItself ? [{ source: pod, destination: end, isThroughService: true }] : []),
    ];
    return ways.some((ends) =>
      (familiesOf(this.#index, ends) ?? [undefined]).some((family) => {
        const sets = readers.map((reader) => reader.between({ ...ends, family }));
        return new Set(sets.map((set) => (set === undefined ? "impossible" : connectionText(set)))).size > 1;
      }),
    );
  }
}

/** Returns two pods of a class, if possible on different nodes: a pod with itself, or with its own node, is special. */
function representatives({ pods }: PolicyIndex, [first, ...others]: readonly [string, ...string[]]): readonly string[] {
  const nodeOf = (key: string): string | undefined => pods.get(key)?.pod.nodeName;
  const second = others.find((key) => nodeOf(key) !== nodeOf(first)) ?? others[0];
  return second === undefined ? [first] : [first, second];
}

function isSubject({ subject }: PodEntry, policy: Policy): boolean {
  if (subject === undefined) return false;
  return (["egress", "ingress"] as const).some((direction) => hasSay(subject.profile, direction, policy));
}

function hasSay(profile: Profile, direction: Direction, policy: Policy): boolean {
  const { admin, isolating, baseline } = profile[direction];
  return [...admin, ...isolating, ...baseline].some((one) => one.policy === policy);
}

function without(index: PolicyIndex, policy: Policy): PolicyIndex {
  const known = new Map<Profile, Profile>();
  const changed = [...index.pods].map(([key, entry]): [string, PodEntry] => {
    const { subject } = entry;
    if (subject === undefined || !isSubject(entry, policy)) return [key, entry];
    const { egress, ingress } = subject.profile;
    const profile = known.get(subject.profile) ?? {
      egress: profileWithout(egress, policy),
      ingress: profileWithout(ingress, policy),
    };
    known.set(subject.profile, profile);
    return [key, { ...entry, subject: { ...subject, profile } }];
  });
  return { ...index, pods: new Map(changed) };
}

function profileWithout({ admin, isolating, shadow, baseline }: DirectionProfile, policy: Policy): DirectionProfile {
  return {
    admin: admin.filter((one) => one.policy !== policy),
    isolating: isolating.filter((one) => one.policy !== policy),
    shadow,
    baseline: baseline.filter((one) => one.policy !== policy),
  };
}
