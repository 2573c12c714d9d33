import { createHash } from "node:crypto";
import type { Scalar } from "../../../kernel/nftables/data_type.ts";
import type { JenkinsHash } from "../../../kernel/nftables/expression.ts";
import type { ServicePort } from "../../cluster/model.ts";
import { jenkinsHash, scaled } from "./jenkins_hash.ts";
import type { SocketAddress } from "./socket_address.ts";
import { socketBytes } from "./socket_address.ts";

/**
 * The seconds a client can stay with its endpoint: rules have their timeouts written in them, so there is one for each of
 * these. All up to ten, the common ones, and others between in steps of at most a quarter.
 */
export const DURATIONS: readonly number[] = [
  1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 14, 15, 16, 18, 20, 24, 25, 28, 30, 35, 40, 45, 50, 60, 70, 80, 90, 105, 120, 140,
  150, 180, 210, 240, 270, 300, 360, 420, 480, 540, 600, 720, 840, 900, 1080, 1200, 1440, 1500, 1800, 2100, 2400, 2700,
  3000, 3600, 4320, 5400, 6480, 7200, 8640, 9000, 10_800, 12_600, 14_400, 16_200, 18_000, 21_600, 25_200, 28_800,
  32_400, 36_000, 43_200, 50_400, 57_600, 64_800, 72_000, 86_400,
];

/**
 * Services keep a number in the priority of a connection's first packet from where its endpoint is chosen to where that is
 * counted and remembered, and clear it there. The two highest bits say that it is ours: traffic classes of others have
 * small major numbers.
 */
export const OURS = 0xc000_0000;
/** Of a Service port's number: which of {@link DURATIONS} it has, counted from one; zero where clients do not stay. */
export const DURATION_BITS = 0x7f;
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

/** The duration nearest above. */
export function durationIndex(seconds: number): number {
  const index = DURATIONS.findIndex((duration) => duration >= seconds);
  return index < 0 ? DURATIONS.length : index + 1;
}

/**
 * What stands for a Service's port, below {@link IDENTITIES}. Of two that have the same, one in eight million, clients that
 * use both keep no affinity when they change between them, and connections to an endpoint of both are counted for one.
 */
export function portIdentity(service: string, { name, protocol }: Pick<ServicePort, "name" | "protocol">): number {
  return createHash("sha256").update(`${service} ${name} ${protocol}`).digest().readUInt32BE() % IDENTITIES;
}

/** The number of a port. @param seconds a client stays with its endpoint; undefined where it does not */
export function portNumber(identity: number, seconds: number | undefined): number {
  return (numberOf(identity) | (seconds === undefined ? 0 : durationIndex(seconds))) >>> 0;
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
