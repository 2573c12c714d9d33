import { type Address, type Family, familyOf, FAMILIES } from "../../../kernel/ip/address.ts";
import { lastAddress, networkAddress } from "../../../kernel/ip/cidr.ts";
import { workloadText } from "../../../objects/workload_name.ts";
import type { RowEnd, FlowRow } from "../../../policyd/flows/row.ts";
import { isAllowed } from "../../../objects/semantics/policies/evaluate.ts";
import type { PolicyIndex } from "../../../objects/semantics/policies/policy_index.ts";
import { trafficText } from "../../output/text.ts";
import { classifiedPods } from "../connections/pair_table.ts";
import { type Connection, flowOf, remembered } from "./connection.ts";

/** The connections that represent the rows of a ledger. */
export interface LedgerConnections {
  readonly connections: readonly Connection[];
  /** Connections for rows that policies denied. */
  readonly denied: readonly Connection[];
  /** The number of rows with protocols to which policies do not apply. */
  readonly others: number;
  /** Names of ends that no pod and no node has now; their rows are not evaluated. */
  readonly gone: readonly string[];
  /** Allowed flows of present workloads with such an end. */
  readonly lost: readonly LostFlow[];
}

/** A flow of a workload whose other end no pod and no node has now. */
export interface LostFlow {
  /** The namespace of the workload. */
  readonly namespace: string;
  readonly text: string;
}

const PROTOCOLS: ReadonlyMap<string, Connection["protocol"]> = new Map([
  ["TCP", "TCP"],
  ["UDP", "UDP"],
  ["SCTP", "SCTP"],
  ["ICMP", "ICMP"],
  ["ICMPv6", "ICMP"],
]);

/**
 * Returns connections that represent the rows of a ledger, between the pods that workloads have now: one pod of each
 * class that policies distinguish represents its workload, and the first and the last address of an outside range
 * represent the range. Of these the ones that policies deny are omitted for an allowed row, if others are allowed.
 *
 * @param after the policies after a change, which may distinguish other pods
 */
export function ledgerConnections(
  index: PolicyIndex,
  rows: readonly FlowRow[],
  after: PolicyIndex = index,
): LedgerConnections {
  const ends = endsIn(index, after);
  const isAllowedNow = remembered((connection) => isAllowed(index, flowOf(connection)));
  const found = { connections: [] as Connection[], denied: [] as Connection[] };
  const gone = new Set<string>();
  const lost: LostFlow[] = [];
  let others = 0;
  for (const { from, to, protocol: name, port, verdict } of rows) {
    // A flow that a policy in shadow would deny passes, and has a separate row for that.
    if (verdict === "would be denied") continue;
    const protocol = PROTOCOLS.get(name);
    if (protocol === undefined) {
      others++;
      continue;
    }
    for (const [end, other] of [
      [from, to],
      [to, from],
    ] as const) {
      if (!isUnknown(ends, end)) continue;
      gone.add(`${end.type} ${end.name}`);
      if (other.type !== "workload" || !ends.pods.has(other.name) || verdict !== "allowed") continue;
      const namespace = other.name.slice(0, other.name.indexOf("/"));
      const way = end === from ? `from ${end.name}` : `to ${end.name}`;
      lost.push({ namespace, text: `${other.name} ${way}, ${trafficText({ protocol, port })}: nothing of that name` });
    }
    const possible = standingPairs(ends, from, to).flatMap(([sources, servers]) =>
      pairsOf(sources.addresses, servers.addresses).map(([source, destination]) => ({
        protocol,
        source,
        sourcePort: undefined,
        asked: destination,
        askedPort: port,
        destination,
        port,
        ...outsideOf(from, to),
      })),
    );
    const likely = possible.filter((one) => isAllowedNow(one) === (verdict === "allowed"));
    found[verdict === "allowed" ? "connections" : "denied"].push(...(likely.length > 0 ? likely : possible));
  }
  return { ...found, others, gone: [...gone].sort(), lost };
}

/** Returns the outside range of a row, and its name; empty where both ends are in the cluster. */
function outsideOf(from: RowEnd, to: RowEnd): Pick<Connection, "outside" | "name"> {
  const end = from.type === "outside" ? from : to;
  if (end.type !== "outside") return {};
  return { outside: end.range, ...(end.name === undefined ? {} : { name: end.name }) };
}

/** Returns pairs of addresses of one family: for a range its first and last, for a workload those of one pod. */
function pairsOf(
  sources: readonly Address[],
  destinations: readonly Address[],
): readonly (readonly [Address, Address])[] {
  const ofFamily = (all: readonly Address[], family: Family) => all.filter((address) => familyOf(address) === family);
  for (const family of FAMILIES) {
    const pairs = ofFamily(sources, family).flatMap((source) =>
      ofFamily(destinations, family).map((destination) => [source, destination] as const),
    );
    if (pairs.length > 0) return pairs;
  }
  return [];
}

/** A pod that represents its class of a workload, or the addresses of another end. */
interface Standing {
  readonly addresses: readonly Address[];
  readonly nodeName: string | undefined;
}

/** The pods and nodes in which the ends of flows are looked up. */
interface Ends {
  /** The pods of each workload by its name, in the classes that policies distinguish. */
  readonly pods: ReadonlyMap<string, readonly (readonly Standing[])[]>;
  readonly nodes: ReadonlyMap<string, readonly Address[]>;
}

function endsIn(before: PolicyIndex, after: PolicyIndex): Ends {
  const { pods, owners } = before;
  const [classes, classesAfter] = [classifiedPods(before), classifiedPods(after)];
  const standing = [...pods.values()].flatMap(({ pod }) => {
    const addresses = pod.addresses.filter((address) => owners.get(address)?.[0].type === "pod");
    const kind = `${classes.get(pod.key)?.classNumber} ${classesAfter.get(pod.key)?.classNumber}`;
    return addresses.length === 0 ? [] : [{ addresses, nodeName: pod.nodeName, workload: workloadText(pod), kind }];
  });
  const workloads = [...Map.groupBy(standing, ({ workload }) => workload)].map(
    ([name, all]) => [name, [...Map.groupBy(all, ({ kind }) => kind).values()]] as const,
  );
  const ofNodes = Map.groupBy(owners, ([, [owner]]) => (owner.type === "node" ? owner.name : undefined));
  const nodes = [...ofNodes].flatMap(([name, all]): readonly (readonly [string, readonly Address[]])[] => {
    return name === undefined ? [] : [[name, all.map(([address]) => address)]];
  });
  return { pods: new Map(workloads), nodes: new Map(nodes) };
}

function isUnknown({ pods, nodes }: Ends, end: RowEnd): end is RowEnd & { readonly type: "workload" | "node" } {
  return (end.type === "workload" && !pods.has(end.name)) || (end.type === "node" && !nodes.has(end.name));
}

/**
 * Returns pairs that represent both ends. A workload's connections to itself are between two of its pods, and those with
 * a node other than its own are with one on another node: a pod always reaches itself and usually its own node.
 */
function standingPairs(ends: Ends, from: RowEnd, to: RowEnd): readonly (readonly [Standing, Standing])[] {
  if (from.type === "own node")
    return standingFor(ends, to, from).flatMap((server) =>
      standingFor(ends, from, to, server).map((source) => [source, server] as const),
    );
  return standingFor(ends, from, to).flatMap((source) =>
    standingFor(ends, to, from, source).map((server) => [source, server] as const),
  );
}

/** @param other the other end, which is represented by `not` if that is known */
function standingFor({ pods, nodes }: Ends, end: RowEnd, other: RowEnd, not?: Standing): readonly Standing[] {
  switch (end.type) {
    case "workload": {
      const isOther = (one: Standing): boolean => one !== not && (other.type !== "node" || one.nodeName !== other.name);
      return (pods.get(end.name) ?? []).flatMap((all) => all.find(isOther) ?? all[0] ?? []);
    }
    case "own node":
      return [{ addresses: nodes.get(not?.nodeName ?? "") ?? [], nodeName: undefined }];
    case "node":
      return [{ addresses: nodes.get(end.name) ?? [], nodeName: end.name }];
    case "outside":
      return [{ addresses: [...new Set([networkAddress(end.range), lastAddress(end.range)])], nodeName: undefined }];
  }
}
