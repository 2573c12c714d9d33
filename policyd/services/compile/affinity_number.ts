import { createHash } from "node:crypto";
import type { Scalar } from "../../../kernel/nftables/data_type.ts";
import type { JenkinsHash } from "../../../kernel/nftables/expression.ts";
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
 * Affinity keeps a number in the priority of a connection's first packet while rules look it up, and clears it right
 * after. The two highest bits say that it is ours: traffic classes of others have small major numbers.
 */
export const OURS = 0xc000_0000;
/** Of a Service port's number: which of {@link DURATIONS} it has, counted from one. An endpoint's number has zero. */
export const DURATION_BITS = 0x7f;
const IDENTITY_STEP = DURATION_BITS + 1;
/** How many different ports of Services, or endpoints of one, there are numbers for. */
export const IDENTITIES = 2 ** 23;

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
 * The number of a Service's port. Of two that have the same, one in eight million, clients that use both keep no affinity
 * when they change between them.
 */
export function portNumber(identity: string, seconds: number): number {
  const hash = createHash("sha256").update(identity).digest().readUInt32BE();
  return (OURS | ((hash % IDENTITIES) * IDENTITY_STEP) | durationIndex(seconds)) >>> 0;
}

/** The number of an endpoint among those of its port. */
export function endpointNumber(slot: number): number {
  return (OURS | (slot * IDENTITY_STEP)) >>> 0;
}
