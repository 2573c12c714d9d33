import { setTimeout as pause } from "node:timers/promises";
import { formatAddress } from "../../../kernel/ip/address.ts";
import type { RawObject } from "../../apiserver/storage.ts";
import { receivedBytes, Streams } from "../../lab/stream.ts";
import type { DemoPod, World } from "../world.ts";
import { foretellCuts, nodesInForce } from "./forecast.ts";
import { setPolicies } from "./result.ts";

/** The rate that a UDP sender is asked for. */
const UDP_BYTES_PER_SECOND = 2_000_000;
const WINDOW_MILLISECONDS = 400;
/**
 * The longest wait: a TCP sender that has lost everything for the window tries again in less than this (RTO, doubled
 * each time).
 */
const DEADLINE_MILLISECONDS = 10_000;
const POLL_MILLISECONDS = 20;
/** The number of bytes in one window that shows a flow: more than a stray frame, far less than either flow. */
const FLOWS = 20_000;

/** The bytes of one live flow in a window, before its policy was tightened, while it was, and after. */
export interface CutFlow {
  readonly protocol: "tcp" | "udp";
  readonly source: string;
  readonly target: string;
  /** Bytes that arrived in {@link CutResult.windowMilliseconds}, in each phase. */
  readonly before: number;
  readonly denied: number;
  readonly after: number;
}

export interface CutResult {
  readonly windowMilliseconds: number;
  /** The time from when the denial was in force for new flows until the window in which nothing arrived any more. */
  readonly deniedAfterMilliseconds: number;
  readonly flows: readonly CutFlow[];
  /**
   * The connections that `policy dry-run --live` named as those that the denial would cut: source and target with the
   * protocol.
   */
  readonly predicted: readonly string[];
  /** The nodes on which the denial was in force, by `policy status`. */
  readonly inForceOn: readonly string[];
  readonly nodes: number;
}

/** Whether every flow ran, stopped and continued. */
export function isCut({ flows }: Pick<CutResult, "flows">): boolean {
  return flows.every(({ before, denied, after }) => before > FLOWS && denied === 0 && after > FLOWS);
}

/** Whether all flows were predicted to be cut. */
export function isPredicted({ flows, predicted }: CutResult): boolean {
  return flows.every((flow) => predicted.includes(flowName(flow)));
}

/** Whether the denial was in force on every node, by their status. */
export function isInForceEverywhere({ inForceOn, nodes }: CutResult): boolean {
  return inForceOn.length === nodes;
}

/** Returns the name of a flow in a forecast. */
export function flowName({ protocol, source, target }: Pick<CutFlow, "protocol" | "source" | "target">): string {
  return `${source} → ${target} ${protocol}`;
}

/**
 * Starts a flow within a node and one across, without policies, denies both by one policy, and allows them again: the
 * same connections stop and continue.
 *
 * @throws Error when a flow does not begin, or does not continue in time
 */
export async function cutLiveFlows(world: World, onPhase: (text: string) => void): Promise<CutResult> {
  const [source, near] = world.pods.filter(({ node }) => node === "node1");
  const far = world.pods.find(({ node, podNamespace }) => node === "node2" && podNamespace === "default");
  if (source === undefined || near === undefined || far === undefined) throw new Error("too few pods");
  const flows = [{ protocol: "tcp", target: far } as const, { protocol: "udp", target: near } as const];
  const streams = new Streams();
  await setPolicies(world, []);
  try {
    for (const { target } of flows) await streams.serve(target.namespace);
    for (const { protocol, target } of flows) {
      streams.send(source.namespace, protocol, formatAddress(target.addresses[6]), UDP_BYTES_PER_SECOND);
    }
    const targets = flows.map(({ target }) => target);
    await untilFlowing(targets);
    onPhase("flowing");
    const before = await measure(targets);
    const denial = denyFrom(source);
    const cuts = await foretellCuts(world, denial);
    await setPolicies(world, [denial]);
    onPhase("denied");
    const { denied, deniedAfterMilliseconds } = await measureStopped(targets);
    const inForceOn = nodesInForce(world, `${source.podNamespace}/${nameOfDenial(source)}`);
    await setPolicies(world, []);
    await untilFlowing(targets);
    onPhase("allowed again");
    const after = await measure(targets);
    return {
      windowMilliseconds: WINDOW_MILLISECONDS,
      deniedAfterMilliseconds,
      predicted: cuts.map((cut) =>
        flowName({
          protocol: cut.protocol === "TCP" ? "tcp" : "udp",
          source: podName(cut.source),
          target: podName(cut.target),
        }),
      ),
      inForceOn,
      nodes: world.cluster.nodes.length,
      flows: flows.map(({ protocol, target }, i) => ({
        protocol,
        source: source.name,
        target: target.name,
        before: before[i] ?? 0,
        denied: denied[i] ?? 0,
        after: after[i] ?? 0,
      })),
    };
  } finally {
    await streams.close();
  }
}

function nameOfDenial({ name }: DemoPod): string {
  return `not-from-${name}`;
}

/** Returns the last part of a workload's name: the demo's pods have no controllers. */
function podName(workload: string): string {
  return workload.slice(workload.lastIndexOf("/") + 1);
}

/** Returns a policy that isolates all pods of the namespace except for traffic from the other pods. */
function denyFrom(pod: DemoPod): RawObject {
  const { name, podNamespace: namespace } = pod;
  const others = { matchExpressions: [{ key: "app", operator: "NotIn", values: [name] }] };
  return {
    apiVersion: "networking.k8s.io/v1",
    kind: "NetworkPolicy",
    metadata: { name: nameOfDenial(pod), namespace },
    spec: { podSelector: {}, ingress: [{ from: [{ podSelector: others }] }] },
  };
}

async function measure(targets: readonly DemoPod[]): Promise<readonly number[]> {
  const start = targets.map(received);
  await pause(WINDOW_MILLISECONDS);
  return targets.map((target, i) => received(target) - (start[i] ?? 0));
}

/**
 * Measures the first window in which nothing arrived: packets on their way still arrive, and known flows are cut right
 * after new ones.
 */
async function measureStopped(
  targets: readonly DemoPod[],
): Promise<{ readonly denied: readonly number[]; readonly deniedAfterMilliseconds: number }> {
  const start = performance.now();
  for (;;) {
    const deniedAfterMilliseconds = performance.now() - start;
    const denied = await measure(targets);
    const isLast = deniedAfterMilliseconds > DEADLINE_MILLISECONDS || denied.every((bytes) => bytes === 0);
    if (isLast) return { denied, deniedAfterMilliseconds };
  }
}

async function untilFlowing(targets: readonly DemoPod[]): Promise<void> {
  const start = targets.map(received);
  const end = performance.now() + DEADLINE_MILLISECONDS;
  while (targets.some((target, i) => received(target) - (start[i] ?? 0) < FLOWS)) {
    if (performance.now() > end) throw new Error("no data arrives over a flow that is allowed");
    await pause(POLL_MILLISECONDS);
  }
}

function received({ namespace }: DemoPod): number {
  return receivedBytes(namespace, "eth0");
}
