import assert from "node:assert/strict";
import * as fc from "fast-check";
import type { PolicyVerdict } from "../../../../objects/semantics/policies/verdict.ts";
import { evaluatePolicy } from "../../../../objects/semantics/policies/evaluate.ts";
import { policyCases, type PolicyCase } from "../../../support/policy/arbitrary_cluster.ts";
import { ninePodLab, NINE_PODS } from "../../../support/policy/lab/nine_pods.ts";
import type { PolicyLab } from "../../../support/policy/lab/policy_lab.ts";
import { askLab, flowOf, questionText, type Question, type Traffic } from "../../../support/policy/lab/question.ts";
import { indexOf } from "../../../support/policy/question.ts";
import { manifestsOf, type RawCluster, type RawFlow, type RawPod } from "../../../support/policy/raw_cluster.ts";
import { requireBridgeNetfilter, requireKernel } from "../../../support/privilege.ts";
import { countedSeed, hasLongForm } from "../../../support/long_form.ts";
import { NAMESPACES } from "../../../support/policy/three_by_three.ts";
import { textsOf } from "../../../support/policy/lab/place.ts";

/** A random cluster with a lab's pods and addresses, and those of its flows that can be sent in it. */
interface LabCase {
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
function inLab(lab: PolicyLab, { cluster, flows }: PolicyCase): LabCase {
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

const isFull = hasLongForm("2,000 random flows in place of 48");
const FLOWS = isFull ? 2000 : 48;
const seed = countedSeed();
/** The ports that pods serve: those that random policies name, and one that they do not. */
const PORTS = [53, 80, 81, 8080] as const;
/** The number of clusters. Each has eight flows, not all of which can be sent in a lab. */
const CLUSTERS = FLOWS / 2;
const MOST_TOLD = 5;
/** The number of further rules of a padded policy. */
const FURTHER_RULES = 40;

describe(`random clusters with packets (seed ${seed})`, function () {
  this.timeout(20 * 60_000);
  let lab: PolicyLab;

  before(async function () {
    requireKernel(this);
    requireBridgeNetfilter(this);
    lab = await ninePodLab({ name: "random", bridgeNetfilter: { node1: true, node2: false } }, PORTS);
  });
  after(() => lab?.close());

  it(`POL-62: ${FLOWS} flows in random clusters have the fates that the evaluator gives`, async () => {
    const verdicts: PolicyVerdict["kind"][] = [];
    const problems: string[] = [];
    let count = 0;
    for (const [place, random] of fc.sample(policyCases, { numRuns: CLUSTERS, seed }).entries()) {
      if (count >= FLOWS) break;
      const one = inLab(lab, random);
      lab.bridgeFrames(place % 4 < 2 ? "as made" : "the other way");
      problems.push(...(await problemsOf(one, verdicts, place % 2 === 1)));
      count += one.flows.length;
    }
    assert.ok(count >= FLOWS);
    if (problems.length > 0) assert.fail(`${problems.length} of ${count}:\n${problems.slice(0, MOST_TOLD).join("\n")}`);
    const allowed = verdicts.filter((kind) => kind === "allowed").length / count;
    assert.ok(allowed > 0.3 && allowed < 0.8);
  });

  /** @param isPadded whether rules are padded, so that they are compiled in the second of two ways */
  async function problemsOf(
    { cluster, flows }: LabCase,
    verdicts: PolicyVerdict["kind"][],
    isPadded: boolean,
  ): Promise<readonly string[]> {
    const manifests = isPadded ? padded(manifestsOf(cluster)) : manifestsOf(cluster);
    await lab.apply(manifests);
    const index = indexOf(manifests);
    const answers = await askLab(lab, flows);
    return answers.flatMap(({ question, mark }) => {
      const { kind } = evaluatePolicy(index, flowOf(lab, question));
      verdicts.push(kind);
      const expected = kind === "allowed" ? "." : "X";
      return mark === expected
        ? []
        : [`${questionText(question)}: ${mark}, not ${expected}: ${JSON.stringify(cluster)}`];
    });
  }
});

interface Manifest {
  readonly kind?: string;
  readonly spec?: Readonly<Record<string, unknown>>;
}

/**
 * Returns objects whose NetworkPolicies have enough further rules that the compiler combines the rules in large sets. The
 * further rules are for pods and ports that do not exist, so they allow nothing.
 */
function padded(objects: readonly object[]): readonly object[] {
  return objects.map((object) => {
    const { kind, spec } = object as Manifest;
    if (kind !== "NetworkPolicy" || spec === undefined) return object;
    return { ...object, spec: { ...spec, ...more(spec, "ingress", "from"), ...more(spec, "egress", "to") } };
  });
}

/** Returns more rules for a direction. A direction without rules stays so, since its isolation may depend on that. */
function more(spec: Readonly<Record<string, unknown>>, direction: "ingress" | "egress", peers: "from" | "to"): object {
  const rules = spec[direction];
  if (!Array.isArray(rules) || rules.length === 0) return {};
  const further = Array.from({ length: FURTHER_RULES }, (_, index) => ({
    [peers]: [{ podSelector: { matchLabels: { nobody: `${index}` } } }],
    ports: [{ port: 9000 + index }],
  }));
  return { [direction]: [...(rules as readonly unknown[]), ...further] };
}
