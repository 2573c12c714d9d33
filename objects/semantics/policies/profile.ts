import type { ClusterPolicyTier } from "../../model.ts";
import { isShadow } from "../../shadow_annotation.ts";
import type { Direction } from "./flow.ts";
import type { Identity } from "./identity.ts";
import type { IndexedClusterPolicy, IndexedNetworkPolicy } from "./indexed_policy.ts";
import { type Members, numbersIn } from "./peer_selection.ts";

/** A pod as policies see it: all pods of one identity are one subject. */
export interface Subject {
  readonly identity: Identity;
  readonly profile: Profile;
}

/** The policies of a pod; pods with the same policies share a profile. */
export type Profile = Readonly<Record<Direction, DirectionProfile>>;

/** The policies that apply in one direction, in the order of evaluation. */
export interface DirectionProfile {
  readonly admin: readonly IndexedClusterPolicy[];
  /** The NetworkPolicies that isolate the pod. */
  readonly isolating: readonly IndexedNetworkPolicy[];
  /** The NetworkPolicies that would also isolate it if they were not in shadow. */
  readonly shadow: readonly IndexedNetworkPolicy[];
  readonly baseline: readonly IndexedClusterPolicy[];
}

/** Returns the subjects of all identities, by their numbers. */
export function subjectsOf(
  identities: readonly Identity[],
  networkPolicies: readonly IndexedNetworkPolicy[],
  clusterPolicies: readonly IndexedClusterPolicy[],
): readonly Subject[] {
  const selecting = identities.map((identity): Selecting => ({ identity, network: [], cluster: [] }));
  for (const indexed of networkPolicies) visit(indexed.subject, selecting, ({ network }) => network.push(indexed));
  for (const indexed of clusterPolicies) visit(indexed.subject, selecting, ({ cluster }) => cluster.push(indexed));
  const numbers = new Map([...networkPolicies, ...clusterPolicies].map((indexed, number) => [indexed, number]));
  const known = new Map<string, Profile>();
  return selecting.map(({ identity, network, cluster }) => {
    const signature = [...network, ...cluster].map((indexed) => numbers.get(indexed)).join(" ");
    const profile = known.get(signature) ?? {
      egress: directionProfile("egress", network, cluster),
      ingress: directionProfile("ingress", network, cluster),
    };
    known.set(signature, profile);
    return { identity, profile };
  });
}

interface Selecting {
  readonly identity: Identity;
  readonly network: IndexedNetworkPolicy[];
  readonly cluster: IndexedClusterPolicy[];
}

function visit(subject: Members, selecting: readonly Selecting[], add: (one: Selecting) => void): void {
  for (const number of numbersIn(subject)) {
    const one = selecting[number];
    if (one !== undefined) add(one);
  }
}

function directionProfile(
  direction: Direction,
  network: readonly IndexedNetworkPolicy[],
  cluster: readonly IndexedClusterPolicy[],
): DirectionProfile {
  const type = direction === "egress" ? "Egress" : "Ingress";
  const ofTier = (tier: ClusterPolicyTier): readonly IndexedClusterPolicy[] =>
    cluster.filter(({ policy, rules }) => policy.tier === tier && rules[direction].length > 0);
  const ofType = network.filter(({ policy }) => policy.policyTypes.includes(type));
  return {
    admin: ofTier("Admin"),
    isolating: ofType.filter(({ policy }) => !isShadow(policy)),
    shadow: ofType.filter(({ policy }) => isShadow(policy)),
    baseline: ofTier("Baseline"),
  };
}
