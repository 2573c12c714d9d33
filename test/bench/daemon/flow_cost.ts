import { setTimeout as wait } from "node:timers/promises";
import type { LabNamespace } from "../../lab/namespace.ts";
import { ProbeSocket, SocketType } from "../../lab/probe/socket.ts";
import { namespaceManifest, type Place, podManifest, type PodPlace } from "../../support/policy/lab/place.ts";
import { PolicyLab } from "../../support/policy/lab/policy_lab.ts";
import { compared, measured, type Row } from "../row.ts";
import { median, type Pair } from "../statistics.ts";
import { nanoseconds } from "../process_usage.ts";

const PODS: readonly PodPlace[] = [
  { key: "x/client", node: "node1" },
  { key: "x/server", node: "node1" },
];
const CONNECTIONS_PER_SECOND = 5000;
const PORT = 5000;
/** The kernel forgets a connection after this time, so that the same number end as begin. */
const UDP_SECONDS = 3;
const STEP_MILLISECONDS = 10;
/** The number of ADDs and of changes of a policy in each state, and the time in which connections begin beside them. */
const TIMED = 10;
const TIMED_SECONDS = 6;

/** The number of seconds for which each daemon is watched, and of rounds. */
export interface FlowPlan {
  readonly rounds: number;
  readonly seconds: number;
}

/**
 * Measures the processor time of the ledger of flows while 5,000 connections a second begin and the same number end,
 * and how long ADDs and changes of policies take meanwhile: by daemons with the ledger and without it, in turn.
 */
export async function flowCost(plan: FlowPlan, progress: (step: string) => void): Promise<readonly Row[]> {
  const lab = await PolicyLab.create({
    name: "bench-flows",
    pods: PODS,
    bridgeNetfilter: { node1: true, node2: true },
    hasFlowLedger: true,
  });
  try {
    const { node } = lab.wired("node1");
    for (const key of ["udp_timeout", "udp_timeout_stream"]) {
      node.writeSysctl(`net/netfilter/nf_conntrack_${key}`, String(UDP_SECONDS));
    }
    const shares: Record<State, number[]> = { on: [], off: [] };
    const adds: Record<State, number[]> = { on: [], off: [] };
    const changes: Record<State, number[]> = { on: [], off: [] };
    for (let round = 0; round < plan.rounds; round++) {
      for (const state of ["off", "on"] as const) {
        progress(`round ${round + 1} of ${plan.rounds}, ledger ${state}`);
        await lab.restart("node1", () => {}, { flowLedger: state === "on", logLevel: "error" });
        await lab.apply(world(lab));
        shares[state].push(await shareOf(lab, plan.seconds));
        const load = begin(lab.place("x/client").namespace, lab.place("x/server"), TIMED_SECONDS);
        adds[state].push(median(await timedAdds(lab)));
        changes[state].push(median(await timedChanges(lab)));
        await load;
      }
    }
    const differences = shares.on.map((share, round) => share - (shares.off[round] ?? 0));
    const title = `${CONNECTIONS_PER_SECOND} connections a second begin and end`;
    return [
      measured(`${title}: ledger of flows, of one processor`, "%", differences, 10),
      measured("the same without a ledger", "%", shares.off),
      compared("an ADD meanwhile", "ms", "without a ledger", pairsOf(adds)),
      compared("a policy until it is in force, meanwhile", "ms", "without a ledger", pairsOf(changes)),
    ];
  } finally {
    await lab.close();
  }
}

type State = "on" | "off";

function pairsOf({ on, off }: Readonly<Record<State, readonly number[]>>): readonly Pair[] {
  return on.map((ours, round) => ({ ours, peer: off[round] ?? 0 }));
}

function world(lab: PolicyLab, ...policies: readonly object[]): readonly object[] {
  const pods = PODS.map(({ key, node }) => podManifest(lab.place(key), node));
  return [...lab.nodeManifests(), namespaceManifest("x", {}), ...pods, ...policies];
}

/** Returns the milliseconds of each of some ADDs. */
async function timedAdds(lab: PolicyLab): Promise<readonly number[]> {
  const times: number[] = [];
  for (let number = 0; number < TIMED; number++) {
    const start = performance.now();
    await lab.wire({ key: "x/added", node: "node1" });
    times.push(performance.now() - start);
    await lab.unwire("x/added", "node1");
  }
  return times;
}

/** Returns the milliseconds from each of some policies until it is observed in force. */
async function timedChanges(lab: PolicyLab): Promise<readonly number[]> {
  const times: number[] = [];
  for (let number = 0; number < TIMED; number++) {
    const port = 1000 + number;
    const start = performance.now();
    await lab.apply(
      world(lab, {
        apiVersion: "networking.k8s.io/v1",
        kind: "NetworkPolicy",
        metadata: { name: "changed", namespace: "x" },
        spec: { podSelector: {}, ingress: [{}, { ports: [{ port }] }] },
      }),
    );
    times.push(performance.now() - start);
  }
  return times;
}

/** Returns the percentage of one processor, once connections end as fast as they begin. */
async function shareOf(lab: PolicyLab, seconds: number): Promise<number> {
  const [client, server] = PODS.map(({ key }) => lab.place(key));
  if (client === undefined || server === undefined) throw new RangeError("the lab has two pods");
  const { child } = lab.daemon("node1").process;
  await begin(client.namespace, server, UDP_SECONDS + 2);
  const [start, before] = [performance.now(), nanoseconds(child.pid)];
  await begin(client.namespace, server, seconds);
  return (100 * (nanoseconds(child.pid) - before)) / 1e6 / (performance.now() - start);
}

/** Begins connections at an even pace, each from a socket of its own. */
async function begin(from: LabNamespace, to: Place, seconds: number): Promise<void> {
  const start = performance.now();
  let begun = 0;
  while (performance.now() < start + seconds * 1000) {
    const wanted = ((performance.now() - start) * CONNECTIONS_PER_SECOND) / 1000;
    for (; begun < wanted; begun++) {
      const socket = ProbeSocket.open(from, 4, SocketType.DATAGRAM);
      socket.connect({ address: to.addresses[4], port: PORT });
      socket.send(new Uint8Array(16));
      socket.close();
    }
    await wait(STEP_MILLISECONDS);
  }
}
