import { NAMES_ANNOTATION } from "../../../objects/gate/network_policy.ts";
import { LONGEST_ANNOTATION } from "../../../objects/name.ts";
import { shortList } from "../../../objects/printable.ts";
import { type Direction, DIRECTIONS } from "../../../objects/semantics/policies/flow.ts";
import { hostCidr } from "../../../kernel/ip/cidr.ts";
import type { Labels, Pod, Service } from "../../../objects/model.ts";
import type { PolicyIndex } from "../../../objects/semantics/policies/policy_index.ts";
import { selects } from "../../../objects/semantics/policies/selector.ts";
import { groupName } from "../../cluster/group.ts";
import { type DnsServer, dnsServersIn, STAND_INS } from "../cluster_dns.ts";
import type { Connection } from "../live/connection.ts";
import { commonSelector, podPeer, rangePeer } from "../live/peer.ts";
import type { AskedConnection } from "./asked.ts";
import { isOpen, type Observation, observe, type Pair, type Peer, peerKey } from "./observe.ts";

/** Policies for a namespace, with remarks. */
export interface Suggestion {
  /** NetworkPolicies, ready to apply. */
  readonly policies: readonly SuggestedPolicy[];
  /** Whether no connection of the namespace was seen and no object asks for one. */
  readonly isNothingKnown: boolean;
  /** The objects that ask for a peer of a rule, whether it was seen or not, a line each. */
  readonly comments: ReadonlyMap<object, readonly string[]>;
  /** Sentences about assumptions. */
  readonly remarks: readonly string[];
  /** Sentences about connections that were seen but that no rule allows. */
  readonly omitted: readonly string[];
}

/** A NetworkPolicy for one workload. */
export interface SuggestedPolicy {
  readonly apiVersion: "networking.k8s.io/v1";
  readonly kind: "NetworkPolicy";
  readonly metadata: {
    readonly name: string;
    readonly namespace: string;
    readonly annotations?: Readonly<Record<string, string>>;
  };
  readonly spec: {
    readonly podSelector: object;
    readonly policyTypes: readonly ("Ingress" | "Egress")[];
    readonly ingress?: readonly SuggestedRule[];
    readonly egress?: readonly SuggestedRule[];
  };
}

/** A rule, with peers in `from` for ingress and in `to` for egress. */
export interface SuggestedRule {
  readonly from?: readonly object[];
  readonly to?: readonly object[];
  readonly ports: readonly object[];
}

/** The most addresses in a rule; nobody can check more. */
const MOST_ADDRESSES = 50;

/** The most omitted domain names that are listed for a workload; further ones are counted. */
const MOST_NAMES = 5;

/**
 * Returns the smallest NetworkPolicies for the workloads of a namespace that allow each pair of workloads, port and
 * protocol in some connections. They add to the existing policies: what these allow gets no rule, and a direction in
 * which they isolate all pods of a workload is omitted. The cluster's DNS is always allowed and gets no policy, since
 * tables seldom show who asks it.
 *
 * @param asked connections that objects ask for: these are allowed like those that were seen
 * @param services those of the cluster, which say where its DNS listens
 */
export function suggest(
  index: PolicyIndex,
  namespace: string,
  connections: readonly Connection[],
  asked: readonly AskedConnection[] = [],
  services: ReadonlyMap<string, Service> = new Map(),
): Suggestion {
  const dns = dnsServersIn(
    [...index.pods.values()].map(({ pod }) => pod),
    services,
  );
  const observation = observe(index, namespace, connections, asked);
  const own = [...observation.workloads].filter(([, [first]]) => first?.namespace === namespace);
  const notes = {
    comments: new Map<object, readonly string[]>(),
    remarks: new Set<string>(),
    omitted: new Set<string>(),
  };
  const taken = new Set(index.networkPolicies.map(({ policy }) => policy.key));
  const context = { index, namespace, observation, dns, taken, ...notes };
  const isNothingKnown = observation.concerned === 0 && observation.pairs.length + observation.closed.length === 0;
  const policies = own.sort(([a], [b]) => (a < b ? -1 : 1)).flatMap(([name, pods]) => policyFor(context, name, pods));
  const { portless } = observation;
  if (portless > 0) context.omitted.add(`${portless} by ICMP or at port 0: a rule with ports does not allow it`);
  if (observation.denied > 0) context.omitted.add(`${observation.denied} are denied by policies that are there`);
  for (const by of observation.closed) context.remarks.add(`${by}: policies that are there close it`);
  return {
    policies,
    isNothingKnown,
    comments: notes.comments,
    remarks: [...context.remarks],
    omitted: [...context.omitted],
  };
}

interface Context {
  readonly index: PolicyIndex;
  readonly namespace: string;
  readonly observation: Observation;
  /** None where the cluster's DNS is not in the input. */
  readonly dns: readonly DnsServer[];
  /** The keys of all policies, those suggested before among them. */
  readonly taken: Set<string>;
  readonly comments: Map<object, readonly string[]>;
  readonly remarks: Set<string>;
  readonly omitted: Set<string>;
}

function policyFor(context: Context, workload: string, pods: readonly Pod[]): readonly SuggestedPolicy[] {
  const { index, namespace, observation, dns, taken, remarks, omitted } = context;
  if (dns.some(({ pod }) => groupName(pod, "workload") === workload)) {
    remarks.add(`${workload}: the cluster's DNS, which everyone may ask, gets no policy`);
    return [];
  }
  const pairs = observation.pairs.filter((pair) => pair.workload === workload);
  const directions = DIRECTIONS.filter((direction) => isOpen(index, pods, direction));
  if (directions.length === 0) return [];
  const podSelector = commonSelector(pods, index);
  if (podSelector === undefined) {
    omitted.add(`${workload}: its pods have no label in common, so no policy can select them`);
    return [];
  }
  const others = othersSelected(context, podSelector, workload);
  if (others.length > 0)
    remarks.add(`${workload}: its labels also select ${others.join(", ")}; give it a label of its own`);
  if (!pairs.some(({ isSeen }) => isSeen)) {
    const rest = pairs.length === 0 ? "nothing" : "only what objects ask for";
    remarks.add(`${workload}: no connection was seen that needs a rule, so ${rest} is allowed by one`);
  }
  const rules = {
    ingress: rulesOf(context, pairs, "ingress"),
    egress: [...rulesOf(context, pairs, "egress"), ...dnsRules(context)],
  };
  const policyTypes = directions.map((direction) => (direction === "ingress" ? "Ingress" : "Egress"));
  const spec = {
    podSelector,
    policyTypes,
    ...Object.fromEntries(directions.map((direction) => [direction, rules[direction]])),
  };
  const names = policyTypes.includes("Egress") ? nameEntries(pairs) : [];
  let room = LONGEST_ANNOTATION + 1;
  const kept = names.filter((name) => (room -= name.length + 1) >= 0);
  const left = shortList(names.slice(kept.length), MOST_NAMES);
  if (left !== "")
    omitted.add(`${workload}: ${left}: ${LONGEST_ANNOTATION} characters of names fit into the annotation`);
  const metadata = {
    name: nameFor(taken, namespace, workload),
    namespace,
    ...(kept.length === 0 ? {} : { annotations: { [NAMES_ANNOTATION]: kept.join(" ") } }),
  };
  return [{ apiVersion: "networking.k8s.io/v1", kind: "NetworkPolicy", metadata, spec }];
}

/** Returns the entries of the annotation for what was reached by a domain name: `api.example.com:443/TCP`. */
function nameEntries(pairs: readonly Pair[]): readonly string[] {
  const entries = pairs.flatMap(({ peer, protocol, port }) =>
    peer.type === "domain name" ? [`${peer.name}:${port}/${protocol}`] : [],
  );
  return [...new Set(entries)].sort();
}

/** Returns rules with the ports of each peer; peers with the same ports share a rule. */
function rulesOf(context: Context, pairs: readonly Pair[], direction: Direction): readonly SuggestedRule[] {
  const byPeer = Map.groupBy(
    pairs.filter(
      (pair) => pair.direction === direction && pair.peer.type !== "domain name" && !isForDns(context, pair),
    ),
    ({ peer }) => peerKey(peer),
  );
  const rules = new Map<string, { readonly peers: object[]; readonly ports: readonly object[] }>();
  let addresses = 0;
  for (const [, ofPeer] of [...byPeer].sort(([a], [b]) => (a < b ? -1 : 1))) {
    const [first] = ofPeer;
    if (first === undefined) continue;
    const askedBy = [...new Set(ofPeer.flatMap((pair) => pair.askedBy))].sort();
    if ("range" in first.peer && askedBy.length === 0 && ++addresses > MOST_ADDRESSES) {
      context.omitted.add(
        `${first.workload}: more than ${MOST_ADDRESSES} addresses (${direction}); allow a range of them`,
      );
      continue;
    }
    const peer = peerObject(context, first.workload, first.peer);
    if (peer === undefined) continue;
    if (askedBy.length > 0) context.comments.set(peer, askedBy);
    const ports = ofPeer.map((pair) => portObject(context, pair)).sort(byText);
    const key = JSON.stringify(ports);
    const rule = rules.get(key) ?? { peers: [], ports };
    rule.peers.push(peer);
    rules.set(key, rule);
  }
  return [...rules.values()].map(({ peers, ports }) => ({ [direction === "ingress" ? "from" : "to"]: peers, ports }));
}

function peerObject(context: Context, workload: string, peer: Peer): object | undefined {
  if ("range" in peer) {
    if (peer.range.prefixLength === 0) return rangePeer(peer.range);
    const what = peer.type === "node" ? "a node's address" : "addresses outside of the cluster";
    context.remarks.add(`${workload}: allowed by address, as it is ${what}: such addresses change`);
    return rangePeer(peer.range);
  }
  const pods = context.observation.workloads.get(peer.name) ?? [];
  const found = podPeer(pods, context.namespace, context.index);
  if (found === undefined) {
    context.omitted.add(`${workload} and ${peer.name}: the pods of ${peer.name} have no label in common`);
    return undefined;
  }
  const others = othersSelected(context, commonSelector(pods, context.index) ?? {}, peer.name, pods[0]?.namespace);
  if (others.length > 0)
    context.remarks.add(`${workload}: the labels of ${peer.name} also select ${others.join(", ")}`);
  return found;
}

/** Returns a port by name, if all pods of the serving workload give this port only that name; else by number. */
function portObject({ observation }: Context, { protocol, port, server }: Pair): object {
  const pods = server === undefined ? [] : (observation.workloads.get(server) ?? []);
  const names = (pods[0]?.ports ?? []).flatMap((one) =>
    one.port === port && one.protocol === protocol ? [one.name] : [],
  );
  const name = names.find((candidate) =>
    pods.every((pod) => {
      const named = pod.ports.filter((one) => one.name === candidate && one.protocol === protocol);
      return named.length > 0 && named.every((one) => one.port === port);
    }),
  );
  return { protocol, port: name ?? port };
}

/** Returns a rule for each kind of pod of the cluster's DNS, or one for the usual pods where the input has none. */
function dnsRules({ index, namespace, dns, remarks, omitted }: Context): readonly SuggestedRule[] {
  const [usual] = STAND_INS;
  const [labels] = Object.entries(usual.pod.labels).map(([key, value]) => `${key}=${value}`);
  const where = `; it is not in the input: expected are pods with ${labels} in ${usual.pod.namespace}`;
  remarks.add(`every workload of ${namespace} may ask the cluster's DNS, seen or not${dns.length > 0 ? "" : where}`);
  const rules = (dns.length > 0 ? dns : [usual]).flatMap(({ pod, port }): readonly SuggestedRule[] => {
    const ports = ["UDP", "TCP"].map((protocol) => ({ protocol, port }));
    if (pod.hostNetwork) {
      remarks.add(`the cluster's DNS is in its nodes' network: allowed by addresses, which change as its pods move`);
      if (pod.addresses.length === 0)
        omitted.add(`${pod.key}, the cluster's DNS: its node's address is not in the input`);
      return pod.addresses.map((address) => ({ to: [rangePeer(hostCidr(address))], ports }));
    }
    const peer = podPeer([pod], namespace, index);
    return peer === undefined ? [] : [{ to: [peer], ports }];
  });
  return [...new Map(rules.map((rule) => [JSON.stringify(rule), rule])).values()];
}

/** Returns whether a connection asks the cluster's DNS, for which each workload has a rule. */
function isForDns({ dns }: Context, { direction, peer, port }: Pair): boolean {
  if (direction !== "egress" || peer.type !== "workload") return false;
  return dns.some((server) => server.port === port && groupName(server.pod, "workload") === peer.name);
}

/** Returns the other workloads of the namespace that a selector of labels also selects. */
function othersSelected(
  { observation, namespace }: Context,
  { matchLabels = {} }: { readonly matchLabels?: Labels },
  workload: string,
  of: string = namespace,
): readonly string[] {
  return [...observation.workloads].flatMap(([name, pods]) => {
    const isOther = name !== workload && pods[0]?.namespace === of;
    return isOther && pods.some(({ labels }) => selects({ matchLabels, matchExpressions: [] }, labels)) ? [name] : [];
  });
}

/** Returns `observed-NAME`, with a number where a policy has this name already, and takes it. */
function nameFor(taken: Set<string>, namespace: string, workload: string): string {
  const base = `observed-${workload.split("/").at(-1) ?? ""}`.slice(0, 240).replace(/[-.]+$/, "");
  for (let number = 1; ; number++) {
    const name = number === 1 ? base : `${base}-${number}`;
    const { size } = taken;
    if (taken.add(`${namespace}/${name}`).size > size) return name;
  }
}

function byText(a: object, b: object): number {
  return JSON.stringify(a) < JSON.stringify(b) ? -1 : 1;
}
