import { familyOf } from "../../../kernel/ip/address.ts";
import { type Cidr, cidrContains, cidrFamily, parseCidr } from "../../../kernel/ip/cidr.ts";
import type {
  ClusterNetworkPolicy,
  ClusterObject,
  ClusterPolicyPeer,
  NetworkPolicy,
  Pod,
  PolicyPeer,
} from "../../../objects/model.ts";
import { NAMESPACE_NAME } from "../../../objects/name.ts";
import { keysOf, selects } from "../../../objects/semantics/policies/selector.ts";
import { type Direction, DIRECTIONS, type Traffic } from "../../../objects/semantics/policies/flow.ts";
import type {
  IndexedClusterPolicy,
  IndexedNetworkPolicy,
  IndexedPeer,
  IndexedRule,
  PrefixRange,
} from "../../../objects/semantics/policies/indexed_policy.ts";
import { fitsPort } from "../../../objects/semantics/policies/match.ts";
import { printable, shortList } from "../../../objects/printable.ts";
import type { Decision, EvaluatedFlow, Party } from "../../../objects/semantics/policies/verdict.ts";
import type { Cluster } from "../../cluster/cluster.ts";
import type { Io } from "../../io.ts";
import { counted } from "../../output/text.ts";

/** The most names in a line. */
const MOST_TOLD = 5;
/** Pods whose addresses are not in the input are taken to have private ones (RFC 1918, RFC 4193). */
const OF_PODS = ["10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "fc00::/7"].map((text) => parseCidr(text));

/** A rule that might match if the input had the address of an end, or the labels of its namespace. */
export interface UnknownMatch {
  readonly lacks: "address" | "namespace";
  /** `NS/POD` or `node/NAME` */
  readonly host: string;
  /** Kind and key. */
  readonly policy: string;
  readonly direction: Direction;
  readonly rule: number;
  /** Whether it denies: then an answer that takes it not to match allows too much. */
  readonly isDenying: boolean;
}

/** Returns the rules that might have decided differently if the input had what it lacks of the two ends. */
export function unknownMatches(
  { index, store }: Pick<Cluster, "index" | "store">,
  direction: Direction,
  flow: EvaluatedFlow,
  traffic: Traffic,
): readonly UnknownMatch[] {
  const [own, other] = direction === "egress" ? [flow.source, flow.destination] : [flow.destination, flow.source];
  const podOf = (party: Party): Pod | undefined => (party.type === "pod" ? index.pods.get(party.key)?.pod : undefined);
  // The namespaces of new pods are in no file either, and their labels are those of the question.
  const isUnread = (pod: Pod | undefined): pod is Pod =>
    pod !== undefined && store.pods.has(pod.key) && !store.namespaces.has(pod.namespace);
  const [ownPod, otherPod] = [podOf(own), podOf(other)];
  const profile = index.pods.get(ownPod?.key ?? "")?.subject?.profile[direction];
  if (profile === undefined) return [];
  const end = {
    pod: podOf(flow.destination),
    party: flow.destination,
    address: undefined,
    family: undefined,
    subject: undefined,
    others: [],
  };
  const isOfFlow = ({ cidr }: PrefixRange): boolean =>
    own.address === undefined || cidrFamily(cidr) === familyOf(own.address);
  const mayBeOfPod = (peer: IndexedPeer): boolean =>
    peer.type === "addresses" &&
    mayBeOfPods(
      peer.ranges.filter(isOfFlow).map(({ cidr }) => cidr),
      peer.except,
    );
  const isAddressUnknown = other.type !== "outside" && other.address === undefined;
  const lackedBy = ({ rule: { peers = [], ports }, peers: written }: AskedRule): UnknownMatch["lacks"] | undefined => {
    if (!(ports ?? [undefined]).some((port) => port === undefined || fitsPort(port, traffic, end))) return undefined;
    if (isAddressUnknown && peers.some(mayBeOfPod)) return "address";
    return isUnread(otherPod) && written.some((peer) => isByNamespaceLabels(peer, otherPod)) ? "namespace" : undefined;
  };
  const { decision, passed } = flow[direction];
  const asked = askedTiers(decision);
  const met = [...passed, ...(decision.type === "cluster rule" ? [decision.rule] : [])];
  const rulesOf = (policies: readonly (IndexedClusterPolicy | IndexedNetworkPolicy)[]): readonly AskedRule[] =>
    policies.flatMap(({ policy, rules }) =>
      rules[direction].map((rule, i) => ({ policy, rule, peers: policy[direction][i]?.peers ?? [] })),
    );
  const found = [profile.admin, profile.baseline].flatMap((tier, i) => {
    const rules = (i === 0 ? asked.admin : asked.baseline) ? rulesOf(tier) : [];
    // The rules after one that matches are not asked.
    const last = rules.findIndex(({ policy, rule }) =>
      met.some((one) => one.policy === policy.key && one.rule === rule.index),
    );
    return last < 0 ? rules : rules.slice(0, last);
  });
  const host = other.type === "outside" ? "" : nameOf(other);
  const ofPeers = [...found, ...(asked.network ? rulesOf(profile.isolating) : [])].flatMap((one) => {
    const lacks = lackedBy(one);
    return lacks === undefined ? [] : { ...one, lacks, host };
  });
  const ofSubject = index.clusterPolicies
    .filter(({ policy: { subject, tier } }) => {
      const isAsked = tier === "Admin" ? asked.admin : asked.baseline;
      return isAsked && isUnread(ownPod) && isByNamespaceLabels(subject, ownPod);
    })
    .flatMap((policy) =>
      rulesOf([policy]).map((one) => ({ ...one, lacks: "namespace" as const, host: ownPod?.key ?? "" })),
    );
  return [...ofPeers, ...ofSubject].map(({ policy: { kind, key }, rule, lacks, host: name }) => {
    return { lacks, host: name, policy: `${kind} ${key}`, direction, rule: rule.index, isDenying: rule.isDenying };
  });
}

/** A rule that was evaluated, and its peers as they were written. */
interface AskedRule {
  readonly policy: NetworkPolicy | ClusterNetworkPolicy;
  readonly rule: IndexedRule;
  readonly peers: readonly (PolicyPeer | ClusterPolicyPeer)[];
}

/**
 * Returns whether it depends on labels that a namespace may have beside its name whether pods are selected.
 *
 * @param pod only this one
 */
function isByNamespaceLabels(peer: PolicyPeer | ClusterPolicyPeer, pod?: Pod): boolean {
  if (peer.type !== "pods" || peer.namespaceSelector === undefined) return false;
  const isByLabels = keysOf(peer.namespaceSelector).some((key) => key !== NAMESPACE_NAME);
  return isByLabels && (pod === undefined || peer.podSelector === undefined || selects(peer.podSelector, pod.labels));
}

/** Returns whether prefixes may have addresses of pods, and not all. Exceptions are usually the pods' own networks. */
function mayBeOfPods(cidrs: readonly Cidr[], except: readonly unknown[]): boolean {
  const overlap = (one: Cidr, other: Cidr): boolean =>
    cidrContains(one, other.address) || cidrContains(other, one.address);
  const isOfPods = (cidr: Cidr): boolean => cidr.prefixLength > 0 && OF_PODS.some((pods) => overlap(pods, cidr));
  return except.length === 0 && cidrs.some(isOfPods);
}

/** Prints notes on stderr about policies that ask for what the input does not say of pods. */
export function tellUnknown(
  { err }: Pick<Io, "err">,
  objects: readonly ClusterObject[],
  running: readonly Pod[],
): void {
  const read = new Set(objects.flatMap((one) => (one.kind === "Namespace" ? [one.name] : [])));
  const unaddressed = running.filter(({ addresses }) => addresses.length === 0).length;
  const unread = [...new Set(running.map(({ namespace }) => namespace))].filter((name) => !read.has(name)).sort();
  const tell = (what: string, isMeant: (peer: PolicyPeer | ClusterPolicyPeer) => boolean): void => {
    const meant = objects
      .filter((one) => one.kind === "NetworkPolicy" || one.kind === "ClusterNetworkPolicy")
      .filter((policy) => {
        const peers = DIRECTIONS.flatMap((direction): readonly (PolicyPeer | ClusterPolicyPeer)[] =>
          policy[direction].map(({ peers: all }) => all ?? []).flat(),
        );
        return [...peers, ...("subject" in policy ? [policy.subject] : [])].some(isMeant);
      })
      .map(({ kind, key }) => `${kind} ${key}`);
    if (meant.length === 0) return;
    err.write(
      `not known: ${what}; for them rules of ${printable(shortList(meant, MOST_TOLD))} are taken not to match\n`,
    );
  };
  if (unaddressed > 0) {
    const isForAddresses = (peer: PolicyPeer | ClusterPolicyPeer): boolean =>
      peer.type === "ipBlock"
        ? mayBeOfPods([peer.cidr], peer.except)
        : peer.type === "networks" && mayBeOfPods(peer.cidrs, []);
    tell(`addresses of ${counted(unaddressed, "pod")}`, isForAddresses);
  }
  if (unread.length > 0)
    tell(`labels of namespaces ${shortList(unread, MOST_TOLD)}`, (peer) => isByNamespaceLabels(peer));
}

/** Returns the tiers with rules that could still matter: later tiers are not evaluated, and allowing rules add up. */
function askedTiers(decision: Decision): Readonly<Record<"admin" | "network" | "baseline", boolean>> {
  switch (decision.type) {
    case "exempt":
      return { admin: false, network: false, baseline: false };
    case "rule":
      return { admin: true, network: false, baseline: false };
    case "isolated":
      return { admin: true, network: true, baseline: false };
    case "default":
      return { admin: true, network: true, baseline: true };
    case "cluster rule":
      return { admin: true, network: false, baseline: decision.rule.tier === "Baseline" };
  }
}

function nameOf(party: Exclude<Party, { readonly type: "outside" }>): string {
  if (party.type === "pod") return party.key;
  return party.pod ?? `node/${party.name ?? "unknown"}`;
}
