import type { AttachmentRecord } from "../../../cni/attachment/attachment.ts";
import { formatAddress, parseAddress } from "../../../kernel/ip/address.ts";
import { parseCidr } from "../../../kernel/ip/cidr.ts";
import { judge } from "../../../policyd/objects/gate/gate.ts";
import type { ClusterObject } from "../../../policyd/objects/model.ts";
import type { ObjectChange } from "../../../policyd/objects/object_source.ts";
import { attachmentRecord } from "../../support/attachment_record.ts";

/** How many there are of what a cluster of the benchmark has. */
export interface ClusterSize {
  readonly pods: number;
  readonly policies: number;
}

/** "10,000 pods, 1,000 policies" */
export function sizeText({ pods, policies }: ClusterSize): string {
  return `${pods.toLocaleString("en")} pods, ${policies.toLocaleString("en")} policies`;
}

/** The node whose kernel is measured, and how many pods it has. */
export const NODE = "node1";
export const LOCAL_PODS = 110;
export const NAMESPACES = 100;

/** What all policies let in: the port of iperf3, which measures them, too. */
export const PORT = 5201;
export const PORTS = [
  { protocol: "TCP", port: PORT },
  { protocol: "UDP", port: PORT },
] as const;

/** Values of the labels that tell peers: `tier` within a namespace, `role` in several. */
const VALUES = 5;
const TEAMS = 10;

/** A pod, by all that policies of the benchmark can tell. */
export interface BenchPod {
  readonly number: number;
  readonly namespace: string;
  readonly name: string;
  readonly labels: { readonly app: string; readonly tier: string; readonly role: string };
  readonly isLocal: boolean;
  readonly address4: string;
  readonly address6: string;
}

/** A policy: who is isolated, and who may send to him, as labels that all have to be there. */
export interface BenchPolicy {
  readonly name: string;
  readonly namespace: string;
  readonly app: string;
  readonly near: { readonly tier?: string; readonly app?: string };
  readonly far: { readonly team: string; readonly role: string };
}

/**
 * The pod of this number. Namespaces take turns, so any number of pods is spread over all of them; the first
 * {@link LOCAL_PODS} are this node's.
 *
 * @param labels in place of what its number makes of it
 */
export function benchPod(number: number, labels: Partial<BenchPod["labels"]> = {}): BenchPod {
  const place = Math.floor(number / NAMESPACES);
  return {
    number,
    namespace: `n${number % NAMESPACES}`,
    name: `pod-${number}`,
    labels: {
      app: `a${place}`,
      tier: `t${place % VALUES}`,
      role: `r${Math.floor(place / VALUES) % VALUES}`,
      ...labels,
    },
    isLocal: number < LOCAL_PODS,
    address4: address4(number),
    // As nft writes it, too.
    address6: formatAddress(
      parseAddress(`fd00:128::${((number + 1) >> 16).toString(16)}:${((number + 1) & 0xffff).toString(16)}`),
    ),
  };
}

/**
 * The policy of this number: it selects one pod of its namespace and lets in two peers, pods of its own namespace and
 * pods of a tenth of the others. The first ones select what is on this node: each of its pods has one policy.
 */
export function benchPolicy(number: number): BenchPolicy {
  const namespace = number % NAMESPACES;
  const place = Math.floor(number / NAMESPACES);
  return {
    name: `policy-${number}`,
    namespace: `n${namespace}`,
    app: `a${place}`,
    near: { tier: `t${(namespace + place) % VALUES}` },
    far: { team: teamOf(namespace), role: `r${(Math.floor(namespace / TEAMS) + place) % VALUES}` },
  };
}

/**
 * The policy of this number where all select this node's pods, as many each. It lets in one pod of the namespace, which
 * no other does, and a group that all policies of its pod name.
 */
export function localPolicy(number: number): BenchPolicy {
  const { far, ...base } = benchPolicy(number % LOCAL_PODS);
  return { ...base, name: `local-${number}`, near: { app: `a${Math.floor(number / LOCAL_PODS)}` }, far };
}

/** The team of the namespace of this number, its only label beside its name. */
export function teamOf(namespace: number): string {
  return `team${namespace % TEAMS}`;
}

/** All pods of a size. */
export function benchPods({ pods }: ClusterSize): readonly BenchPod[] {
  return Array.from({ length: pods }, (_, number) => benchPod(number));
}

/** All policies of a size. */
export function benchPolicies({ policies }: ClusterSize): readonly BenchPolicy[] {
  return Array.from({ length: policies }, (_, number) => benchPolicy(number));
}

/** A pod elsewhere of which policies of this node hear, as its namespace's policy names its tier and another its role. */
export function pertinentPod(number: number): BenchPod {
  const namespace = number % NAMESPACES;
  const { tier = "" } = benchPolicy(namespace).near;
  return benchPod(number, { app: "new", tier, role: `r${number % VALUES}` });
}

/** The pod with another role: one group loses it and another gets it. */
export function relabelled(pod: BenchPod): BenchPod {
  const role = `r${(Number(pod.labels.role.slice(1)) + 1) % VALUES}`;
  return { ...pod, labels: { ...pod.labels, role } };
}

/** Whether a policy isolates a pod. */
export function selects({ namespace, app }: BenchPolicy, pod: BenchPod): boolean {
  return pod.namespace === namespace && pod.labels.app === app;
}

/** Whether a policy lets a pod in. */
export function admits({ namespace, near, far }: BenchPolicy, { namespace: of, labels }: BenchPod): boolean {
  const isNear = near.app === undefined ? labels.tier === near.tier : labels.app === near.app;
  if (of === namespace && isNear) return true;
  return labels.role === far.role && teamOf(Number(of.slice(1))) === far.team;
}

/** The namespaces as an API server has them. */
export function namespaceManifests(): readonly object[] {
  return Array.from({ length: NAMESPACES }, (_, number) => ({
    apiVersion: "v1",
    kind: "Namespace",
    metadata: { name: `n${number}`, labels: { team: teamOf(number) } },
  }));
}

/** This node as an API server has it. */
export function nodeManifest(): object {
  const addresses = [{ type: "InternalIP", address: "192.0.2.10" }];
  return { apiVersion: "v1", kind: "Node", metadata: { name: NODE }, spec: {}, status: { addresses } };
}

/** A pod as an API server has it. */
export function podManifest({ namespace, name, labels, isLocal, ...pod }: BenchPod): object {
  return {
    apiVersion: "v1",
    kind: "Pod",
    metadata: { namespace, name, labels },
    spec: { nodeName: isLocal ? NODE : `node${2 + (pod.number % 90)}`, containers: [{ name: "main" }] },
    status: {
      phase: "Running",
      podIP: pod.address4,
      podIPs: [{ ip: pod.address4 }, { ip: pod.address6 }],
    },
  };
}

/** A policy as an API server has it. */
export function policyManifest({ namespace, name, app, near, far }: BenchPolicy): object {
  return {
    apiVersion: "networking.k8s.io/v1",
    kind: "NetworkPolicy",
    metadata: { namespace, name },
    spec: {
      podSelector: { matchLabels: { app } },
      policyTypes: ["Ingress"],
      ingress: [
        {
          from: [
            { podSelector: { matchLabels: near } },
            {
              namespaceSelector: { matchLabels: { team: far.team } },
              podSelector: { matchLabels: { role: far.role } },
            },
          ],
          ports: PORTS,
        },
      ],
    },
  };
}

/** All that makes up a cluster, but for its policies. */
export function baseManifests(size: ClusterSize): readonly object[] {
  return [...namespaceManifests(), nodeManifest(), ...benchPods(size).map(podManifest)];
}

/** What the plugin recorded of a local pod. */
export function attachmentOf({ namespace, name, number, address4: v4, address6 }: BenchPod): AttachmentRecord {
  return attachmentRecord({
    containerId: `container-${number}`,
    pod: { namespace, name, uid: "" },
    addresses: [parseCidr(`${v4}/32`), parseCidr(`${address6}/128`)],
    hostInterface: `dbv${number.toString(16).padStart(12, "0")}`,
    portMappings: [],
  });
}

/** The change that tells of an object. @throws Error when the gate does not take it */
export function changeTo(manifest: unknown): ObjectChange {
  const verdict = judge(manifest);
  if (verdict.type !== "accepted") throw new Error(`the gate does not take ${JSON.stringify(manifest)}`);
  const object: ClusterObject = verdict.object;
  return { type: "set", kind: object.kind, key: object.key, object };
}

/** The change that tells that a pod or a policy has gone. */
export function removalOf(
  { namespace, name }: BenchPod | BenchPolicy,
  kind: "Pod" | "NetworkPolicy" = "Pod",
): ObjectChange {
  return { type: "delete", kind, key: `${namespace}/${name}` };
}

/** From 10.128.1.0 on. */
function address4(number: number): string {
  const value = 0x0a80_0100 + number;
  return [24, 16, 8, 0].map((shift) => (value >>> shift) & 255).join(".");
}
