import { domainNamesIn } from "../domain_names.ts";
import type { FlowEnd, FlowEnds } from "../../../objects/semantics/policies/flow.ts";
import { familiesOf } from "../../../objects/semantics/policies/party.ts";
import { podClasses } from "../../../objects/semantics/policies/pod_class.ts";
import type { PodEntry, PolicyIndex } from "../../../objects/semantics/policies/policy_index.ts";
import type { DirectionProfile, Profile } from "../../../objects/semantics/policies/profile.ts";
import { connectionText } from "../connections/connection_set.ts";
import { ConnectionReader } from "../connections/connections_between.ts";
import { furtherAddresses } from "../node_place.ts";
import { outsideRegions } from "../outside_region.ts";
import type { Policy } from "../policy_parts.ts";

/** The most pairs of ends that are compared; with more, the policy counts as needed. */
const MOST_PAIRS = 100_000;

/**
 * Finds policies without an effect. It compares the connections with and without them, between one or two pods of each
 * class (podClasses), nodes, and an address of each outside range that policies distinguish.
 */
export class Removal {
  readonly #ends: readonly FlowEnd[];
  /** The pods in whose profiles each policy is, by their keys. */
  readonly #subjects: ReadonlyMap<Policy, readonly string[]>;
  /** The pods by their keys, with all policies that are left. */
  readonly #before: Map<string, PodEntry>;
  /** The same without the policy that is examined. The two are equal again when {@link removeIfUnneeded} returns. */
  readonly #after: Map<string, PodEntry>;
  readonly #index: PolicyIndex;
  readonly #readers: readonly ConnectionReader[];

  constructor(index: PolicyIndex) {
    const classes = podClasses(index).map(({ pods }) => representatives(index, pods));
    const chosen = classes.flat();
    // The other parts of the index do not depend on the number of pods in a class.
    this.#before = new Map(classes.flatMap((keys) => entriesOf(index, keys)));
    this.#after = new Map(this.#before);
    this.#subjects = subjectsOf(this.#before);
    this.#index = { ...index, pods: this.#before };
    this.#readers = [this.#before, this.#after].map((pods) => new ConnectionReader({ ...index, pods }));
    const pods = chosen.map((key): FlowEnd => ({ type: "pod", key }));
    const further = furtherAddresses([index]);
    const nodes = [...index.nodes.values()].flatMap((node): readonly FlowEnd[] => [
      { type: "node", name: node.name },
      ...further(node).map((address) => ({ type: "address", address }) as const),
    ]);
    const outside = outsideRegions([index]).map(({ representative }) => representative);
    const asked = [undefined, ...domainNamesIn([index]).map((name) => name.replace("*", "any"))];
    const addresses = outside.flatMap((address) =>
      asked.map((name): FlowEnd => ({ type: "address", address, ...(name === undefined ? {} : { asked: name }) })),
    );
    this.#ends = [...addresses, ...nodes, ...pods];
  }

  /** Removes a policy for good if that changes no connection. @returns whether it was removed */
  removeIfUnneeded(policy: Policy): boolean {
    const subjects = this.#subjects.get(policy) ?? [];
    if (subjects.length * this.#ends.length > MOST_PAIRS || this.#mayBeNeededAtHome(policy, subjects)) return false;
    copyEntries(subjects, this.#before, this.#after, entryWithout(policy));
    const isNeeded = subjects.some((key) => this.#ends.some((end) => this.#differs(key, end)));
    if (isNeeded) copyEntries(subjects, this.#before, this.#after);
    else copyEntries(subjects, this.#after, this.#before);
    return !isNeeded;
  }

  /** Only ClusterNetworkPolicies block a pod's own node, and of a template's pods nobody knows the node. */
  #mayBeNeededAtHome(policy: Policy, subjects: readonly string[]): boolean {
    if (policy.kind === "NetworkPolicy") return false;
    const namesNodes = [...policy.egress, ...policy.ingress].some(
      ({ peers }) => peers?.some(({ type }) => type === "nodes" || type === "networks") ?? true,
    );
    return namesNodes && subjects.some((key) => this.#index.pods.get(key)?.pod.nodeName === undefined);
  }

  #differs(key: string, end: FlowEnd): boolean {
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
        const sets = this.#readers.map((reader) => reader.between({ ...ends, family }));
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

/**
 * Returns the entries of a class's pods. The only pod of a workload gets another, without an address, since the workload
 * may be scaled, and a pod always reaches itself.
 */
function entriesOf({ pods }: PolicyIndex, keys: readonly string[]): readonly (readonly [string, PodEntry])[] {
  return keys.flatMap((key) => {
    const entry = pods.get(key);
    if (entry === undefined) return [];
    const { pod, subject } = entry;
    if (keys.length > 1 || pod.controller === undefined || pod.hostNetwork) return [[key, entry] as const];
    // No pod has a name with a blank.
    const other = `${key} again`;
    return [[key, entry] as const, [other, { subject, pod: { ...pod, key: other, addresses: [] } }] as const];
  });
}

/** Returns the keys of the pods in whose profiles each policy is. */
function subjectsOf(pods: ReadonlyMap<string, PodEntry>): ReadonlyMap<Policy, readonly string[]> {
  const subjects = new Map<Policy, string[]>();
  for (const [key, { subject }] of pods) {
    for (const policy of subject === undefined ? [] : policiesOf(subject.profile)) {
      const keys = subjects.get(policy);
      if (keys === undefined) subjects.set(policy, [key]);
      else keys.push(key);
    }
  }
  return subjects;
}

function policiesOf({ egress, ingress }: Profile): ReadonlySet<Policy> {
  const indexed = [egress, ingress].flatMap(({ admin, isolating, baseline }) => [...admin, ...isolating, ...baseline]);
  return new Set(indexed.map(({ policy }) => policy));
}

/** Copies the entries of some pods from one map to another, and changes them on the way. */
function copyEntries(
  keys: readonly string[],
  from: ReadonlyMap<string, PodEntry>,
  to: Map<string, PodEntry>,
  change: (entry: PodEntry) => PodEntry = (entry) => entry,
): void {
  for (const key of keys) {
    const entry = from.get(key);
    if (entry !== undefined) to.set(key, change(entry));
  }
}

/** Returns a function that takes a policy out of the profile of a pod. */
function entryWithout(policy: Policy): (entry: PodEntry) => PodEntry {
  return ({ pod, subject }) => {
    if (subject === undefined) return { pod, subject };
    const { identity, profile } = subject;
    const [egress, ingress] = [profileWithout(profile.egress, policy), profileWithout(profile.ingress, policy)];
    return { pod, subject: { identity, profile: { egress, ingress } } };
  };
}

function profileWithout({ admin, isolating, shadow, baseline }: DirectionProfile, policy: Policy): DirectionProfile {
  return {
    admin: admin.filter((one) => one.policy !== policy),
    isolating: isolating.filter((one) => one.policy !== policy),
    shadow,
    baseline: baseline.filter((one) => one.policy !== policy),
  };
}
