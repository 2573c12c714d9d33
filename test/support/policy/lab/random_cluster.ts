import type { PolicyCase } from "../arbitrary_cluster.ts";
import type { RawCluster, RawFlow, RawPod } from "../raw_cluster.ts";
import { NAMESPACES } from "../three_by_three.ts";
import { NINE_PODS } from "./nine_pods.ts";
import { textsOf } from "./place.ts";
import type { PolicyLab } from "./policy_lab.ts";
import type { Question, Traffic } from "./question.ts";

/** A random cluster with a lab's pods and addresses, and those of its flows that can be sent in it. */
export interface LabCase {
  readonly cluster: RawCluster;
  readonly flows: readonly Question[];
}

/** The lab's names for generated names; prefixes of pods are the same in both. */
const NAMES: ReadonlyMap<string, string> = new Map([
  ["n1", "x"],
  ["n2", "y"],
  ["n3", "z"],
  ["10.1.0.0/16", "203.0.113.0/29"],
  ["192.0.2.0/24", "203.0.113.0/24"],
  ["192.0.2.64/26", "203.0.113.8/29"],
  ["10.240.0.0/24", "192.0.2.0/24"],
  ["10.240.0.2/32", "192.0.2.18/32"],
  ["10.240.0.1/32", "192.0.2.10/32"],
]);

/** The places that have the addresses at which flows begin or end. */
const PLACES: ReadonlyMap<string, string> = new Map([
  ["10.1.2.3", "outside"],
  ["fd00:1::5", "outside"],
  ["192.0.2.77", "stranger"],
  ["fd00:2::5", "stranger"],
  ["192.0.2.1", "node1"],
  ["fd00:240::1", "node1"],
]);

/**
 * Converts a random cluster to a lab: each of its pods takes the place of one of the nine, and the remaining ones are
 * like these.
 */
export function inLab(lab: PolicyLab, { cluster, flows }: PolicyCase): LabCase {
  const places = placesOf(cluster.pods);
  const pods = cluster.pods.filter(({ metadata }) => metadata.name !== "finished");
  const attached = NINE_PODS.map(({ key }, index) => {
    const own = pods.find((pod) => places.get(keyOf(pod)) === key) ?? pods[index % pods.length];
    if (own === undefined) throw new RangeError("a cluster without pods");
    return podAt(lab, key, own);
  });
  const [first] = pods;
  const hasTwin = pods.length < cluster.pods.length;
  const twin = hasTwin && first !== undefined ? [finishedTwin(lab, places.get(keyOf(first)) ?? "x/a")] : [];
  const hosts = pods.filter(({ spec }) => spec.hostNetwork === true).map((pod) => hostPodAt(lab, pod));
  const nodes = cluster.nodes.map((node) => ({
    metadata: node.metadata,
    status: { addresses: textsOf(lab.place(node.metadata.name)).map((address) => ({ type: "InternalIP", address })) },
  }));
  const moved: RawCluster = {
    namespaces: withAll(renamed(cluster.namespaces, NAMES)),
    nodes,
    pods: [...attached, ...hosts, ...twin],
    networkPolicies: renamed(cluster.networkPolicies, NAMES),
    clusterNetworkPolicies: renamed(cluster.clusterNetworkPolicies, NAMES),
  };
  const finished = new Set(attached.filter(({ status }) => isFinished(status.phase)).map(keyOf));
  return { cluster: moved, flows: flows.flatMap((flow) => flowIn(flow, places, finished)) };
}

/**
 * Returns all namespaces, those included that the cluster lacks: policies of a deleted namespace would stay in force
 * for its remaining pods.
 */
function withAll(namespaces: RawCluster["namespaces"]): RawCluster["namespaces"] {
  const missing = NAMESPACES.filter((name) => !namespaces.some(({ metadata }) => metadata.name === name));
  return [...namespaces, ...missing.map((name) => ({ metadata: { name } }))];
}

function flowIn(raw: RawFlow, places: ReadonlyMap<string, string>, finished: ReadonlySet<string>): readonly Question[] {
  const [from, to] = [raw.source, raw.destination].map((text) => endIn(text, places));
  if (from === undefined || to === undefined || raw.protocol === "ICMP error") return [];
  const ends = [from, to];
  // A finished pod sends nothing, and policies do not apply to a flow without a pod.
  if (ends.some((end) => finished.has(end)) || !ends.some((end) => end.includes("/"))) return [];
  const traffic: Traffic = raw.protocol === "ICMP" ? "ICMP" : `${raw.port}/${raw.protocol}`;
  return [{ from, to, traffic, family: raw.isIpv6 ? 6 : 4 }];
}

function endIn(text: string, places: ReadonlyMap<string, string>): string | undefined {
  const [kind, name = ""] = text.split(" ");
  if (kind === "node") return name;
  if (kind === "pod") return places.get(name);
  const [, number] = /^(?:10\.244\.|fd00:244:)(\d)\D/.exec(text) ?? [];
  return number === undefined ? PLACES.get(text) : [...places.values()][Number(number)];
}

/**
 * Returns the place of each pod of the cluster among the nine; the place of a pod in the hosts' network is its node.
 */
function placesOf(pods: readonly RawPod[]): ReadonlyMap<string, string> {
  const free = NINE_PODS.map(({ key }) => key);
  const places = new Map<string, string>();
  for (const pod of pods) {
    if (pod.metadata.name === "finished") continue;
    if (pod.spec.hostNetwork === true) {
      places.set(keyOf(pod), pod.spec.nodeName ?? "node1");
      continue;
    }
    const namespace = NAMES.get(pod.metadata.namespace) ?? "x";
    const wanted = free.findIndex((key) => key.startsWith(`${namespace}/`));
    const [key] = free.splice(Math.max(wanted, 0), 1);
    if (key !== undefined) places.set(keyOf(pod), key);
  }
  return places;
}

function podAt(lab: PolicyLab, key: string, { metadata, spec, status }: RawPod): RawPod {
  const [namespace = "", name = ""] = key.split("/");
  const { hostNetwork: _, ...rest } = spec;
  return {
    metadata: { ...metadata, namespace, name },
    spec: { ...rest, nodeName: lab.nodeOf(key) },
    status: { phase: status.phase, podIPs: textsOf(lab.place(key)).map((ip) => ({ ip })) },
  };
}

function hostPodAt(lab: PolicyLab, { metadata, spec, status }: RawPod): RawPod {
  const nodeName = spec.nodeName ?? "node1";
  return {
    metadata: { ...metadata, namespace: NAMES.get(metadata.namespace) ?? "x", name: `host-${metadata.name}` },
    spec: { ...spec, nodeName },
    status: { phase: status.phase, podIPs: textsOf(lab.place(nodeName)).map((ip) => ({ ip })) },
  };
}

/** Returns a finished pod that had the address of another. */
function finishedTwin(lab: PolicyLab, key: string): RawPod {
  const at = key.includes("/") ? key : "x/a";
  const [namespace = ""] = at.split("/");
  return {
    metadata: { name: "finished", namespace, labels: { app: "web" } },
    spec: { nodeName: lab.nodeOf(at), containers: [] },
    status: { phase: "Succeeded", podIPs: textsOf(lab.place(at)).map((ip) => ({ ip })) },
  };
}

function keyOf({ metadata }: RawPod): string {
  return `${metadata.namespace}/${metadata.name}`;
}

function isFinished(phase: string): boolean {
  return phase === "Succeeded" || phase === "Failed";
}

/**
 * Returns a value in which every text with another name in the lab is renamed, whether it is a whole name or is
 * followed by a prefix length.
 */
function renamed<T>(value: T, names: ReadonlyMap<string, string>): T {
  return replaced(value, names) as T;
}

function replaced(value: unknown, names: ReadonlyMap<string, string>): unknown {
  if (typeof value === "string") return replacedText(value, names);
  if (Array.isArray(value)) return value.map((member) => replaced(member, names));
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([key, member]) => [key, replaced(member, names)]));
}

function replacedText(text: string, names: ReadonlyMap<string, string>): string {
  const [, address = text, length = ""] = /^([^/]+)(\/\d+)$/.exec(text) ?? [];
  const known = names.get(text);
  if (known !== undefined) return known;
  const found = names.get(address);
  return found === undefined ? text : found + length;
}
