import { monitorEventLoopDelay } from "node:perf_hooks";
import process from "node:process";
import { setTimeout as wait } from "node:timers/promises";
import { FAMILIES } from "../../../kernel/ip/address.ts";
import type { ClusterObject } from "../../../objects/model.ts";
import { createLab, type Lab } from "../../lab/lab.ts";
import { ProbeSocket, SocketType } from "../../lab/probe/socket.ts";
import { type TwoNodes, twoNodes } from "../../lab/topology.ts";
import { ALL, cutsWorld, NOTHING } from "../../support/policy/cuts/cuts_world.ts";
import { PolicedNode, type PolicedPod } from "../../support/policy/cuts/policed_node.ts";
import { readScenario } from "../../support/services/scenario.ts";
import { CONNECTIONS, type CutsMeasurement, OF_CLIENT } from "./cuts.ts";

const FIRST_PORT = 20_000;
const PATIENCE_MILLISECONDS = 30_000;

/** A time longer than a second pass takes to come. */
const QUIET_MILLISECONDS = 600;

/** Measures cuts of live connections: from the object until none that the change denies passes any more. */
async function measure(lab: Lab, rounds: number): Promise<CutsMeasurement> {
  const nodes = twoNodes(lab);
  using node = new PolicedNode(lab, nodes.node1);
  const pods = { client: node.pod("client"), bystander: node.pod("bystander"), server: node.pod("server") };
  nodes.node1.node.writeSysctl("net/netfilter/nf_conntrack_udp_timeout", "3600");
  const text = (client: readonly object[], bystander: readonly object[]): string =>
    cutsWorld(pods, [nodes.node1], { egress: client, ingress: ALL }) + bystanderPolicy(bystander);
  const [open, halfOpen, closed] = [text(ALL, ALL), text(NOTHING, ALL), text(NOTHING, NOTHING)];
  const worlds = { open: readScenario(open), halfOpen: readScenario(halfOpen), closed: readScenario(closed) };
  // The daemon's timers do not keep the process alive.
  const alive = setInterval(() => {}, 1000);
  const turns = monitorEventLoopDelay({ resolution: 1 });
  turns.enable();
  await node.start(open, {});
  beginFlows(nodes, pods.client, OF_CLIENT);
  beginFlows(nodes, pods.bystander, CONNECTIONS - OF_CLIENT);
  const some: number[] = [];
  const all: number[] = [];
  const back: number[] = [];
  await untilQuiet(node);
  turns.reset();
  for (let round = 0; round < rounds; round++) {
    some.push(await timed(node, worlds.halfOpen, "cut", OF_CLIENT));
    await timed(node, worlds.open, "restored", OF_CLIENT);
    all.push(await timed(node, worlds.closed, "cut", CONNECTIONS));
    back.push(await timed(node, worlds.open, "restored", CONNECTIONS));
  }
  turns.disable();
  clearInterval(alive);
  return { some, all, back, longestTurn: turns.max / 1e6 };
}

/** Begins half of the flows in each family, of one datagram each. */
function beginFlows(nodes: TwoNodes, pod: PolicedPod, count: number): void {
  for (const [index, family] of FAMILIES.entries()) {
    const socket = ProbeSocket.open(pod.namespace, family, SocketType.DATAGRAM);
    const address = nodes.node1.routerAddresses[index] ?? nodes.node1.routerAddresses[0];
    for (let port = FIRST_PORT; port < FIRST_PORT + count / 2; port++)
      socket.sendTo(Uint8Array.of(1), { address, port });
    socket.close();
  }
}

/**
 * Returns the milliseconds from a change until this number of further connections is cut or restored; then lets
 * everything settle.
 */
async function timed(
  node: PolicedNode,
  world: readonly ClusterObject[],
  what: "cut" | "restored",
  count: number,
): Promise<number> {
  const wanted = node.cuts.status()[what] + count;
  const start = performance.now();
  node.tell(world);
  while (node.cuts.status()[what] < wanted) {
    if (performance.now() - start > PATIENCE_MILLISECONDS) {
      throw new Error(`${node.cuts.status()[what] - wanted + count} of ${count} connections ${what}`);
    }
    // Without a pause the polling would be the thread's main work, and fill V8's memory.
    await wait(1);
  }
  const milliseconds = performance.now() - start;
  await untilQuiet(node);
  return milliseconds;
}

/** Waits for the second passes. */
async function untilQuiet(node: PolicedNode): Promise<void> {
  for (let before = -1; before !== node.cuts.status().rounds;) {
    before = node.cuts.status().rounds;
    await wait(QUIET_MILLISECONDS);
  }
}

function bystanderPolicy(egress: readonly object[]): string {
  const policy = {
    apiVersion: "networking.k8s.io/v1",
    kind: "NetworkPolicy",
    metadata: { name: "bystander", namespace: "default" },
    spec: { podSelector: { matchLabels: { app: "bystander" } }, policyTypes: ["Egress"], egress },
  };
  return `---\n${JSON.stringify(policy)}\n`;
}

using lab = createLab("bench-cuts");
process.stdout.write(JSON.stringify(await measure(lab, Number(process.argv[2]))));
