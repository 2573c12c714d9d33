import type { Cidr } from "../../kernel/ip/cidr.ts";
import { formatCidr } from "../../kernel/ip/cidr.ts";

/** An end of flows: a workload of the cluster, a node, or addresses that nobody in the cluster has. */
export type FlowEnd =
  /** `NAMESPACE/KIND/NAME`, or `NAMESPACE/POD` of a pod without a controller. */
  | { readonly type: "workload"; readonly name: string }
  /** The node of the pod at the other end, which policies treat as no other node (POL-07). */
  | { readonly type: "own node" }
  /** Another node. */
  | { readonly type: "node"; readonly name: string }
  /** The smallest prefix that holds the addresses that were seen; of one row they are in one block (flow_ends.ts). */
  | { readonly type: "outside"; readonly range: Cidr };

export const FLOW_VERDICTS = ["allowed", "denied", "would be denied"] as const;

/** The verdict of policies on a flow; "would be denied" is that of policies in shadow. */
export type FlowVerdict = (typeof FLOW_VERDICTS)[number];

/** The flows that one node has seen between two ends by one protocol and port. */
export interface FlowRow {
  readonly from: FlowEnd;
  readonly to: FlowEnd;
  /** `TCP`, `UDP`, `SCTP`, `ICMP`, `ICMPv6`, or `protocol 47`. */
  readonly protocol: string;
  /** Of the end that answers: behind a Service, the pod's. Undefined where the protocol has none. */
  readonly port: number | undefined;
  readonly verdict: FlowVerdict;
  /** The end that is a pod of this node; "from" where both are, so that a node has each flow in one row. */
  readonly observedAt: "from" | "to";
  /** Milliseconds since 1970. */
  readonly firstSeen: number;
  /** Milliseconds since 1970: when a connection began or ended last. */
  readonly lastSeen: number;
  /** Connections that began; where they are denied, packets of them that were logged. */
  readonly count: number;
  /** Connections that exist. */
  readonly open: number;
  /** Of connections that have ended, in both directions. */
  readonly bytes: number;
  /** Where they are denied: the policies, and the rule that nearly allowed it. */
  readonly reason: string | undefined;
}

/** The node of a pod as people write it: no workload's name is without a slash. */
export const OWN_NODE = "own-node";

/** An end as people write it: a workload's name, `own-node`, `node/NAME`, or a prefix. */
export function endText(end: FlowEnd): string {
  switch (end.type) {
    case "workload":
      return end.name;
    case "own node":
      return OWN_NODE;
    case "node":
      return `node/${end.name}`;
    case "outside":
      return formatCidr(end.range);
  }
}
