import { setTimeout as pause } from "node:timers/promises";
import { systemMachine } from "../../cli/node/machine/system_machine.ts";
import { formatAddress } from "../../kernel/ip/address.ts";
import { formatCidr, hostCidr } from "../../kernel/ip/cidr.ts";
import { parseReportLine } from "../../policyd/policies/status/policy_report.ts";
import type { RawObject } from "../apiserver/storage.ts";
import { receivedBytes, Streams } from "../lab/stream.ts";
import { EVERYTHING } from "./flows.ts";
import type { Check } from "./result.ts";
import { type DemoPod, podOf, type World } from "./world.ts";

const IN_FORCE_MILLISECONDS = 30_000;
const POLL_MILLISECONDS = 10;
/** The rate that a UDP sender is asked for. */
const UDP_BYTES_PER_SECOND = 2_000_000;
const WINDOW_MILLISECONDS = 400;
/**
 * The longest wait: a TCP sender that has lost everything for the window tries again in less than this (RTO, doubled
 * each time).
 */
const FLOW_MILLISECONDS = 10_000;
/** The number of bytes in one window that shows a flow: more than a stray frame, far less than either flow. */
const FLOWS = 20_000;

/** The flows that the demo's policies allow, by source and target: TCP, UDP, ICMP and SCTP; all where a cell is absent. */
const ALLOWED: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  "pod-a": { "pod-b": "----", "pod-c": "----", "pod-d": "----", "pod-e": "-U--", "pod-f": "-U--" },
  "pod-b": { "pod-c": "----", "pod-d": "T---", "pod-e": "----" },
  "pod-c": { "pod-b": "----", "pod-d": "T---", "pod-e": "----", "pod-f": "----" },
  "pod-d": { "pod-b": "----", "pod-f": "----" },
  "pod-e": { "pod-b": "----", "pod-c": "----", "pod-d": "T---", "pod-f": "----" },
  "pod-f": { "pod-b": "----", "pod-c": "----", "pod-d": "T---" },
  node1: { "pod-d": "T---", "pod-e": "----", "pod-f": "----" },
  node2: { "pod-b": "----", "pod-c": "----" },
};

/** Returns the letters of the protocols that the demo's policies allow. */
export function allowedByPolicies(source: string, target: string): string {
  return ALLOWED[source]?.[target] ?? EVERYTHING;
}

/**
 * Adds one policy for each pod: default deny, two selectors in one entry and in two, a port's name, except, and egress.
 *
 * @returns what they allow, in words, when they are in force
 */
export async function publishPolicies(world: World): Promise<readonly string[]> {
  const inMonitoring = { namespaceSelector: { matchLabels: { "kubernetes.io/metadata.name": "monitoring" } } };
  const isFrontend = { podSelector: { matchLabels: { role: "frontend" } } };
  const podC = podOf(world, "pod-c");
  const node1WithoutC = world.cluster.node("node1").podCidrs.map((cidr, index) => {
    const address = podC.addresses[index === 0 ? 4 : 6];
    return { ipBlock: { cidr, except: [formatCidr(hostCidr(address))] } };
  });
  const policies: readonly (readonly [pod: string, words: string, spec: object])[] = [
    [
      "pod-a",
      "may send to pods of any namespace, by UDP to port 8080",
      {
        policyTypes: ["Egress"],
        egress: [{ to: [{ namespaceSelector: {} }], ports: [{ protocol: "UDP", port: 8080 }] }],
      },
    ],
    ["pod-b", "default deny", { policyTypes: ["Ingress"] }],
    [
      "pod-c",
      "from role=frontend in namespace monitoring: one entry, AND",
      { ingress: [{ from: [{ ...isFrontend, ...inMonitoring }] }] },
    ],
    ["pod-d", 'to the port it calls "web", 8080/TCP, from anyone', { ingress: [{ ports: [{ port: "web" }] }] }],
    [
      "pod-e",
      "from role=frontend of its namespace, and from namespace monitoring: two entries, OR",
      { ingress: [{ from: [isFrontend, inMonitoring] }] },
    ],
    [
      "pod-f",
      `from node1's pods except ${formatAddress(podC.addresses[4])} and its IPv6 address (pod-c)`,
      { ingress: [{ from: node1WithoutC }] },
    ],
  ];
  const manifests = policies.map(([pod, , spec]) =>
    policyOf(`of-${pod}`, podOf(world, pod).podNamespace, { podSelector: { matchLabels: { app: pod } }, ...spec }),
  );
  await setPolicies(world, manifests);
  return policies.map(([pod, words]) => `${pod}: ${words}`);
}

/**
 * Starts a flow within a node and one across, without policies, denies both by one policy, and allows them again: the
 * same connections stop and continue.
 *
 * @throws Error when a flow does not begin, or does not continue in time
 */
export async function cutLiveFlows(world: World, onPhase: (text: string) => void): Promise<Check> {
  const source = podOf(world, "pod-a");
  const flows = [
    { protocol: "tcp", target: podOf(world, "pod-e") },
    { protocol: "udp", target: podOf(world, "pod-b") },
  ] as const;
  const targets = flows.map(({ target }) => target);
  const streams = new Streams();
  await setPolicies(world, []);
  try {
    for (const { namespace } of targets) await streams.serve(namespace);
    for (const { protocol, target } of flows) {
      streams.send(source.namespace, protocol, formatAddress(target.addresses[6]), UDP_BYTES_PER_SECOND);
    }
    await untilFlowing(targets);
    onPhase("flowing");
    const before = await measure(targets);
    const others = { matchExpressions: [{ key: "app", operator: "NotIn", values: [source.name] }] };
    const spec = { podSelector: {}, ingress: [{ from: [{ podSelector: others }] }] };
    await setPolicies(world, [policyOf(`not-from-${source.name}`, source.podNamespace, spec)]);
    onPhase("denied");
    const { denied, milliseconds } = await measureStopped(targets);
    await setPolicies(world, []);
    await untilFlowing(targets);
    onPhase("allowed again");
    const after = await measure(targets);
    const phases = [before, denied, after] as const;
    const isCut = targets.every((_, i) => (before[i] ?? 0) > FLOWS && denied[i] === 0 && (after[i] ?? 0) > FLOWS);
    return {
      isGood: isCut,
      text: `live flows in ${WINDOW_MILLISECONDS} ms each: before a denial, ${milliseconds.toFixed(0)} ms after it, and allowed again`,
      details: flows.map(({ protocol, target }, i) => {
        const sizes = phases.map((phase) => sizeText(phase[i] ?? 0));
        return `${source.name} → ${target.name} ${protocol}: ${sizes.join(", ")}`;
      }),
    };
  } finally {
    await streams.close();
  }
}

function policyOf(name: string, namespace: string, spec: object): RawObject {
  return { apiVersion: "networking.k8s.io/v1", kind: "NetworkPolicy", metadata: { name, namespace }, spec };
}

/**
 * Replaces the present policies by these, and waits until they are in force on both nodes, as `policy status` asks.
 *
 * @throws Error when they do not come into force
 */
async function setPolicies({ cluster }: World, manifests: readonly RawObject[]): Promise<void> {
  const before = await cluster.server.objects();
  await cluster.delete(...before.filter(({ kind }) => kind === "NetworkPolicy"));
  await cluster.apply(...manifests);
  const machine = systemMachine(cluster.lab.calls);
  const end = performance.now() + IN_FORCE_MILLISECONDS;
  for (const { name, namespace, files } of cluster.nodes) {
    for (;;) {
      const lines = namespace.inside(() => machine.readPolicies(files.socket)).split("\n");
      const policies = lines.slice(0, -1).map(parseReportLine);
      const isInForce = policies.every(({ generation, inForce }) => inForce === generation);
      if (policies.length === manifests.length && isInForce) break;
      if (performance.now() > end) throw new Error(`policyd of ${name} has not ${manifests.length} policies in force`);
      await pause(POLL_MILLISECONDS);
    }
  }
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
): Promise<{ readonly denied: readonly number[]; readonly milliseconds: number }> {
  const start = performance.now();
  for (;;) {
    const milliseconds = performance.now() - start;
    const denied = await measure(targets);
    if (milliseconds > FLOW_MILLISECONDS || denied.every((bytes) => bytes === 0)) return { denied, milliseconds };
  }
}

async function untilFlowing(targets: readonly DemoPod[]): Promise<void> {
  const start = targets.map(received);
  const end = performance.now() + FLOW_MILLISECONDS;
  while (targets.some((target, i) => received(target) - (start[i] ?? 0) < FLOWS)) {
    if (performance.now() > end) throw new Error("no data arrives over a flow that is allowed");
    await pause(POLL_MILLISECONDS);
  }
}

function received({ namespace }: DemoPod): number {
  return receivedBytes(namespace, "eth0");
}

function sizeText(bytes: number): string {
  return bytes < 10_000 ? `${bytes} B` : `${(bytes / 1e6).toFixed(1)} MB`;
}
