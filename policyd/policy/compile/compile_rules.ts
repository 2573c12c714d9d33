import type {
  ClusterNetworkPolicy,
  ClusterPolicyPeer,
  ClusterPolicyPort,
  ClusterPolicyRule,
  NetworkPolicy,
  PolicyPeer,
  PolicyPort,
  PolicyRule,
} from "../../cluster/model.ts";
import { digest } from "./digest.ts";
import { nodeGroup, podGroup, rangeGroup } from "./groups.ts";
import type { Direction, PeerGroup, PortGroup, ProfileRule } from "./profile.ts";

/**
 * The most pairs of a peer, exceptions counted, and a port that a NetworkPolicy may come to in one direction: sets and
 * rules stay bounded. More than any rule of a ClusterNetworkPolicy, which the gate bounds by itself.
 */
export const MOST_PAIRS = 16_384;

const LAST_PORT = 65_535;

const DIRECTIONS = ["ingress", "egress"] as const;

/** What one policy says in one direction. */
export interface CompiledRules {
  readonly rules: readonly ProfileRule[];
  /** Of all there is in the rules. */
  readonly digest: string;
}

type Cache = WeakMap<NetworkPolicy | ClusterNetworkPolicy, CompiledRules>;

// Objects never change, and a policy is part of many profiles.
const compiled: Readonly<Record<Direction, Cache>> = { egress: new WeakMap(), ingress: new WeakMap() };

/** The rules of a NetworkPolicy, all of which allow; none where {@link policyProblems} says that it is too large. */
export function networkPolicyRules(policy: NetworkPolicy, direction: Direction): CompiledRules {
  return cached(policy, direction, () =>
    pairsOf(policy, direction) > MOST_PAIRS ? [] : allowRules(policy, direction),
  );
}

/** The rules of a ClusterNetworkPolicy. Those that could not be read fail closed already. */
export function clusterPolicyRules(policy: ClusterNetworkPolicy, direction: Direction): CompiledRules {
  return cached(policy, direction, () => clusterRules(policy, direction));
}

/** Why a policy does not allow what it says, for people, in one sentence each; none where it does. */
export function policyProblems(policy: NetworkPolicy): readonly string[] {
  return DIRECTIONS.flatMap((direction) => {
    const pairs = pairsOf(policy, direction);
    if (pairs <= MOST_PAIRS) return [];
    return [
      `${direction}: ${pairs} pairs of a peer or an exception and a port; expected at most ${MOST_PAIRS}: ` +
        "the pods are isolated, and the policy allows them nothing; split it into several",
    ];
  });
}

/** How many rules there would be if each were for one peer or exception and one port. */
function pairsOf(policy: NetworkPolicy, direction: Direction): number {
  return policy[direction].reduce((sum, { peers, ports }) => {
    const places = peers?.reduce((all, peer) => all + 1 + (peer.type === "ipBlock" ? peer.except.length : 0), 0) ?? 1;
    return sum + places * (ports?.length ?? 1);
  }, 0);
}

function cached(
  policy: NetworkPolicy | ClusterNetworkPolicy,
  direction: Direction,
  compile: () => readonly ProfileRule[],
): CompiledRules {
  const known = compiled[direction].get(policy);
  if (known !== undefined) return known;
  const rules = Object.freeze(compile());
  const identity = rules.map(({ peers, ports, action, origin }) => [
    peers?.map(({ key }) => key) ?? null,
    ports ?? null,
    action,
    origin,
  ]);
  const result = Object.freeze({ rules, digest: digest(identity) });
  compiled[direction].set(policy, result);
  return result;
}

function allowRules(policy: NetworkPolicy, direction: Direction): readonly ProfileRule[] {
  return policy[direction].map(({ index, peers, ports }: PolicyRule) =>
    Object.freeze({
      peers: peers?.map((peer) => peerGroup(peer, policy.namespace)),
      ports: ports?.map(portGroup),
      action: "allow",
      origin: { kind: policy.kind, policy: policy.key, index },
    }),
  );
}

const ACTIONS = { Accept: "allow", Deny: "deny", Pass: "pass" } as const;

function clusterRules(policy: ClusterNetworkPolicy, direction: Direction): readonly ProfileRule[] {
  return policy[direction].map(({ index, action, peers, ports }: ClusterPolicyRule) =>
    Object.freeze({
      peers: peers?.map((peer) => peerGroup(peer, "")),
      ports: ports?.map(portGroup),
      action: ACTIONS[action],
      origin: { kind: policy.kind, policy: policy.key, index },
    }),
  );
}

function peerGroup(peer: PolicyPeer | ClusterPolicyPeer, ownNamespace: string): PeerGroup {
  switch (peer.type) {
    case "pods":
      return podGroup(peer, ownNamespace);
    case "nodes":
      return nodeGroup(peer.selector);
    case "networks":
      return rangeGroup(peer.cidrs);
    case "ipBlock":
      return rangeGroup([peer.cidr], peer.except);
  }
}

function portGroup({ protocol, port, endPort }: PolicyPort | ClusterPolicyPort): PortGroup {
  if (typeof port === "string") return { type: "name", protocol, name: port };
  // A name alone comes without a protocol.
  if (protocol === undefined) throw new RangeError("a port's number without a protocol");
  if (port === undefined) return { type: "range", protocol, first: 0, last: LAST_PORT };
  return { type: "range", protocol, first: port, last: endPort ?? port };
}
