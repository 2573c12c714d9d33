import { type Address, type Family, formatAddress } from "../../../../kernel/ip/address.ts";
import type { LabNamespace } from "../../../lab/namespace.ts";

/** The place of a pod in a lab. */
export interface PodPlace {
  /** `namespace/name` */
  readonly key: string;
  readonly node: NodeName;
}

export type NodeName = "node1" | "node2";

export const NODE_NAMES: readonly NodeName[] = ["node1", "node2"];

/** A host outside of the cluster. */
export type OutsideName = "outside" | "stranger";

/** A sender and receiver in a lab: a pod by its key, a node, a host. */
export interface Place {
  readonly name: string;
  readonly namespace: LabNamespace;
  readonly addresses: Readonly<Record<Family, Address>>;
}

/** Returns both addresses of a place as texts, IPv4 first. */
export function textsOf({ addresses }: Place): readonly [string, string] {
  return [formatAddress(addresses[4]), formatAddress(addresses[6])];
}

/** The fields of a Pod object other than its name, node and addresses. */
export interface PodFields {
  readonly labels?: Readonly<Record<string, string>>;
  readonly ports?: readonly object[];
  readonly initContainers?: readonly object[];
  readonly phase?: string;
  readonly isTerminating?: boolean;
  readonly hostNetwork?: boolean;
}

/** Returns the Pod object of a place, or of another pod with its addresses. */
export function podManifest(place: Place, node: string, fields: PodFields = {}, key = place.name): object {
  return podObject(key, node, textsOf(place), fields);
}

/** Returns a Pod object with these addresses; before the plugin has attached the pod there are none. */
export function podObject(
  key: string,
  node: string,
  addresses: readonly string[],
  fields: PodFields = {},
): Readonly<Record<string, unknown>> {
  const [namespace = "", name = ""] = key.split("/");
  const { labels = {}, ports = [], initContainers, phase = "Running" } = fields;
  const { isTerminating = false, hostNetwork = false } = fields;
  return {
    apiVersion: "v1",
    kind: "Pod",
    metadata: {
      name,
      namespace,
      uid: uidOf(key),
      labels,
      ...(isTerminating ? { deletionTimestamp: "2026-01-01T00:00:00Z" } : {}),
    },
    spec: {
      nodeName: node,
      ...(hostNetwork ? { hostNetwork } : {}),
      containers: [{ name: "server", ports }],
      ...(initContainers === undefined ? {} : { initContainers }),
    },
    status: { phase, podIPs: addresses.map((ip) => ({ ip })) },
  };
}

/** Returns the uid of a pod's object and its attachment. */
export function uidOf(key: string): string {
  return `uid-${key.replace("/", "-")}`;
}

/** Returns a Namespace object, with `isTerminating` one that is being deleted. */
export function namespaceManifest(
  name: string,
  labels: Readonly<Record<string, string>> = {},
  isTerminating = false,
): object {
  const deletion = isTerminating ? { deletionTimestamp: "2026-01-01T00:00:00Z" } : {};
  return {
    apiVersion: "v1",
    kind: "Namespace",
    metadata: { name, labels, ...deletion },
    status: { phase: isTerminating ? "Terminating" : "Active" },
  };
}

/** Returns a Node object of a lab. */
export function nodeManifest(
  place: Place,
  podCidrs: readonly string[],
  labels: Readonly<Record<string, string>> = {},
): object {
  return {
    apiVersion: "v1",
    kind: "Node",
    metadata: { name: place.name, labels },
    spec: { podCIDRs: podCidrs },
    status: { addresses: textsOf(place).map((address) => ({ type: "InternalIP", address })) },
  };
}
