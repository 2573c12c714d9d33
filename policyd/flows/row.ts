import { type Cidr, formatCidr } from "../../kernel/ip/cidr.ts";

/** An end of flows: a workload of the cluster, a node, or addresses outside the cluster. */
export type RowEnd =
  /** `NAMESPACE/KIND/NAME`, or `NAMESPACE/POD` for a pod without a controller. */
  | { readonly type: "workload"; readonly name: string }
  /** The node of the pod at the other end, which policies treat differently from other nodes (POL-07). */
  | { readonly type: "own node" }
  /** Another node. */
  | { readonly type: "node"; readonly name: string }
  /** The smallest prefix that contains the addresses seen; those of one row are in one block (flow_end_names.ts). */
  | {
      readonly type: "outside";
      readonly range: Cidr;
      /** The domain name by which the pod at the other end knows them. */
      readonly name?: string;
    };

export const ROW_VERDICTS = ["allowed", "denied", "would be denied"] as const;

/** The policies' verdict on a flow; "would be denied" comes from shadow policies. */
export type RowVerdict = (typeof ROW_VERDICTS)[number];

/** The flows that one node has seen between two ends, for one protocol and port. */
export interface FlowRow {
  readonly from: RowEnd;
  readonly to: RowEnd;
  /** `TCP`, `UDP`, `SCTP`, `ICMP`, `ICMPv6`, or `protocol 47`. */
  readonly protocol: string;
  /** Port of the end that replies; behind a Service, the pod's. Undefined where the protocol has none. */
  readonly port: number | undefined;
  readonly verdict: RowVerdict;
  /** The end that is a pod of this node; "from" where both are, so that a node has one row for each flow. */
  readonly observedAt: "from" | "to";
  /** Milliseconds since 1970. */
  readonly firstSeen: number;
  /** Milliseconds since 1970, when a connection last began or ended. */
  readonly lastSeen: number;
  /** Connections that began; for denied ones, their logged packets. */
  readonly count: number;
  /** Connections that exist now. */
  readonly open: number;
  /** Bytes of ended connections, in both directions. */
  readonly bytes: number;
  /** For denied flows: the policies, and the rule that came closest to allowing them. */
  readonly reason: string | undefined;
}

/** The name of the pod's own node in texts; workloads' names contain a slash. */
export const OWN_NODE = "own-node";

/** Formats an end for people: a workload's name, `own-node`, `node/NAME`, or a prefix after its domain name. */
export function endText(end: RowEnd): string {
  switch (end.type) {
    case "workload":
      return end.name;
    case "own node":
      return OWN_NODE;
    case "node":
      return `node/${end.name}`;
    case "outside":
      return `${end.name === undefined ? "" : `${end.name} `}${formatCidr(end.range)}`;
  }
}
