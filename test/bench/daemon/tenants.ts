import { readFileSync } from "node:fs";
import { setTimeout as wait } from "node:timers/promises";
import { parseAddress } from "../../../kernel/ip/address.ts";
import { startNotificationThread } from "../../../kernel/notifications/thread.ts";
import process from "node:process";
import type { RawObject } from "../../apiserver/storage.ts";
import { add } from "../../lab/cni.ts";
import type { Lab } from "../../lab/lab.ts";
import { podObject } from "../../support/policy/lab/place.ts";
import { networkPolicy } from "../../support/policy/manifest.ts";
import { ApiNode, SERVICE, slice } from "../../support/daemon/api_node.ts";
import { residentOf } from "../process_usage.ts";
import { found, type Row } from "../row.ts";
import { quantile } from "../statistics.ts";
import { AddressCommits, COMMITS_SOURCE } from "./address_commits.ts";
import { imageStart } from "./image_start.ts";

const LATENCY_GOAL = 1000;
const MEMORY_GOAL = 300;
const KERNEL_GOAL = 500;
const ROUNDS = 20;
const CHANGE_MILLISECONDS = 500;
const QUIET_MILLISECONDS = 10_000;
/**
 * The fields of /proc/meminfo in which tables count: elements in slabs, their counters per processor, the buckets of
 * large hash tables in the vmalloc range. Kernel stacks and page tables are not included.
 */
const MEMORY_FIELDS = ["Slab", "Percpu", "VmallocUsed"] as const;

/**
 * Measures how late one tenant's Service and policy are in force while another tenant's costliest objects come, change
 * and go: three Services of 5,000 ports and 50 endpoints, 2,700 load balancers, and policies of 2,000 named ports, of
 * 15,000 matchExpressions and of 2,000 peers beside 3,000 pods.
 */
export async function tenants(lab: Lab, progress: (step: string) => void): Promise<readonly Row[]> {
  const { nodeOptions, environment } = imageStart();
  Object.assign(process.env, environment);
  const node = new ApiNode(lab);
  const { server, prober } = node;
  const events = startNotificationThread({ calls: lab.calls, namespacePath: node.wired.node.path });
  const commits = new AddressCommits();
  try {
    await node.prepare();
    await node.listen();
    await server.apply(...["shop", "other", "default"].map(namespaceOf), SERVICE, slice("10.250.0.0"));
    node.start(undefined, nodeOptions);
    await node.untilSynced();
    await node.attachPods();
    for (let number = 0; number < 8; number++) {
      await server.apply(podObject(`other/costly${number}`, "node1", [], { labels: { app: "costly" } }));
      const { error } = add(node.wired, lab.pod(`costly${number}`), { ...node.overrides() }, { podNamespace: "other" });
      if (error !== undefined) throw new Error(JSON.stringify(error));
    }
    await events.subscribe(COMMITS_SOURCE, commits);
    const pid = node.daemon.child.pid ?? 0;
    const base = kernelMemory();
    let peak = base;
    const watch = setInterval(() => (peak = Math.max(peak, kernelMemory())), 40);

    let version = 0;
    const service = async (): Promise<number> => {
      const address = `10.250.${1 + (version >> 7)}.${1 + (version++ & 127)}`;
      const start = performance.now();
      const committed = new Promise<number>((settle) => commits.await(address, settle));
      await server.apply(slice(address));
      return (await committed) - start;
    };
    const to = { address: parseAddress("10.244.1.3"), port: 8080 };
    const isAllowed = async (): Promise<boolean> => {
      const flow = { protocol: "tcp", from: node.pods.get("client") ?? node.wired.node, to } as const;
      const [result] = await prober.run([flow], { timeoutMilliseconds: 30, repeats: false });
      return result?.reached === true;
    };
    const policy = async (round: number): Promise<number> => {
      const isWanted = round % 2 === 1;
      const start = performance.now();
      await server.apply(ownPolicy(isWanted ? 8080 : 8081));
      while ((await isAllowed()) !== isWanted);
      return performance.now() - start;
    };
    const rows: Row[] = [];
    const phase = async (what: string): Promise<void> => {
      progress(what);
      const [services, policies]: [number[], number[]] = [[], []];
      for (let round = 0; round < ROUNDS; round++) {
        services.push(await service());
        policies.push(await policy(round));
      }
      for (const [kind, values] of [
        ["Service", services],
        ["policy", policies],
      ] as const) {
        const title = `another tenant's ${kind} while costly objects ${what}, p95`;
        rows.push({ ...found(title, "ms", quantile(values, 0.95), LATENCY_GOAL), values });
      }
    };

    const costly = costlyObjects();
    for (let first = 0; first < costly.length; first += 500) await server.apply(...costly.slice(first, first + 500));
    await phase("come");
    const end = new AbortController();
    const changing = change(server, end.signal);
    await phase("change");
    end.abort();
    await changing;
    await wait(QUIET_MILLISECONDS);
    const finished = kernelMemory();
    for (let first = 0; first < costly.length; first += 500) {
      const part = costly
        .slice(first, first + 500)
        .filter(({ kind }) => kind === "Service" || kind === "NetworkPolicy");
      await server.apply(...part.map((object) => ({ ...object, isGone: true })));
    }
    await phase("go");
    clearInterval(watch);
    const { exitCode, signalCode } = node.daemon.child;
    if (exitCode !== null || signalCode !== null) throw new Error(`the daemon has ended: ${exitCode ?? signalCode}`);
    return [
      ...rows,
      found("the daemon's memory at its peak", "MB", residentOf(pid)?.peak ?? Number.NaN, MEMORY_GOAL),
      found("the kernel's peak above what the finished tables need", "MB", peak - finished, KERNEL_GOAL),
    ];
  } finally {
    await events.stop();
    await node.stop();
  }
}

/** Returns the kernel's memory that tables may use, of the whole machine. @returns megabytes (10^6) */
function kernelMemory(): number {
  const text = readFileSync("/proc/meminfo", "utf8");
  const kilobytes = MEMORY_FIELDS.map((field) => {
    const value = new RegExp(`^${field}:\\s*(\\d+) kB$`, "m").exec(text)?.[1];
    if (value === undefined) throw new Error(`/proc/meminfo has no ${field}`);
    return Number(value);
  });
  return (kilobytes.reduce((sum, value) => sum + value, 0) * 1024) / 1e6;
}

function namespaceOf(name: string): RawObject {
  return { apiVersion: "v1", kind: "Namespace", metadata: { name, labels: { "kubernetes.io/metadata.name": name } } };
}

function times<T>(count: number, make: (number: number) => T): readonly T[] {
  return Array.from({ length: count }, (_, number) => make(number));
}

function ownPolicy(port: number): RawObject {
  const ingress = [{ from: [{ podSelector: { matchLabels: { app: "client" } } }], ports: [{ protocol: "TCP", port }] }];
  const spec = { podSelector: { matchLabels: { app: "first" } }, policyTypes: ["Ingress"], ingress };
  return networkPolicy("default", spec, "own");
}

function serviceOf(name: string, spec: object, ip?: string, annotations: object = {}): RawObject {
  const status = ip === undefined ? {} : { loadBalancer: { ingress: [{ ip }] } };
  return { apiVersion: "v1", kind: "Service", metadata: { name, namespace: "other", annotations }, spec, status };
}

function sliceOf(service: string, number: number, ports: readonly object[], addresses: readonly string[]): RawObject {
  const labels = { "kubernetes.io/service-name": service };
  const endpoints = addresses.map((one) => ({ addresses: [one], nodeName: "elsewhere", conditions: { ready: true } }));
  const metadata = { name: `${service}-${number}`, namespace: "other", labels };
  return { apiVersion: "discovery.k8s.io/v1", kind: "EndpointSlice", metadata, addressType: "IPv4", ports, endpoints };
}

function largePorts(first: number): readonly object[] {
  return times(5000, (number) => ({ name: `p${number}`, protocol: "TCP", port: first + number }));
}

function largeSlice(service: number, number: number, version: number): RawObject {
  const addresses = [
    `10.200.${version >> 8}.${version & 255}`,
    ...times(4, (last) => `10.20${service}.${number}.${last + 1}`),
  ];
  return sliceOf(`large${service}`, number, largePorts(8000), addresses);
}

function balancer(number: number, annotations: object = {}): RawObject {
  const place = `${number >> 8}.${number & 255}`;
  const ports = [{ name: "a", protocol: "TCP", port: 80, nodePort: 30_000 + number }];
  const local = { externalTrafficPolicy: "Local", healthCheckNodePort: 20_000 + number };
  const own = { type: "LoadBalancer", clusterIP: `10.97.${place}`, clusterIPs: [`10.97.${place}`], ports };
  return serviceOf(`balancer${number}`, { ...own, ...local }, `198.18.${place}`, annotations);
}

function namedPod(number: number, version: number): RawObject {
  const ports = times(2000, (port) => ({ name: `n${port}`, containerPort: 1 + port, protocol: "TCP" }));
  const labels = { app: "named", version: `${version}` };
  return podObject(`other/named${number}`, "elsewhere", [`10.244.5.${number + 1}`], { labels, ports });
}

function costlyPolicies(version: number): readonly RawObject[] {
  const podSelector = { matchLabels: { app: "costly" } };
  const named = times(2000, (port) => ({ port: `n${port}`, protocol: "TCP" }));
  const absent = times(15_000, (number) => ({ key: `k${number}-${version}`, operator: "DoesNotExist" }));
  const peers = times(2000, (peer) => {
    return { podSelector: { matchExpressions: [{ key: "i", operator: "NotIn", values: [`${peer}`, `v${version}`] }] } };
  });
  const to = [{ podSelector: { matchLabels: { app: "named" } } }];
  const from = [{ podSelector: { matchExpressions: absent } }];
  return [
    networkPolicy("other", { podSelector, policyTypes: ["Egress"], egress: [{ to, ports: named }] }, "named"),
    networkPolicy("other", { podSelector, policyTypes: ["Ingress"], ingress: [{ from }] }, "expressions"),
    networkPolicy(
      "other",
      { podSelector, policyTypes: ["Ingress"], ingress: [{ from: peers, ports: [{ port: 80 }] }] },
      "peers",
    ),
  ];
}

function costlyObjects(): readonly RawObject[] {
  return [
    ...times(3, (number) => {
      const clusterIP = `10.96.200.${number + 1}`;
      return serviceOf(`large${number}`, {
        type: "ClusterIP",
        clusterIP,
        clusterIPs: [clusterIP],
        ports: largePorts(1000),
      });
    }),
    ...times(30, (number) => largeSlice(number % 3, number % 10, number)),
    ...times(2700, (number) => balancer(number)),
    ...times(2700, (number) =>
      sliceOf(`balancer${number}`, 1, [{ name: "a", protocol: "TCP", port: 8080 }], ["10.244.1.4"]),
    ),
    ...times(3000, (i) =>
      podObject(`other/x${i}`, "elsewhere", [`10.245.${i >> 8}.${i & 255}`], { labels: { app: "x", i: `${i}` } }),
    ),
    ...times(30, (number) => namedPod(number, 0)),
    ...costlyPolicies(0),
  ];
}

/** Changes a slice, a pod, a load balancer and every second time the policies, until the signal. */
async function change(server: ApiNode["server"], signal: AbortSignal): Promise<void> {
  for (let version = 1; !signal.aborted; version++) {
    const every = [largeSlice(version % 3, version % 10, 100 + version), namedPod(version % 30, version)];
    every.push(balancer(version, { v: `${version}` }));
    await server.apply(...every, ...(version % 2 === 0 ? costlyPolicies(version) : []));
    await wait(CHANGE_MILLISECONDS);
  }
}
