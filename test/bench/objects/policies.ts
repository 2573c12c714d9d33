import type { AttachmentRecord } from "../../../attachment/attachment.ts";
import { formatAddress, parseAddress } from "../../../kernel/ip/address.ts";
import { parseCidr } from "../../../kernel/ip/cidr.ts";
import { attachmentRecord } from "../../support/cni/attachment_record.ts";

/** The numbers of objects in a cluster of the benchmark. */
export interface ClusterSize {
  readonly pods: number;
  readonly policies: number;
}

/** The node whose kernel is measured, and the number of its pods. */
export const NODE = "node1";
const LOCAL_PODS = 110;
const NAMESPACES = 100;

/** The ports that all policies allow. */
const PORTS = [
  { protocol: "TCP", port: 5201 },
  { protocol: "UDP", port: 5201 },
] as const;

/** Values of the labels that select peers: `tier` within a namespace, `role` in several. */
const VALUES = 5;
const TEAMS = 10;

/** A pod, with everything that policies of the benchmark select by. */
export interface BenchPod {
  readonly number: number;
  readonly namespace: string;
  readonly name: string;
  readonly labels: { readonly app: string; readonly tier: string; readonly role: string };
  readonly isLocal: boolean;
  readonly address4: string;
  readonly address6: string;
}

/** A policy: the pods that it isolates and those that may send to them, by labels that all must be present. */
interface BenchPolicy {
  readonly name: string;
  readonly namespace: string;
  readonly app: string;
  readonly near: { readonly tier: string };
  readonly far: { readonly team: string; readonly role: string };
}

/**
 * Returns the pod of this number. Namespaces take turns, so any number of pods is spread over all of them; the first
 * {@link LOCAL_PODS} are this node's.
 *
 * @param labels replace those that follow from its number
 */
function benchPod(number: number, labels: Partial<BenchPod["labels"]> = {}): BenchPod {
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
    // nft writes the address in the same form.
    address6: formatAddress(
      parseAddress(`fd00:128::${((number + 1) >> 16).toString(16)}:${((number + 1) & 0xffff).toString(16)}`),
    ),
  };
}

/**
 * Returns the policy of this number: it selects one pod of its namespace and allows two peers, pods of its own
 * namespace and pods of a tenth of the others. The first ones select pods of this node, each of which has one policy.
 */
function benchPolicy(number: number): BenchPolicy {
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

/** Returns the team of the namespace of this number, its only label beside its name. */
function teamOf(namespace: number): string {
  return `team${namespace % TEAMS}`;
}

/** Returns all pods of a size. */
export function benchPods({ pods }: ClusterSize): readonly BenchPod[] {
  return Array.from({ length: pods }, (_, number) => benchPod(number));
}

/** Returns all policies of a size. */
export function benchPolicies({ policies }: ClusterSize): readonly BenchPolicy[] {
  return Array.from({ length: policies }, (_, number) => benchPolicy(number));
}

/**
 * Returns a pod elsewhere that matters to policies of this node, as its namespace's policy names its tier and another
 * its role.
 */
export function pertinentPod(number: number): BenchPod {
  const namespace = number % NAMESPACES;
  const { tier } = benchPolicy(namespace).near;
  return benchPod(number, { app: "new", tier, role: `r${number % VALUES}` });
}

/** Returns the pod with another role: one group loses it and another gets it. */
export function relabelled(pod: BenchPod): BenchPod {
  const role = `r${(Number(pod.labels.role.slice(1)) + 1) % VALUES}`;
  return { ...pod, labels: { ...pod.labels, role } };
}

/** Returns the namespaces as an API server has them. */
function namespaceManifests(): readonly object[] {
  return Array.from({ length: NAMESPACES }, (_, number) => ({
    apiVersion: "v1",
    kind: "Namespace",
    metadata: { name: `n${number}`, labels: { team: teamOf(number) } },
  }));
}

/** Returns this node as an API server has it. */
function nodeManifest(): object {
  const addresses = [{ type: "InternalIP", address: "192.0.2.10" }];
  return { apiVersion: "v1", kind: "Node", metadata: { name: NODE }, spec: {}, status: { addresses } };
}

/** Returns a pod as an API server has it. */
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

/** Returns a policy as an API server has it. */
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

/** Returns all objects of a cluster except its policies. */
export function baseManifests(size: ClusterSize): readonly object[] {
  return [...namespaceManifests(), nodeManifest(), ...benchPods(size).map(podManifest)];
}

/** Returns the plugin's record of a local pod. */
export function attachmentOf({ namespace, name, number, address4: v4, address6 }: BenchPod): AttachmentRecord {
  return attachmentRecord({
    containerId: `container-${number}`,
    pod: { namespace, name, uid: "" },
    addresses: [parseCidr(`${v4}/32`), parseCidr(`${address6}/128`)],
    hostInterface: `dbv${number.toString(16).padStart(12, "0")}`,
    portMappings: [],
  });
}

/** Returns the IPv4 address of a number, from 10.128.1.0 on. */
function address4(number: number): string {
  const value = 0x0a80_0100 + number;
  return [24, 16, 8, 0].map((shift) => (value >>> shift) & 255).join(".");
}
