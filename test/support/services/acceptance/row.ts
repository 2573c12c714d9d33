import type { NodePlace, Place } from "./places.ts";

export type Transport = "tcp" | "udp" | "sctp";

export const ALL: readonly Transport[] = ["tcp", "udp", "sctp"];

/** A row of the acceptance table: the packets that are sent, and their outcome. */
export interface Row {
  /** The number of the document's case. */
  readonly id: string;
  /** The behaviours that it proves, by their IDs in docs/behaviours.md. */
  readonly behaviours: string;
  readonly says: string;
  readonly probes?: readonly Probe[];
  readonly further?: readonly Further[];
  /** The component that is responsible, where it is not Drawbridge; then nothing is tested. */
  readonly onTop?: string;
}

export type Probe = ReachingProbe | FailingProbe;

interface AnyProbe {
  readonly from: readonly Place[];
  /**
   * A place's address ("n1:30001"), a Service's own ("redis:6379"), its load balancer's ("vote-lb LB:80"), or its
   * external IP ("our-external-local XIP:6379").
   */
  readonly to: string;
  /** The protocols; only TCP when absent. */
  readonly protocols?: readonly Transport[];
  /** The number of connections of each sender by each protocol; 1 when absent. */
  readonly times?: number;
}

export interface ReachingProbe extends AnyProbe {
  /**
   * Each endpoint that connections reach, with the source that it sees: "sender" is the sender itself. All of them are
   * reached.
   */
  readonly reaches: Readonly<Partial<Record<Place, Place | "sender">>>;
  /** Whether connections to other endpoints are ignored, which another row checks. */
  readonly othersIgnored?: boolean;
  /**
   * The Service with session affinity: a client always reaches the same endpoint, by whatever frontend and protocol
   * port.
   */
  readonly sticky?: string;
}

export interface FailingProbe extends AnyProbe {
  readonly fails: Failure;
  /** The endpoints at which nothing may arrive. */
  readonly spares?: readonly Place[];
}

/**
 * How a packet fails: by ICMP port unreachable; in silence, for want of an endpoint on the node or because of its
 * source; "nobody" means that it is not translated and nothing has the address.
 */
export type Failure = "refused" | "no local endpoint" | "source not allowed" | "nobody";

/** Demands of a row beyond the outcome of its packets. */
export type Further =
  /** Neither node has sent out a packet with this destination. */
  | { readonly type: "never sent"; readonly to: string }
  /** In at least one of the row's sticky probes, by some protocol, clients do not all reach the same endpoint. */
  | { readonly type: "clients differ" }
  | { readonly type: "nothing listens"; readonly on: NodePlace; readonly port: number }
  /** The Service's name does not occur in a node's tables, and its endpoint in no map. */
  | { readonly type: "not in the tables"; readonly service: string; readonly endpoint: Place }
  /** No map of a node's tables has the Service's address. */
  | { readonly type: "no translation"; readonly service: string };

export function protocolsOf({ protocols = ["tcp"] }: AnyProbe): readonly Transport[] {
  return protocols;
}
