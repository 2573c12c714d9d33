import { spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import path from "node:path";
import process from "node:process";
import type { Lab, LabPod } from "../../lab/lab.ts";
import { createLab } from "../../lab/lab.ts";
import type { Program } from "../../lab/posix_spawn.ts";
import { startProgram, waitFor } from "../../lab/posix_spawn.ts";
import { twoNodes } from "../../lab/topology.ts";
import type { Contestant } from "../contestant.ts";
import { addressOfNewPod, demandSuccess, member, parseJson, wiredSide } from "../contestant.ts";
import type { Measured } from "../row.ts";
import { interleave } from "../row.ts";
import { sleep } from "../sleep.ts";
import type { Context, Scenario } from "./context.ts";

const IPERF = "/usr/bin/iperf3";
const SECONDS = 1;
const GOAL = { kind: "at least", ratio: 0.95 } as const;

/**
 * What a pod can send to another: one TCP connection, and UDP with 64 bytes of payload as fast as the sender can.
 *
 * Each contestant has two nodes and a router of its own, with nothing else on them; they take turns. Sender, receiver
 * and the kernel between them share the machine's processors.
 */
export const throughput: Scenario = {
  name: "throughput",
  run(context: Context): readonly Measured[] {
    if (spawnSync(IPERF, ["--version"]).status !== 0) {
      context.progress(`throughput is not measured: ${IPERF} is missing (Debian package iperf3)\n`);
      return [];
    }
    using ourLab = createLab("bench-ours");
    using peerLab = createLab("bench-peer");
    const ours = wirePods(ourLab, context.runDirectory, context.ours);
    const peer = wirePods(peerLab, context.runDirectory, context.peer);
    return ROUTES.flatMap((route) =>
      LOADS.map(({ name, unit, measure }): Measured => {
        const title = `${name}, ${route.title}`;
        const pairs = interleave(
          context.pairs,
          () => measure(ours, ours[route.receiver]),
          () => measure(peer, peer[route.receiver]),
          (done) => context.progress(`${title} ${done}/${context.pairs}`),
        );
        return { title, unit, pairs, goal: GOAL };
      }),
    );
  },
};

interface Receiver {
  readonly pod: LabPod;
  readonly address: string;
}

interface Pods {
  /** For iperf3's output. */
  readonly directory: string;
  readonly sender: LabPod;
  readonly neighbour: Receiver;
  readonly remote: Receiver;
}

const ROUTES = [
  { title: "same node", receiver: "neighbour" },
  { title: "across nodes", receiver: "remote" },
] as const;

const LOADS: readonly {
  readonly name: string;
  readonly unit: "Gbit/s" | "kpackets/s";
  readonly measure: (pods: Pods, receiver: Receiver) => number;
}[] = [
  {
    name: "TCP",
    unit: "Gbit/s",
    measure: (pods, receiver) => {
      const sum = member(member(runIperf(pods, receiver, []), "end"), "sum_received");
      return numberOf(sum, "bits_per_second") / 1e9;
    },
  },
  {
    name: "UDP of 64 bytes",
    unit: "kpackets/s",
    measure: (pods, receiver) => {
      const sum = member(member(runIperf(pods, receiver, ["-u", "-b", "0", "-l", "64"]), "end"), "sum");
      const received = numberOf(sum, "packets") - numberOf(sum, "lost_packets");
      return received / numberOf(sum, "seconds") / 1000;
    },
  },
];

function wirePods(lab: Lab, runDirectory: string, contestant: Contestant): Pods {
  const { node1, node2 } = twoNodes(lab);
  const side1 = wiredSide(node1, runDirectory, contestant);
  const side2 = wiredSide(node2, runDirectory, contestant);
  const [sender, neighbour, remote] = [lab.pod("sender"), lab.pod("neighbour"), lab.pod("remote")];
  addressOfNewPod(side1, sender);
  return {
    directory: lab.scratch,
    sender,
    neighbour: { pod: neighbour, address: addressOfNewPod(side1, neighbour) },
    remote: { pod: remote, address: addressOfNewPod(side2, remote) },
  };
}

/** What iperf3 reports of one run, as JSON. */
function runIperf({ directory, sender }: Pods, receiver: Receiver, options: readonly string[]): unknown {
  const server = startProgram(receiver.pod, iperf(directory, receiver.pod, ["-s", "-1", "-4"]));
  try {
    waitUntilListening(receiver.pod);
    const client = iperf(directory, sender, ["-c", receiver.address, "-t", String(SECONDS), "-J", ...options]);
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

/** iperf3's port, 5201, on any address, in the state TCP_LISTEN, as /proc/net/tcp has it. */
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
