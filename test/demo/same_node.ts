import { setTimeout } from "node:timers/promises";
import type { LabCalls } from "../lab/libc.ts";
import { hasBridgeNetfilter, setBridgeNetfilter } from "../lab/topology.ts";
import { compareMatrices, type Difference, type Expected } from "./matrix.ts";
import { measureQuestions, measureRedirects, type Redirects } from "./measure.ts";
import { nodeOf, NODES, type World } from "./world.ts";

/** The result of same-node traffic in one state of br_netfilter. */
export interface SameNodeResult extends Redirects {
  /** The value of net.bridge.bridge-nf-call-iptables and -ip6tables on both nodes. */
  readonly bridgeNetfilter: boolean;
  readonly flows: number;
  readonly differences: readonly Difference[];
}

/**
 * A number of exchanges in which a redirect reaches an established connection, which follows it (tcp_v4_err,
 * tcp_v6_err).
 */
const EXCHANGES = 20;

/** The kernel sends one redirect per second and destination once a burst is spent (inet_peer_xrlim_allow). */
const REDIRECT_INTERVAL_MILLISECONDS = 1100;

/**
 * Repeats the same-node part of the matrix with bridged frames passing the IP hooks and without (POD-22), TCP with many
 * packets on each connection, and reads the pods' route exceptions afterwards.
 *
 * @returns one result per state that this kernel supports: without br_netfilter only the second
 */
export async function checkSameNode(
  calls: LabCalls,
  world: World,
  expected: readonly Expected[],
): Promise<readonly SameNodeResult[]> {
  const nodes = NODES.map((name) => nodeOf(world, name));
  const states = nodes.every(hasBridgeNetfilter) ? [true, false] : [false];
  const results: SameNodeResult[] = [];
  for (const bridgeNetfilter of states) {
    for (const node of nodes) setBridgeNetfilter(node, bridgeNetfilter);
    await setTimeout(REDIRECT_INTERVAL_MILLISECONDS);
    const before = measureRedirects(world);
    const seen = await measureQuestions(calls, world, expected, { exchanges: EXCHANGES });
    const after = measureRedirects(world);
    results.push({
      bridgeNetfilter,
      flows: seen.length,
      differences: compareMatrices(expected, seen),
      sentByNodes: after.sentByNodes - before.sentByNodes,
      receivedByPods: after.receivedByPods - before.receivedByPods,
      followed: after.followed,
    });
  }
  return results;
}

/** Returns the questions between two pods of one node. */
export function sameNodeOnly(world: World, expected: readonly Expected[]): readonly Expected[] {
  const places = new Map(world.pods.map((pod) => [pod.name, pod.node]));
  return expected.filter(({ source, target }) => places.has(source) && places.get(source) === places.get(target));
}
