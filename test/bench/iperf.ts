import { spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import path from "node:path";
import process from "node:process";
import type { LabPod } from "../lab/lab.ts";
import { type Program, startProgram, waitFor } from "../lab/posix_spawn.ts";
import { demandSuccess, member, parseJson } from "./contestant.ts";
import { sleep } from "./sleep.ts";

const IPERF = "/usr/bin/iperf3";
const BYTES = "64M";
const PACKETS = 20_000;

/** The message for machines where {@link isIperfThere} is false. */
export const IPERF_ADVICE = `throughput is not measured: ${IPERF} is missing (Debian package iperf3)\n`;

export function isIperfThere(): boolean {
  return spawnSync(IPERF, ["--version"]).status === 0;
}

/** A pod that receives, and its IPv4 address. */
export interface Receiver {
  readonly pod: LabPod;
  readonly address: string;
}

/** A measurement of some time, from one pod to another. */
export interface Stretch {
  /** The directory for iperf3's output. */
  readonly directory: string;
  readonly sender: LabPod;
  readonly receiver: Receiver;
}

/**
 * The loads between two pods: 64 MiB by one TCP connection, which takes 50 ms, and 20,000 UDP packets with 64 bytes of
 * payload as fast as the sender can, 130 ms. Stretches differ more from each other than the loads do. Therefore many
 * short stretches say more than a few long ones.
 */
export const LOADS: readonly {
  readonly name: string;
  readonly unit: "Gbit/s" | "kpackets/s";
  /** The number of pairs of stretches that replace one pair. */
  readonly stretches: number;
  readonly measure: (stretch: Stretch) => number;
}[] = [
  {
    name: "TCP",
    unit: "Gbit/s",
    stretches: 16,
    measure: (stretch) => {
      const sum = member(member(runIperf(stretch, ["-n", BYTES]), "end"), "sum_received");
      return numberOf(sum, "bits_per_second") / 1e9;
    },
  },
  {
    name: "UDP of 64 bytes",
    unit: "kpackets/s",
    stretches: 12,
    measure: (stretch) => {
      const sum = member(member(runIperf(stretch, ["-u", "-b", "0", "-l", "64", "-k", String(PACKETS)]), "end"), "sum");
      const received = numberOf(sum, "packets") - numberOf(sum, "lost_packets");
      return received / numberOf(sum, "seconds") / 1000;
    },
  },
];

/** Runs iperf3 and returns its report as JSON. */
function runIperf({ directory, sender, receiver }: Stretch, options: readonly string[]): unknown {
  const server = startProgram(receiver.pod, iperf(directory, receiver.pod, ["-s", "-1", "-4"]));
  try {
    waitUntilListening(receiver.pod);
    const client = iperf(directory, sender, ["-c", receiver.address, "-J", ...options]);
    demandSuccess(client, waitFor(startProgram(sender, client)).exitCode);
    return parseJson(readFileSync(client.stdout, "utf8"));
  } finally {
    process.kill(server, "SIGKILL");
    waitFor(server);
  }
}

function iperf(directory: string, pod: LabPod, args: readonly string[]): Program {
  const file = (suffix: string): string => path.join(directory, `iperf-${pod.name}.${suffix}`);
  return {
    file: IPERF,
    args,
    environment: {},
    stdin: "/dev/null",
    stdout: file("stdout"),
    stderr: file("stderr"),
  };
}

/** Matches iperf3's port, 5201, on any address, in the state TCP_LISTEN, as in /proc/net/tcp. */
const LISTENING = / 00000000:1451 00000000:0000 0A /;
const START_MILLISECONDS = 2000;

function waitUntilListening(pod: LabPod): void {
  const deadline = performance.now() + START_MILLISECONDS;
  while (!LISTENING.test(pod.inside(() => readFileSync("/proc/thread-self/net/tcp", "latin1")))) {
    if (performance.now() > deadline) throw new Error(`iperf3 does not listen after ${START_MILLISECONDS} ms`);
    sleep(1);
  }
}

function numberOf(value: unknown, key: string): number {
  const number = member(value, key);
  if (typeof number !== "number") throw new Error(`iperf3 reports no ${key}`);
  return number;
}
