import type { Address, Family } from "../../../kernel/ip/address.ts";
import type { Protocol } from "../../cluster/model.ts";

/**
 * A connection as policies see it: the destination is that behind a Service (POL-27, POL-34), the source that before a
 * node puts its own address in.
 */
export type Flow = FlowEnds & Traffic;

export interface FlowEnds {
  readonly source: FlowEnd;
  readonly destination: FlowEnd;
  /** Of the addresses, where the ends have several; without it the first of the destination that the source has, too. */
  readonly family?: Family | undefined;
  /** It left its pod for a Service's address: ClusterNetworkPolicies then hold even if it comes back to the same pod. */
  readonly isThroughService?: boolean | undefined;
}

/** Who sends or receives. A pod of the host's network stands for its node; an address for the pod or node that has it. */
export type FlowEnd =
  /** `namespace/name` */
  | { readonly type: "pod"; readonly key: string }
  | { readonly type: "node"; readonly name: string }
  | { readonly type: "address"; readonly address: Address };

export type Traffic =
  /** The destination's port, as its pod has it. */
  | { readonly protocol: Protocol; readonly port: number }
  /** A question such as an echo request, and its answer; an error that belongs to another flow. */
  | { readonly protocol: "ICMP" | "ICMP error"; readonly port?: undefined };

/** Egress is judged at the source, ingress at the destination. */
export type Direction = "egress" | "ingress";
