import { type Address, type Family, familyOf, FAMILIES } from "../../../kernel/ip/address.ts";
import { lastAddress, networkAddress } from "../../../kernel/ip/cidr.ts";
import { workloadText } from "../../../objects/workload_name.ts";
import type { RowEnd, FlowRow } from "../../../policyd/flows/row.ts";
import type { PolicyIndex } from "../../../objects/semantics/policies/policy_index.ts";
import { trafficText } from "../../output/text.ts";
import type { Connection } from "./connection.ts";

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
 * Returns connections that represent the rows of a ledger, between the pods that workloads have now: one pod represents
 * its workload, and the first and the last address of an outside range represent the range.
 */
export function ledgerConnections(index: PolicyIndex, rows: readonly FlowRow[]): LedgerConnections {
  const ends = endsIn(index);
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
    const [sources, servers] = addressesOf(ends, from, to);
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
    found[verdict === "allowed" ? "connections" : "denied"].push(
      ...pairsOf(sources, servers).map(([source, destination]) => ({
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

/** A pod that represents its workload. */
interface Standing {
  readonly addresses: readonly Address[];
  readonly nodeName: string | undefined;
}

/** The pods and nodes in which the ends of flows are looked up. */
interface Ends {
  readonly pods: ReadonlyMap<string, readonly Standing[]>;
  readonly nodes: ReadonlyMap<string, readonly Address[]>;
}

function endsIn({ pods, owners }: PolicyIndex): Ends {
  const workloads = new Map<string, Standing[]>();
  for (const { pod } of pods.values()) {
    const addresses = pod.addresses.filter((address) => owners.get(address)?.[0].type === "pod");
    if (addresses.length === 0) continue;
    const name = workloadText(pod);
    const known = workloads.get(name);
    const standing = { addresses, nodeName: pod.nodeName };
    if (known === undefined) workloads.set(name, [standing]);
    else known.push(standing);
  }
  const nodes = new Map<string, Address[]>();
  for (const [address, [owner]] of owners) {
    if (owner.type !== "node") continue;
    const known = nodes.get(owner.name);
    if (known === undefined) nodes.set(owner.name, [address]);
    else known.push(address);
  }
  return { pods: workloads, nodes };
}

function isUnknown({ pods, nodes }: Ends, end: RowEnd): end is RowEnd & { readonly type: "workload" | "node" } {
  return (end.type === "workload" && !pods.has(end.name)) || (end.type === "node" && !nodes.has(end.name));
}

/**
 * Returns addresses of both ends. A workload's connections to itself are between two of its pods, and those with a node
 * other than its own are with one on another node: a pod always reaches itself and usually its own node.
 */
function addressesOf(ends: Ends, from: RowEnd, to: RowEnd): readonly [readonly Address[], readonly Address[]] {
  const source = standingFor(ends, from, to);
  const server = standingFor(ends, to, from, from.type === "workload" ? source : undefined);
  const ofNode = (end: RowEnd, other: Standing | undefined): readonly Address[] =>
    end.type === "own node" ? (ends.nodes.get(other?.nodeName ?? "") ?? []) : [];
  return [source?.addresses ?? ofNode(from, server), server?.addresses ?? ofNode(to, source)];
}

function standingFor({ pods, nodes }: Ends, end: RowEnd, other: RowEnd, not?: Standing): Standing | undefined {
  switch (end.type) {
    case "workload": {
      const all = pods.get(end.name) ?? [];
      const isOther = (one: Standing): boolean => one !== not && (other.type !== "node" || one.nodeName !== other.name);
      return all.find(isOther) ?? all[0];
    }
    case "own node":
      return undefined;
    case "node":
      return { addresses: nodes.get(end.name) ?? [], nodeName: end.name };
    case "outside":
      return { addresses: [...new Set([networkAddress(end.range), lastAddress(end.range)])], nodeName: undefined };
  }
}
