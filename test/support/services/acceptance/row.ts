import type { NodePlace, Place } from "./places.ts";

export type Transport = "tcp" | "udp" | "sctp";

export const ALL: readonly Transport[] = ["tcp", "udp", "sctp"];

/** A row of the acceptance table: what is sent, and what becomes of it. */
export interface Row {
  /** As the document's cases are numbered. */
  readonly id: string;
  /** The behaviours it proves, as docs/behaviours.md has them. */
  readonly behaviours: string;
  readonly says: string;
  readonly probes?: readonly Probe[];
  readonly further?: readonly Further[];
  /** Whose work this is, where it is not ours: nothing is tested. */
  readonly onTop?: string;
}

export type Probe = ReachingProbe | FailingProbe;

interface AnyProbe {
  readonly from: readonly Place[];
  /** A place's address ("n1:30001"), a Service's own ("redis:6379") or its load balancer's ("vote-lb LB:80"). */
  readonly to: string;
  /** TCP alone when absent. */
  readonly protocols?: readonly Transport[];
  /** Connections of each sender by each protocol; 1 when absent. */
  readonly times?: number;
}

export interface ReachingProbe extends AnyProbe {
  /** Each endpoint that connections go to, with whom it sees: "sender" is who sent. All of them are met. */
  readonly reaches: Readonly<Partial<Record<Place, Place | "sender">>>;
  /** What others have got is another row's. */
  readonly othersIgnored?: boolean;
  /** The Service with session affinity: a client always meets the same endpoint, by whatever frontend and protocol port. */
  readonly sticky?: string;
}

export interface FailingProbe extends AnyProbe {
  readonly fails: Failure;
  /** The endpoints that must not have got anything. */
  readonly spares?: readonly Place[];
}

/**
 * How a packet is turned away: by ICMP port unreachable; in silence, for want of an endpoint on the node or for its
 * source; "nobody" is there and it is not translated.
 */
export type Failure = "refused" | "no local endpoint" | "source not allowed" | "nobody";

/** What a row demands beyond what its packets meet. */
export type Further =
  /** Connection tracking of a node has a flow as sent, and the answers of one of the endpoints to whom. */
  | {
      readonly type: "tracked";
      readonly on: NodePlace;
      readonly protocol?: Transport;
      readonly from: Place;
      readonly to: string;
      readonly answerFrom: readonly string[];
      readonly answerTo: Place;
    }
  /** It has the flow, and the node has changed nothing of it. */
  | { readonly type: "untranslated"; readonly on: NodePlace; readonly from: Place; readonly to: string }
  /** Neither node has let out a packet with this destination. */
  | { readonly type: "never sent"; readonly to: string }
  /** Clients of the row's sticky probes do not all meet the same endpoint. */
  | { readonly type: "clients differ" }
  | { readonly type: "nothing listens"; readonly on: NodePlace; readonly port: number }
  /** The Service's name stands nowhere in a node's tables, and its endpoint in no map. */
  | { readonly type: "not in the tables"; readonly service: string; readonly endpoint: Place }
  /** No map of a node's tables has the Service's address. */
  | { readonly type: "no translation"; readonly service: string }
  | { readonly type: "health"; readonly of: NodePlace; readonly port: number; readonly status: number }
  /** Of a Service that forgets its clients after a second. */
  | { readonly type: "chosen anew"; readonly to: string; readonly from: readonly Place[] }
  /** Of a Service that remembers for two minutes: a second connection has all of them before it. */
  | { readonly type: "window restarts"; readonly to: string; readonly from: readonly Place[] }
  /** When an endpoint goes, its clients go on with the other one, and none fails. */
  | {
      readonly type: "goes on";
      readonly slice: string;
      readonly to: string;
      readonly from: readonly Place[];
      readonly without: Place;
      readonly with: Place;
    };

export function protocolsOf({ protocols = ["tcp"] }: AnyProbe): readonly Transport[] {
  return protocols;
}
