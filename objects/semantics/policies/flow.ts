import type { Address, Family } from "../../../kernel/ip/address.ts";
import type { Protocol } from "../../model.ts";

/**
 * A connection as policies see it: the destination is the endpoint of a Service (POL-27, POL-34), and the source is the
 * one before a node masquerades it.
 */
export type Flow = FlowEnds & Traffic;

export interface FlowEnds {
  readonly source: FlowEnd;
  readonly destination: FlowEnd;
  /** The family, if the ends have several; by default the destination's first one that the source also has. */
  readonly family?: Family | undefined;
  /** Whether it was sent to a Service's address: ClusterNetworkPolicies then apply even from a pod to itself. */
  readonly isThroughService?: boolean | undefined;
}

/** A sender or receiver. A host-network pod stands for its node, an address for the pod or node that has it. */
export type FlowEnd =
  /** `namespace/name` */
  | { readonly type: "pod"; readonly key: string }
  | { readonly type: "node"; readonly name: string }
  /** `asked`: the domain name for which DNS gave the address, to the sender. */
  | { readonly type: "address"; readonly address: Address; readonly asked?: string };

export type Traffic =
  /** The destination's port, as its pod sees it. */
  | { readonly protocol: Protocol; readonly port: number }
  /** ICMP: a request such as an echo and its answer. ICMP error: an error that belongs to another flow. */
  | { readonly protocol: "ICMP" | "ICMP error"; readonly port?: undefined };

/** The policies of the source decide on egress, those of the destination on ingress. */
export type Direction = "egress" | "ingress";

/** Both directions, in the order in which people read them. */
export const DIRECTIONS = ["ingress", "egress"] as const satisfies readonly Direction[];
