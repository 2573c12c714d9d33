import type { TokenBucket } from "../../kernel/traffic_control/queueing_discipline.ts";
import { invalidField } from "../error.ts";
import type { NetworkInput } from "./network_input.ts";

/** A rate as the runtime asks for it. */
export interface Limit {
  /** Bits per second. */
  readonly rate: number;
  /** Bits. Container runtimes send 2^32 and more; {@link tokenBucket} reduces that. */
  readonly burst: number;
}

/** The limits of one attachment, by direction as the pod sees it; undefined means no limit. */
export interface Limits {
  /** For what the pod receives. */
  readonly ingress: Limit | undefined;
  /** For what the pod sends. */
  readonly egress: Limit | undefined;
}

/** The range of rates that Kubernetes accepts: 1k to 1P bits per second (its pkg/util/bandwidth). */
const SLOWEST = 1000;
const FASTEST = 1e15;
/** The limit of uint64, as in go-cni and ocicni. Numbers here are less precise, but bursts are reduced anyway. */
const LARGEST_BURST = 2 ** 64;

/**
 * Validates the `bandwidth` capability as the reference plugin does: rate and burst of a direction, both in bits, are
 * given together, and 0 means no limit.
 *
 * @returns undefined when neither direction is limited
 * @throws CniError 7 naming the field
 */
export function limitsOf(runtimeConfig: NetworkInput["runtimeConfig"]): Limits | undefined {
  const bandwidth = runtimeConfig?.bandwidth;
  if (bandwidth === undefined) return undefined;
  const ingress = limitOf("ingress", bandwidth.ingressRate ?? 0, bandwidth.ingressBurst ?? 0);
  const egress = limitOf("egress", bandwidth.egressRate ?? 0, bandwidth.egressBurst ?? 0);
  return ingress === undefined && egress === undefined ? undefined : { ingress, egress };
}

function limitOf(direction: "ingress" | "egress", rate: number, burst: number): Limit | undefined {
  const [rateField, burstField] = [
    `runtimeConfig.bandwidth.${direction}Rate`,
    `runtimeConfig.bandwidth.${direction}Burst`,
  ];
  if (!Number.isInteger(rate) || (rate !== 0 && (rate < SLOWEST || rate > FASTEST))) {
    throw invalidField(rateField, rate, `0 (no limit) or an integer of ${SLOWEST} to ${FASTEST} bits per second`);
  }
  if (!Number.isInteger(burst) || burst < 0 || burst > LARGEST_BURST) {
    throw invalidField(burstField, burst, "an integer of 0 to 2^64 bits");
  }
  if (rate !== 0 && burst === 0) {
    throw invalidField(burstField, burst, `1 bit at least with ${direction}Rate ${rate}: set both or neither`);
  }
  if (rate === 0 && burst !== 0) {
    throw invalidField(rateField, rate, `a rate with ${direction}Burst ${burst}: set both or neither`);
  }
  return rate === 0 ? undefined : { rate, burst };
}

const LONGEST_BURST_SECONDS = 0.1;
const QUEUE_SECONDS = 0.05;
const LARGEST_U32 = 0xffff_ffff;
/** The bytes of an Ethernet header and two VLAN tags, which count as part of the frame. */
const FRAME_OVERHEAD = 22;
/** The largest segmented packet that a sender hands down unsegmented (GSO_LEGACY_MAX_SIZE). */
const LARGEST_SEGMENTED = 65536 + FRAME_OVERHEAD;
/** With fewer, TCP has too little in flight to notice a loss other than by a timeout. */
const FEWEST_WAITING_FRAMES = 4;

/**
 * Returns the token bucket of a limit.
 *
 * The burst is the requested one, but at most 100 ms of the rate: a larger one, such as containerd's 4 Gbit, would let
 * most connections pass unlimited. It is at least one frame of the link, since the kernel drops larger packets; below
 * about 120 kbit/s with an MTU of 1500, one frame exceeds 100 ms. The kernel segments GSO packets that are larger than
 * the burst.
 *
 * The queue holds 50 ms of the rate, which bounds the delay, but at least the largest packet that is not segmented and
 * at least four frames.
 *
 * @param mtu bytes, of the link
 */
export function tokenBucket(limit: Limit, mtu: number): TokenBucket {
  // Rounded down, so that the limit is never exceeded.
  const rate = Math.floor(limit.rate / 8);
  const frame = mtu + FRAME_OVERHEAD;
  const longest = Math.floor(Math.min(rate * LONGEST_BURST_SECONDS, LARGEST_U32));
  const burst = Math.max(Math.min(Math.floor(limit.burst / 8), longest), frame);
  const queue = Math.max(rate * QUEUE_SECONDS, Math.min(burst, LARGEST_SEGMENTED), FEWEST_WAITING_FRAMES * frame);
  return { rate, burst, limit: Math.floor(Math.min(queue, LARGEST_U32)) };
}
