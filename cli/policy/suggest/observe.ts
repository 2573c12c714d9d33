import type { Address } from "../../../kernel/ip/address.ts";
import { type Cidr, cidrContains, formatCidr } from "../../../kernel/ip/cidr.ts";
import type { Pod, Protocol } from "../../../objects/model.ts";
import { isFinished } from "../../../objects/semantics/policies/address_owner.ts";
import { exemptionFromIsolation } from "../../../objects/semantics/policies/decide.ts";
import { evaluatePolicy } from "../../../objects/semantics/policies/evaluate.ts";
import type { Direction, Traffic } from "../../../objects/semantics/policies/flow.ts";
import { resolveFlow } from "../../../objects/semantics/policies/party.ts";
import type { PolicyIndex } from "../../../objects/semantics/policies/policy_index.ts";
import type { EndVerdict } from "../../../objects/semantics/policies/verdict.ts";
import { groupName } from "../../cluster/group.ts";
import { type Connection, flowOf, remembered } from "../live/connection.ts";
import { entryAt, rangeAt } from "../live/peer.ts";
import type { AskedConnection } from "./asked.ts";

/** The other end of a connection: a workload or a server outside by its name, or addresses that no pod has. */
export type Peer =
  | { readonly type: "workload" | "domain name"; readonly name: string }
  | { readonly type: "node" | "outside"; readonly range: Cidr };

/** A pair of a workload and a peer, with the port of the end that serves. */
export interface Pair {
  readonly workload: string;
  readonly direction: Direction;
  readonly peer: Peer;
  readonly protocol: Protocol;
  readonly port: number;
  /** The workload that serves the port; undefined where no pod does. */
  readonly server: string | undefined;
  /** Whether a connection shows it. */
  readonly isSeen: boolean;
  /** The objects that ask for it, as in `AskedConnection`, seen or not. */
  readonly askedBy: readonly string[];
}

/** The traffic of a namespace's workloads, as some connections show it. */
export interface Observation {
  /** The pods of each workload of the cluster, by its name. */
  readonly workloads: ReadonlyMap<string, readonly Pod[]>;
  /** The pairs to which no policy applies yet: each needs a rule. */
  readonly pairs: readonly Pair[];
  /** The number of connections that concern the namespace. */
  readonly concerned: number;
  /** The number of connections that policies deny already. */
  readonly denied: number;
  /** The number of connections by ICMP or at port 0, which no rule with ports allows. */
  readonly portless: number;
  /** The objects that ask for connections which policies deny already. */
  readonly closed: readonly string[];
}

/**
 * Returns the pairs of workloads, ports and peers in the connections of a namespace, each once. It omits pairs
 * that a policy allows already, and what policies never decide about, such as a pod and its own node (POL-07).
 *
 * @param asked connections that objects ask for, of any namespace
 */
export function observe(
  index: PolicyIndex,
  namespace: string,
  connections: readonly Connection[],
  asked: readonly AskedConnection[] = [],
): Observation {
  const pods = [...index.pods.values()].map(({ pod }) => pod);
  const running = pods.filter((pod) => !pod.hostNetwork && !isFinished(pod));
  const workloads = Map.groupBy(running, (pod) => groupName(pod, "workload"));
  const pairsFor = remembered((connection) => pairsOf(index, workloads, namespace, connection, "seen"));
  const pairsAsked = remembered((connection) => pairsOf(index, workloads, namespace, connection, "asked"));
  const pairs = new Map<string, Pair>();
  const add = (found: readonly FoundPair[], isSeen: boolean, askedBy: readonly string[]): void => {
    for (const pair of found) {
      const known = pairs.get(pairKey(pair));
      const all = new Set([...(known?.askedBy ?? []), ...askedBy]);
      pairs.set(pairKey(pair), { ...pair, isSeen: isSeen || known?.isSeen === true, askedBy: [...all].sort() });
    }
  };
  const counts = { concerned: 0, denied: 0, portless: 0 };
  for (const connection of connections) {
    const ends = [podAt(index, connection.source), podAt(index, connection.destination)];
    if (ends.every((pod) => pod?.namespace !== namespace)) continue;
    counts.concerned++;
    if (connection.protocol === "ICMP" || (connection.port ?? 0) === 0) {
      counts.portless++;
      continue;
    }
    const found = pairsFor(connection);
    if (found === undefined) counts.denied++;
    else add(found, true, []);
  }
  const closed = new Set<string>();
  for (const { connection, by } of asked) {
    const ends = [podAt(index, connection.source), podAt(index, connection.destination)];
    if (ends.every((pod) => pod?.namespace !== namespace)) continue;
    const found = pairsAsked(connection);
    if (found === undefined) closed.add(by);
    else add(found, false, [by]);
  }
  return { workloads, pairs: withoutCovered([...pairs.values()]), ...counts, closed: [...closed].sort() };
}

/** Returns the pairs without addresses from which every address may reach the same port. */
function withoutCovered(pairs: readonly Pair[]): readonly Pair[] {
  const portOf = ({ workload, direction, protocol, port }: Pair): string =>
    [workload, direction, protocol, port].join(" ");
  const everywhere = Map.groupBy(
    pairs.filter(({ peer }) => "range" in peer && peer.range.prefixLength === 0),
    portOf,
  );
  return pairs.filter((pair) => {
    const { peer } = pair;
    if (!("range" in peer) || peer.range.prefixLength === 0) return true;
    const around = everywhere.get(portOf(pair)) ?? [];
    return !around.some((one) => "range" in one.peer && cidrContains(one.peer.range, peer.range.address));
  });
}

/** A pair by one connection. */
type FoundPair = Omit<Pair, "isSeen" | "askedBy">;

/** Returns the pairs of an allowed connection that need a rule, at most one at each end; undefined if it is denied. */
function pairsOf(
  index: PolicyIndex,
  workloads: Observation["workloads"],
  namespace: string,
  connection: Connection,
  why: "seen" | "asked",
): readonly FoundPair[] | undefined {
  const { protocol, port } = connection;
  const verdict = evaluatePolicy(index, flowOf(connection));
  if (verdict.kind !== "allowed") return undefined;
  if (protocol === "ICMP" || port === undefined) return [];
  const [source, destination] = [podAt(index, connection.source), podAt(index, connection.destination)];
  const server = destination && groupName(destination, "workload");
  const ends = [
    { direction: "egress", own: source, other: connection.destination },
    { direction: "ingress", own: destination, other: connection.source },
  ] as const;
  return ends.flatMap(({ direction, own, other }): readonly FoundPair[] => {
    if (own?.namespace !== namespace) return [];
    // A pod whose own node asks may run on another node later.
    const { decision } = verdict[direction];
    const workload = groupName(own, "workload");
    const isOwnNode = decision.type === "exempt" && decision.because === "own node";
    // The suggested policy also isolates pods of the workload that the policy with this rule does not select.
    const isPartOpen = decision.type === "rule" && isOpen(index, workloads.get(workload) ?? [], direction);
    if (!needsRule(verdict[direction]) && !isPartOpen && !(why === "asked" && isOwnNode)) return [];
    if (why === "seen" && isExempt(index, connection, direction)) return [];
    return [
      {
        workload,
        direction,
        peer:
          direction === "egress" && connection.name !== undefined
            ? { type: "domain name", name: connection.name }
            : peerAt(index, connection, other),
        protocol,
        port,
        server,
      },
    ];
  });
}

/** Returns a text that equal peers share. */
export function peerKey(peer: Peer): string {
  if ("range" in peer) return `${peer.type} ${formatCidr(peer.range)}`;
  return peer.type === "workload" ? peer.name : `${peer.type} ${peer.name}`;
}

function pairKey({ workload, direction, peer, protocol, port }: FoundPair): string {
  return [workload, direction, peerKey(peer), protocol, port].join(" ");
}

/** Returns whether no policy isolates some pod of a workload in a direction. */
export function isOpen({ pods: entries }: PolicyIndex, pods: readonly Pod[], direction: Direction): boolean {
  return pods.some(({ key }) => (entries.get(key)?.subject?.profile[direction].isolating.length ?? 0) === 0);
}

/** Returns whether an end is open only for lack of a NetworkPolicy, which would precede the Baseline tier. */
function needsRule({ decision }: EndVerdict): boolean {
  return decision.type === "default" || (decision.type === "cluster rule" && decision.rule.tier === "Baseline");
}

/** Returns whether an isolated end would allow it without a rule, as towards the pod's own node. */
function isExempt(index: PolicyIndex, connection: Connection, direction: Direction): boolean {
  const { isThroughService = false, protocol, port, ...ends } = flowOf(connection);
  const flow = resolveFlow(index, { ...ends, protocol: "ICMP" });
  const traffic: Traffic = port === undefined ? { protocol } : { protocol, port };
  if ("kind" in flow) return false;
  return exemptionFromIsolation(direction, { flow, traffic, isThroughService, options: index.options }) !== undefined;
}

/** Returns the pod with an address, if policies may select it. */
function podAt(index: PolicyIndex, address: Address): Pod | undefined {
  const entry = entryAt(index, address);
  return entry?.subject === undefined ? undefined : entry.pod;
}

function peerAt(index: PolicyIndex, connection: Connection, address: Address): Peer {
  const pod = podAt(index, address);
  if (pod !== undefined) return { type: "workload", name: groupName(pod, "workload") };
  const range = rangeAt(connection, address);
  return { type: index.owners.get(address)?.[0].type === "node" ? "node" : "outside", range };
}
