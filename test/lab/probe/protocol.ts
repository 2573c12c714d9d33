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

/** How an attempt ends; only the first call counts. */
export interface Verdict {
  /** The token came back. */
  reached(): void;
  /** It cannot come back any more. */
  failed(why: string): void;
}

/** One protocol's two sides. */
export interface Protocol {
  /**
   * Opens a responder at a local address, which sends tokens back from there and reports where they came from.
   *
   * @throws SyscallError when the kernel refuses the socket
   */
  respond(poller: Poller, at: Located, sighting: Sighting): void;
  /**
   * Sends the token on its way and watches for its return.
   *
   * @throws SyscallError when the kernel refuses the socket
   */
  attempt(poller: Poller, way: Way, token: Token, verdict: Verdict): Attempt;
}

/** A responder's place. */
export interface Located extends Endpoint {
  readonly namespace: LabNamespace;
}

/** From which namespace to which address. */
export interface Way {
  readonly from: LabNamespace;
  /** But for ICMP: one of the sender's addresses; by default the one that the route says. */
  readonly source?: Address;
  /** The port means nothing to ICMP. */
  readonly to: Endpoint;
  /** TCP alone: its source port is one that no attempt has had, as those of UDP and SCTP always are. */
  readonly hasNewPort?: boolean;
  /** TCP alone: how often the token goes there and back on the one connection. Default 1. */
  readonly exchanges?: number;
}

export interface Attempt {
  /** Sends again, where the protocol does not do that itself. */
  readonly repeat: () => void;
  readonly close: () => void;
}

/** The text form of a token, as a Map key. */
export function tokenKey(token: Token): string {
  return Buffer.from(token).toString("hex");
}

export function isSameToken(a: Uint8Array, b: Token): boolean {
  return Buffer.compare(a, b) === 0;
}
