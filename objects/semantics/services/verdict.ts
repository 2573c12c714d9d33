import type { Address } from "../../../kernel/ip/address.ts";
import type { Protocol } from "../../model.ts";
import type { Refusal } from "../../socket_refusal.ts";
import type { SocketAddress } from "./packet.ts";

/** The outcome for a packet, with the reasons as data; `reason_text.ts` has the words. */
export type Verdict = Pass | Drop | Reject | Translate;

/** The packet is not for a Service and continues unchanged. */
export interface Pass {
  readonly kind: "pass";
  /** The Services that nearly have it; empty if none does. */
  readonly nearMisses: readonly NearMiss[];
}

export type NearMiss =
  | { readonly type: "service not proxied"; readonly service: string; readonly because: NotProxied }
  | { readonly type: "external IPs refused"; readonly service: string }
  | { readonly type: "refused"; readonly service: string; readonly refusal: Refusal }
  | { readonly type: "load balancer sends to nodes itself"; readonly service: string }
  | { readonly type: "node port not served here"; readonly service: string; readonly because: NotServed };

/** Why a Service has no frontend in the packet's family. */
export type NotProxied = "ExternalName" | "headless" | "headless label" | "another proxy" | "no cluster IP";

/** Why an address does not serve NodePorts. */
export type NotServed = "not an address of this node" | "loopback" | "not in nodePortAddresses";

/** The packet is discarded silently. */
export interface Drop {
  readonly kind: "drop";
  readonly reason:
    | { readonly type: "loopback address from elsewhere" }
    | { readonly type: "source not of a local pod" }
    | { readonly type: "source range"; readonly service: string }
    /** There are endpoints, but none on this node although the policy requires one. */
    | { readonly type: "no local endpoint"; readonly policy: "internal" | "external" };
  /** Absent if the packet was dropped before a frontend was looked up. */
  readonly frontend?: Frontend;
  readonly endpoints?: EndpointReport;
}

/** The packet is answered with an error. */
export interface Reject {
  readonly kind: "reject";
  readonly reason:
    | { readonly type: "no endpoints" }
    /** A cluster IP at a port its Service does not have. */
    | { readonly type: "no such port"; readonly service: string };
  readonly reply: "port unreachable" | "tcp reset";
  readonly frontend?: Frontend;
  readonly endpoints?: EndpointReport;
}

/** The packet goes to one of the candidates, each with the same probability. */
export interface Translate {
  readonly kind: "translate";
  readonly frontend: Frontend;
  readonly sourceRanges: "none" | "within";
  readonly route: Route;
  readonly affinity: Affinity;
  readonly candidates: readonly [Candidate, ...Candidate[]];
  readonly endpoints: EndpointReport;
}

/** The address of a Service that a packet is sent to. */
export interface Frontend {
  readonly type: "ClusterIP" | "externalIP" | "LoadBalancer" | "NodePort";
  /** `namespace/name` */
  readonly service: string;
  readonly portName: string;
  readonly protocol: Protocol;
  readonly address: Address;
  readonly port: number;
}

/** Which endpoints a packet may go to, and why. */
export type Route =
  | { readonly endpoints: "all"; readonly because: "internal policy" | "external policy" | "local pod" | "node" }
  | { readonly endpoints: "local"; readonly because: "internal policy" | "external policy" };

export type Affinity =
  | { readonly type: "none" }
  /** How long the client stays with its endpoint. */
  | { readonly type: "client"; readonly timeoutSeconds: number };

/** An endpoint a packet may go to, with the changes to the packet on the way. */
export interface Candidate {
  /** The packet's destination after its translation. */
  readonly destination: SocketAddress;
  readonly because: readonly TakenReason[];
  readonly masquerade: Masquerade;
  /** The endpoint's address is a cluster IP: the packet is refused after its translation (SVC-24). */
  readonly isRejected: boolean;
}

export type TakenReason =
  | { readonly type: "ready" | "serving while terminating" | "on this node" | "client's endpoint" }
  | { readonly type: "node hint"; readonly node: string }
  | { readonly type: "zone hint"; readonly zone: string };

/** Whether the packet gets an address of this node as its source. */
export type Masquerade =
  | { readonly masqueraded: true; readonly because: "hairpin" | "external policy" | "source is not a pod" | "node" }
  | {
      readonly masqueraded: false;
      readonly because:
        | "source is a pod"
        | "address of the pods"
        | "external policy"
        | "local pod"
        | "pod to pod"
        | "stays here";
    };

/** How the Service's slices were used. */
export interface EndpointReport {
  readonly hints: HintUse;
  readonly omitted: readonly Omitted[];
  readonly ignoredSlices: readonly IgnoredSlice[];
}

/** Whether hints narrow the endpoints of the whole cluster. */
export type HintUse =
  | { readonly type: "node"; readonly node: string }
  | { readonly type: "zone"; readonly zone: string }
  | { readonly type: "unused" };

export interface Omitted {
  readonly endpoint: SocketAddress;
  /** `namespace/name` */
  readonly slice: string;
  readonly because: OmittedReason;
}

export type OmittedReason =
  | "same endpoint in another slice"
  | "loopback address"
  | "link-local address"
  | "multicast address"
  | "unspecified address"
  | "broadcast address"
  | "not ready"
  | "terminating, and others are ready"
  | "not on this node"
  | "hinted for other nodes"
  | "hinted for other zones"
  | "client has another endpoint";

export interface IgnoredSlice {
  /** `namespace/name` */
  readonly slice: string;
  readonly because: "another proxy" | "headless label" | "names, not addresses" | "other family" | "no such port";
}
