import type { Address } from "../../../kernel/ip/address.ts";
import type { LabNamespace } from "../namespace.ts";
import type { Endpoint } from "./endpoint.ts";
import type { Poller } from "./poller.ts";

export const PROTOCOLS = ["tcp", "udp", "icmp", "sctp"] as const;

export type ProtocolName = (typeof PROTOCOLS)[number];

/** 16 random bytes that only the packets of one attempt carry. */
export type Token = Uint8Array;

export const TOKEN_SIZE = 16;

/** Tells the prober that a packet with this token has arrived at a responder. */
export type Sighting = (token: Token, from: Endpoint) => void;

/** The outcome of an attempt; only the first call counts. */
export interface Verdict {
  /** The token came back. */
  reached(): void;
  /** The token cannot come back any more. */
  failed(why: string): void;
}

/** One protocol's two sides. */
export interface Protocol {
  /**
   * Opens a responder at a local address, which sends tokens back from there and reports their sources.
   *
   * @throws SyscallError when the kernel refuses the socket
   */
  respond(poller: Poller, at: Located, sighting: Sighting): void;
  /** Sends the token and watches for its return. @throws SyscallError when the kernel refuses the socket */
  attempt(poller: Poller, way: Way, token: Token, verdict: Verdict): Attempt;
}

/** A responder's place. */
export interface Located extends Endpoint {
  readonly namespace: LabNamespace;
}

/** The sending namespace and the target address. */
export interface Way {
  readonly from: LabNamespace;
  /** One of the sender's addresses, except for ICMP; by default, the route chooses it. */
  readonly source?: Address;
  /** The target; ICMP ignores the port. */
  readonly to: Endpoint;
  /** Only for TCP: whether no earlier attempt has had its source port, as is always so for UDP and SCTP. */
  readonly hasNewPort?: boolean;
  /** Only for TCP: the number of round trips of the token on the one connection. Default 1. */
  readonly exchanges?: number;
}

export interface Attempt {
  /** Sends again, if the protocol does not do that itself. */
  readonly repeat: () => void;
  readonly close: () => void;
}

/** Returns the text form of a token, as a Map key. */
export function tokenKey(token: Token): string {
  return Buffer.from(token).toString("hex");
}

export function isSameToken(a: Uint8Array, b: Token): boolean {
  return Buffer.compare(a, b) === 0;
}
