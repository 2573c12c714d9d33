import type {
  ClusterNetworkPolicy,
  ClusterPolicyPeer,
  ClusterPolicyPort,
  ClusterPolicyRule,
  NetworkPolicy,
  PolicyPeer,
  PolicyPort,
  PolicyRule,
} from "../../../objects/model.ts";
import { atOnce, type Slices } from "../../lib/sliced_work.ts";
import { sharesOf, tooLargeIn } from "../policy_size.ts";
import { digest } from "./digest.ts";
import { LINK, nameGroup, nodeGroup, podGroup, rangeGroup } from "./peer_groups.ts";
import type { Direction, PeerGroup, PortGroup, Profile, ProfileRule } from "./profile.ts";

const LAST_PORT = 65_535;
/** The peers per slice: hashes of that many selectors or prefixes take a millisecond, in cold code several. */
const PEERS_AT_ONCE = 64;

/** The compiled rules of one policy in one direction. */
export interface CompiledRules {
  readonly rules: readonly ProfileRule[];
  /** The digest of the whole rules. */
  readonly digest: string;
}

type Cache = WeakMap<NetworkPolicy | ClusterNetworkPolicy, CompiledRules>;

// Objects never change, and a policy is part of many profiles.
const compiled: Readonly<Record<Direction, Cache>> = { egress: new WeakMap(), ingress: new WeakMap() };

/** The rules of a NetworkPolicy that is omitted because those before it have too many pairs. */
const OMITTED: CompiledRules = Object.freeze({ rules: Object.freeze([]), digest: digest("omitted") });

/**
 * Returns the rules of NetworkPolicies, which all allow. A policy has none if {@link policyProblems} reports it as too
 * large, or if it and those before it have too many pairs together (POL-73).
 *
 * @param policies in the order in which they may use up the pairs
 * @returns the rules of each, in the same order, and the keys of those that were omitted because of others
 */
export function networkPolicyRules(
  policies: readonly NetworkPolicy[],
  direction: Direction,
): { readonly said: readonly CompiledRules[]; readonly omitted: readonly string[] } {
  const shares = sharesOf(policies, direction);
  const said = policies.map((policy, index) => {
    if (shares[index] === "omitted") return OMITTED;
    return cached(policy, direction, () => (shares[index] === "in force" ? atOnce(allowRules(policy, direction)) : []));
  });
  return { said, omitted: policies.filter((_, index) => shares[index] === "omitted").map(({ key }) => key) };
}

/** Compiles NetworkPolicies that are not compiled yet in slices; {@link networkPolicyRules} then has little to do. */
export function* networkPolicyRulesAhead(policies: readonly NetworkPolicy[], direction: Direction): Slices<void> {
  const shares = sharesOf(policies, direction);
  for (const [index, policy] of policies.entries()) {
    if (shares[index] !== "in force" || compiled[direction].has(policy)) continue;
    const rules = yield* allowRules(policy, direction);
    yield;
    cached(policy, direction, () => rules);
    yield;
  }
}

/** Returns the keys of a profile's policies that allow nothing since those before them have too many pairs (POL-73). */
export function omittedOf({ isolation, shadow }: Profile): readonly string[] {
  return (isolation ?? shadow)?.omitted ?? [];
}

/** Returns the rules of a ClusterNetworkPolicy. Rules that could not be read already fail closed. */
export function clusterPolicyRules(policy: ClusterNetworkPolicy, direction: Direction): CompiledRules {
  return cached(policy, direction, () => clusterRules(policy, direction));
}

/** Returns, for administrators, a sentence for each reason why a policy allows less than it says. */
export function policyProblems(policy: NetworkPolicy): readonly string[] {
  return tooLargeIn(policy).map(({ direction, text }) => `${direction}: ${text}; split it into several`);
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

function* allowRules(policy: NetworkPolicy, direction: Direction): Slices<readonly ProfileRule[]> {
  const made: ProfileRule[] = [];
  let left = PEERS_AT_ONCE;
  for (const { index, peers, ports } of policy[direction] satisfies readonly PolicyRule[]) {
    const groups: PeerGroup[] = [];
    for (const peer of peers ?? []) {
      groups.push(peerGroup(peer, policy.namespace));
      left -= 1 + (peer.type === "ipBlock" ? peer.except.length : 0);
      if (left > 0) continue;
      left = PEERS_AT_ONCE;
      yield;
    }
    const origin = { kind: policy.kind, policy: policy.key, index } as const;
    made.push(
      Object.freeze({
        peers: peers === undefined ? undefined : groups,
        ports: ports?.map(portGroup),
        action: "allow",
        origin,
      }),
    );
  }
  return made;
}

const ACTIONS = { Accept: "allow", Deny: "deny", Pass: "pass" } as const;

/**
 * Returns the rules of a ClusterNetworkPolicy. A Deny of nodes, whichever it selects, also denies destinations on the
 * link, which a pod's own node receives: it fails closed (CNP-20).
 */
function clusterRules(policy: ClusterNetworkPolicy, direction: Direction): readonly ProfileRule[] {
  return policy[direction].map(({ index, action, peers, ports }: ClusterPolicyRule) => {
    const deniesNodes = action === "Deny" && peers?.some(({ type }) => type === "nodes") === true;
    return Object.freeze({
      peers: peers && [...peers.map((peer) => peerGroup(peer, "")), ...(deniesNodes ? [LINK] : [])],
      ports: ports?.map(portGroup),
      action: ACTIONS[action],
      origin: { kind: policy.kind, policy: policy.key, index },
    });
  });
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
    case "names":
      return nameGroup(peer.names);
  }
}

function portGroup({ protocol, port, endPort }: PolicyPort | ClusterPolicyPort): PortGroup {
  if (typeof port === "string") return { type: "name", protocol, name: port };
  // Only a name comes without a protocol.
  if (protocol === undefined) throw new RangeError("a port's number without a protocol");
  if (port === undefined) return { type: "range", protocol, first: 0, last: LAST_PORT };
  return { type: "range", protocol, first: port, last: endPort ?? port };
}
