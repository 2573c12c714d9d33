import { createHash } from "node:crypto";
import type { Scalar } from "../../../kernel/nftables/data_type.ts";
import type { JenkinsHash } from "../../../kernel/nftables/expression.ts";
import type { ServicePort } from "../../cluster/model.ts";
import { MOST_TIMEOUTS } from "../affinity/kept_timeouts.ts";
import { jenkinsHash, scaled } from "./jenkins_hash.ts";
import type { SocketAddress } from "./socket_address.ts";
import { socketBytes } from "./socket_address.ts";

/**
 * Services keep a number in the priority of a connection's first packet from where its endpoint is chosen to where that is
 * counted and remembered, and clear it there. The two highest bits say that it is ours: traffic classes of others have
 * small major numbers.
 */
export const OURS = 0xc000_0000;
/**
 * Of a Service port's number: the number of the timeout after which its clients may go to another endpoint; zero where clients
 * do not stay. {@link MOST_TIMEOUTS} has all these bits.
 */
export const DURATION_BITS = MOST_TIMEOUTS;
const IDENTITY_STEP = DURATION_BITS + 1;
/** How many different ports of Services, or endpoints of one, there are numbers for: the bits between. */
export const IDENTITIES = 0x4000_0000 / IDENTITY_STEP;

const REMEMBERED = { seed: 0x0db1, modulus: 0xffff_ffff } as const;

/** How rules hash the address and the port a client was sent to. */
export function rememberedHash(address: "ip daddr" | "ip6 daddr"): JenkinsHash {
  return { kind: "jhash", of: [address, "th dport"], ...REMEMBERED };
}

/** What a client's entry holds: the hash of where it was sent. */
export function rememberedNumber(socket: SocketAddress): Scalar {
  const number = scaled(jenkinsHash(socketBytes(socket), REMEMBERED.seed), REMEMBERED.modulus);
  // The kernel's listing has a name for this one.
  return number === 0 ? "none" : number;
}

/**
 * What stands for a Service's port, below {@link IDENTITIES}. Of two that have the same, one in eight million, clients that
 * use both keep no affinity when they change between them, and connections to an endpoint of both are counted for one.
 */
export function portIdentity(service: string, { name, protocol }: Pick<ServicePort, "name" | "protocol">): number {
  return createHash("sha256").update(`${service} ${name} ${protocol}`).digest().readUInt32BE() % IDENTITIES;
}

/** The number of a port. @param timeout the number of the timeout after which its clients may go to another endpoint; 0 without */
export function portNumber(identity: number, timeout: number): number {
  return (numberOf(identity) | timeout) >>> 0;
}

/** The number of an endpoint among those of its port; at the same slot of another port it is another one. */
export function endpointNumber(identity: number, slot: number): number {
  return numberOf(identity ^ slot);
}

/** What a number of either kind stands for, without its duration. */
export function identityOf(number: number): number {
  return Math.floor((number & ~OURS) / IDENTITY_STEP);
}

function numberOf(identity: number): number {
  return OURS + identity * IDENTITY_STEP;
}
