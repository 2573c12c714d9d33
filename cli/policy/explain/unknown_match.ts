import { familyOf } from "../../../kernel/ip/address.ts";
import { type Cidr, cidrFamily, doOverlap, isHostCidr, parseCidr } from "../../../kernel/ip/cidr.ts";
import type { ClusterObject, ClusterPolicyTier, Pod } from "../../../objects/model.ts";
import { NAMESPACE_NAME, nameLabel } from "../../../objects/name.ts";
import { selects, unmet } from "../../../objects/semantics/policies/selector.ts";
import type { Direction, Flow } from "../../../objects/semantics/policies/flow.ts";
import type {
  IndexedClusterPolicy,
  IndexedClusterRule,
  IndexedNetworkPolicy,
  IndexedPeer,
  IndexedRule,
  PrefixRange,
} from "../../../objects/semantics/policies/indexed_policy.ts";
import { exemptionFromAll } from "../../../objects/semantics/policies/decide.ts";
import { fitsPeer, fitsPort } from "../../../objects/semantics/policies/match.ts";
import { type ResolvedEnd, resolveFlow } from "../../../objects/semantics/policies/party.ts";
import { printable, shortList } from "../../../objects/printable.ts";
import type { Decision, EndVerdict } from "../../../objects/semantics/policies/verdict.ts";
import type { Cluster } from "../../cluster/cluster.ts";
import type { Io } from "../../io.ts";
import { counted } from "../../output/text.ts";
import { isPolicy, type Peer, peersOf } from "../policy_parts.ts";

/** The most names in a line. */
const MOST_NAMED = 5;
/** Pods whose addresses are not in the input are taken to have private ones (RFC 1918, RFC 4193, RFC 6598). */
const OF_PODS = ["10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "fc00::/7"].map((text) =>
  parseCidr(text),
);

/** A rule that might match if the input had the address of an end, or the labels of its namespace. */
export interface UnknownMatch {
  readonly lacks: "address" | "namespace";
  /** `NS/POD`, `node/NAME` or the namespace. */
  readonly of: string;
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
  flow: Flow,
  verdict: EndVerdict,
): readonly UnknownMatch[] {
  const resolved = resolveFlow(index, flow);
  if ("kind" in resolved) return [];
  const { source, destination } = resolved;
  const [own, other] = direction === "egress" ? [source, destination] : [destination, source];
  if (own.subject === undefined) return [];
  const { identity, profile } = own.subject;
  // The namespaces of new pods are in no file either, and their labels are those of the question.
  const isUnread = (pod: Pod | undefined): pod is Pod =>
    pod !== undefined && store.pods.has(pod.key) && !store.namespaces.has(pod.namespace);
  const mayBeIn = (peer: Peer, pod: Pod | undefined): boolean => isUnread(pod) && isByNamespaceLabels(peer, pod);
  const isOfFlow = ({ cidr }: PrefixRange): boolean =>
    own.address === undefined || cidrFamily(cidr) === familyOf(own.address);
  const mayBeOfOther = (peer: IndexedPeer): boolean =>
    peer.type === "addresses" &&
    mayBeOf(
      other.pod === undefined,
      peer.ranges.filter(isOfFlow).map(({ cidr }) => cidr),
      peer.except,
    );
  const isAddressUnknown = other.party.type !== "outside" && other.address === undefined;
  const isSelecting = ({ subject }: IndexedClusterPolicy | IndexedNetworkPolicy): boolean =>
    subject[identity.number] === 1;
  const lackOf = ({
    by,
    rule: { peers, ports },
    written,
  }: AskedRule): Pick<UnknownMatch, "lacks" | "of"> | undefined => {
    if (ports?.some((port) => fitsPort(port, flow, destination)) === false) return undefined;
    if (isAddressUnknown && peers?.some(mayBeOfOther)) return { lacks: "address", of: nameOf(other) };
    if (written.some((peer) => mayBeIn(peer, other.pod))) return { lacks: "namespace", of: other.pod?.namespace ?? "" };
    if (isSelecting(by) || peers?.some((peer) => fitsPeer(peer, other)) === false) return undefined;
    return { lacks: "namespace", of: own.pod?.namespace ?? "" };
  };
  const { isThroughService = false } = flow;
  const question = { flow: resolved, traffic: flow, isThroughService, options: index.options };
  if (exemptionFromAll(direction, question) !== undefined) return [];
  const maySelect = (one: IndexedClusterPolicy): boolean => isSelecting(one) || mayBeIn(one.policy.subject, own.pod);
  const { isolating } = profile[direction];
  return askedRules(index.clusterPolicies.filter(maySelect), isolating, direction, verdict).flatMap((one) => {
    const lack = lackOf(one);
    const { policy } = one.by;
    const { index: rule, isDenying } = one.rule;
    return lack === undefined ? [] : { ...lack, policy: `${policy.kind} ${policy.key}`, direction, rule, isDenying };
  });
}

/** A rule that was evaluated, or would be if its policy selected the end, and its peers as they were written. */
interface AskedRule {
  readonly by: IndexedClusterPolicy | IndexedNetworkPolicy;
  readonly rule: IndexedRule | IndexedClusterRule;
  readonly written: readonly Peer[];
}

/** Returns the rules of some policies that could change a verdict by matching. */
function askedRules(
  clusterPolicies: readonly IndexedClusterPolicy[],
  isolating: readonly IndexedNetworkPolicy[],
  direction: Direction,
  { decision, passed }: EndVerdict,
): readonly AskedRule[] {
  const asked = askedTiers(decision);
  const met = [...passed, ...(decision.type === "cluster rule" ? [decision.rule] : [])];
  const rulesOf = (policies: readonly (IndexedClusterPolicy | IndexedNetworkPolicy)[]): readonly AskedRule[] =>
    policies.flatMap((by) =>
      by.rules[direction].map((rule, i) => ({ by, rule, written: by.policy[direction][i]?.peers ?? [] })),
    );
  const ofClusters = asked.tiers.flatMap((tier) => {
    const rules = rulesOf(clusterPolicies.filter(({ policy }) => policy.tier === tier));
    // The rules after one that matches are not asked.
    const last = rules.findIndex(({ by, rule }) =>
      met.some((one) => one.policy === by.policy.key && one.rule === rule.index),
    );
    const before = last < 0 ? rules : rules.slice(0, last);
    // A Pass leads to the same decision, unless one of its own tier decides.
    const isDecisive = decision.type === "cluster rule" && decision.rule.tier === tier;
    return before.filter(({ rule }) => isDecisive || !("rule" in rule) || rule.rule.action !== "Pass");
  });
  return [...ofClusters, ...(asked.network ? rulesOf(isolating) : [])];
}

/** Returns whether a peer or a subject selects a pod if its namespace has labels besides its name, and only then. */
function isByNamespaceLabels(peer: Peer, { namespace, labels }: Pod): boolean {
  if (peer.type !== "pods" || peer.namespaceSelector === undefined) return false;
  const needed = unmet(peer.namespaceSelector, nameLabel(namespace));
  const isByLabels = needed.length > 0 && needed.every(({ key }) => key !== NAMESPACE_NAME);
  return isByLabels && (peer.podSelector === undefined || selects(peer.podSelector, labels));
}

/**
 * Returns whether some prefixes may contain an address of a pod, or of a node, without containing every address. Those
 * with exceptions do not count, since these are usually the pods' own networks. A single address counts only for a
 * node: addresses of pods change.
 *
 * @param isNode whether the address may be a node's
 */
function mayBeOf(isNode: boolean, cidrs: readonly Cidr[], except: readonly unknown[]): boolean {
  const isOfPods = (cidr: Cidr): boolean =>
    cidr.prefixLength > 0 && (isNode || !isHostCidr(cidr)) && OF_PODS.some((pods) => doOverlap(pods, cidr));
  return except.length === 0 && cidrs.some(isOfPods);
}

/** Prints notes on stderr about policies with rules for addresses or labels that the input lacks. */
export function tellUnknown(
  { err }: Pick<Io, "err">,
  objects: readonly ClusterObject[],
  running: readonly Pod[],
): void {
  const read = new Set(objects.flatMap((one) => (one.kind === "Namespace" ? [one.name] : [])));
  const unaddressed = running.filter(({ addresses }) => addresses.length === 0);
  const isAnyNode = unaddressed.some(({ hostNetwork }) => hostNetwork);
  const unread = running.filter(({ namespace }) => !read.has(namespace));
  const tell = (what: string, isMeant: (peer: Peer) => boolean): void => {
    const meant = objects
      .filter(isPolicy)
      .filter((policy) => [...peersOf(policy), ...("subject" in policy ? [policy.subject] : [])].some(isMeant))
      .map(({ kind, key }) => `${kind} ${key}`);
    if (meant.length === 0) return;
    err.write(
      `not known: ${what}; for them rules of ${printable(shortList(meant, MOST_NAMED))} are taken not to match\n`,
    );
  };
  if (unaddressed.length > 0) {
    const isForAddresses = (peer: Peer): boolean =>
      peer.type === "ipBlock"
        ? mayBeOf(isAnyNode, [peer.cidr], peer.except)
        : peer.type === "networks" && mayBeOf(isAnyNode, peer.cidrs, []);
    tell(`addresses of ${counted(unaddressed.length, "pod")}`, isForAddresses);
  }
  const names = [...new Set(unread.map(({ namespace }) => namespace))].sort();
  tell(`labels of namespaces ${shortList(names, MOST_NAMED)}`, (peer) =>
    unread.some((pod) => isByNamespaceLabels(peer, pod)),
  );
}

/** Returns the tiers with rules that could still matter: later tiers are not evaluated, and allowing rules add up. */
function askedTiers(decision: Decision): { readonly tiers: readonly ClusterPolicyTier[]; readonly network: boolean } {
  switch (decision.type) {
    case "exempt":
    case "rule":
      return { tiers: ["Admin"], network: false };
    case "isolated":
      return { tiers: ["Admin"], network: true };
    case "default":
      return { tiers: ["Admin", "Baseline"], network: true };
    case "cluster rule":
      return { tiers: decision.rule.tier === "Baseline" ? ["Admin", "Baseline"] : ["Admin"], network: false };
  }
}

function nameOf({ party }: ResolvedEnd): string {
  if (party.type === "outside") return "";
  if (party.type === "pod") return party.key;
  return party.pod ?? `node/${party.name ?? "unknown"}`;
}
