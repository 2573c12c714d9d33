import { hash } from "node:crypto";
import type { Scalar } from "../../../kernel/nftables/model/data_type.ts";
import type { JenkinsHash } from "../../../kernel/nftables/model/expression.ts";
import type { ServicePort } from "../../../objects/model.ts";
import { MOST_TIMEOUTS } from "../../../objects/timeout_choice.ts";
import { jenkinsHash, scaled } from "./jenkins_hash.ts";
import { type SocketAddress, socketBytes } from "../elements/socket_address.ts";

/**
 * The bits that mark a packet's priority as ours: other programs' traffic classes have small major numbers. Services
 * keep a number in the priority of a connection's first packet until its endpoint is counted and remembered, and then
 * clear it.
 */
export const OURS = 0xc000_0000;
/** The bits of a port's number for its timeout, all of which {@link MOST_TIMEOUTS} has; zero if clients do not stay. */
export const DURATION_BITS = MOST_TIMEOUTS;
const IDENTITY_STEP = DURATION_BITS + 1;
/** The number of identities for ports of Services, or for endpoints of one port: the bits in between. */
export const IDENTITIES = 0x4000_0000 / IDENTITY_STEP;

const REMEMBERED = { seed: 0x0db1, modulus: 0xffff_ffff } as const;

/** Returns the hash by which rules represent the address and port a client was sent to. */
export function rememberedHash(address: "ip daddr" | "ip6 daddr"): JenkinsHash {
  return { kind: "jhash", of: [address, "th dport"], ...REMEMBERED };
}

/** Returns the number in a client's entry: the hash of the address and port it was sent to. */
export function rememberedNumber(socket: SocketAddress): Scalar {
  const number = scaled(jenkinsHash(socketBytes(socket), REMEMBERED.seed), REMEMBERED.modulus);
  // nft lists this value by its name.
  return number === 0 ? "none" : number;
}

/**
 * Returns the number that represents a Service's port, below {@link IDENTITIES}. If two ports have the same number (one
 * pair in eight million), clients that use both lose their affinity when they switch between them, and connections to
 * an endpoint of both are counted together. A user who creates Services can search for such a pair (docs/threat_model.md).
 */
export function portIdentity(service: string, { name, protocol }: Pick<ServicePort, "name" | "protocol">): number {
  return parseInt(hash("sha256", `${service} ${name} ${protocol}`).slice(0, 8), 16) % IDENTITIES;
}

/** Returns the number of a port. @param timeout the number of its clients' timeout; 0 without affinity */
export function portNumber(identity: number, timeout: number): number {
  return (numberOf(identity) | timeout) >>> 0;
}

/** Returns the number of an endpoint among those of its port; the same slot of another port has a different number. */
export function endpointNumber(identity: number, slot: number): number {
  return numberOf(identity ^ slot);
}

/** Returns the identity in a number of either kind, without the timeout. */
export function identityOf(number: number): number {
  return Math.floor((number & ~OURS) / IDENTITY_STEP);
}

function numberOf(identity: number): number {
  return OURS + identity * IDENTITY_STEP;
}
