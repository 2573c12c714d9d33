import { type Address, type Family, formatAddress } from "../../kernel/ip/address.ts";
import { DrawbridgeError } from "../../kernel/error.ts";
import type { Pod, Service } from "../../objects/model.ts";
import { isFinished } from "../../objects/semantics/policies/address_owner.ts";
import type { FlowEnd } from "../../objects/semantics/policies/flow.ts";
import { workloadNameOf } from "../../objects/workload_name.ts";
import { type Cluster, ownerOf } from "./cluster.ts";
import type { EndName } from "./end_name.ts";
import { namesOf, podsNamed } from "./named_pods.ts";
import { groupName } from "./group.ts";
import { nearestHint } from "../../objects/nearest_names.ts";

/** One machine or pod at an end of a connection. */
export type Host =
  /** With a name for people where the pod is in no file, and the families that are meant; without them, all. */
  | { readonly type: "pod"; readonly pod: Pod; readonly name?: string; readonly families?: ReadonlySet<Family> }
  /** With the one of its addresses that is meant; without it, its first internal one. */
  | { readonly type: "node"; readonly name: string; readonly address?: Address }
  /** With a name for people where the address stands for others; `asked`: the domain name for which DNS gave it. */
  | { readonly type: "outside"; readonly address: Address; readonly name?: string; readonly asked?: string };

/** The hosts or the Service that a name stands for. */
export type End = HostsEnd | ServiceEnd;

export interface HostsEnd {
  readonly type: "pod" | "workload" | "pods" | "new pods" | "node" | "address" | "outside";
  readonly name: string;
  readonly hosts: readonly Host[];
  /** The address, where the end was named by one. */
  readonly address: Address | undefined;
}

export interface ServiceEnd {
  readonly type: "service";
  readonly name: string;
  readonly service: Service;
  readonly address: Address | undefined;
}

/**
 * Returns the end that a name stands for. An address is a pod's or a node's, or else a host outside of the cluster.
 *
 * @param services those an address of a destination may belong to; none for a source
 * @throws DrawbridgeError ERR_OBJECT with the nearest names when no such object exists
 */
export function findEnd(cluster: Cluster, name: EndName, services: ReadonlyMap<string, Service>): End {
  const { store } = cluster;
  switch (name.type) {
    case "address":
      return findAddress(cluster, name.address, services);
    case "node": {
      const { name: node } = name;
      if (!store.nodes.has(node))
        throw missing(
          "node",
          `node/${node}`,
          [...store.nodes.keys()].map((key) => `node/${key}`),
        );
      return hostsEnd("node", `node/${node}`, [{ type: "node", name: node }]);
    }
    case "service": {
      const service = services.get(name.key);
      const known = [...services.keys()].map((key) => `service/${key}`);
      if (service === undefined) throw missing("Service", `service/${name.key}`, known);
      return { type: "service", name: `service/${name.key}`, service, address: undefined };
    }
    case "outside":
    case "new pods":
      throw new DrawbridgeError("ERR_OBJECT", "expected pods, a node, a Service or an address here");
    default:
      return findPods(cluster, name);
  }
}

function findPods(
  { store }: Cluster,
  name: Extract<EndName, { readonly type: "pod" | "pods" | "workload" }>,
): HostsEnd {
  const all = [...store.pods.values()];
  const found = podsNamed(all, name);
  const running = found.filter((pod) => !isFinished(pod));
  const pods = (running.length > 0 ? running : found).toSorted((a, b) => (a.key < b.key ? -1 : 1));
  const [first] = pods;
  const isWhole = name.type === "pods" || (name.type === "pod" && first?.namespace === name.word);
  // Policies select no pods of the host's network: a namespace or labels do not mean these.
  const meant = isWhole ? pods.filter(({ hostNetwork }) => !hostNetwork) : pods;
  const text = textOf(name);
  if (first === undefined)
    throw missing(name.type === "workload" ? "workload" : "pod", text, new Set(all.flatMap(namesOf)));
  const hosts = meant.map((pod) => ({ type: "pod", pod }) as const);
  if (isWhole) return hostsEnd("pods", name.type === "pod" ? `${name.word}/*` : text, hosts);
  const names = new Set(pods.map((pod) => groupName(pod, "workload")));
  const isPod = name.type === "pod" && first.key === name.key;
  if (!isPod) expectOver(first, text);
  return hostsEnd(
    isPod ? "pod" : "workload",
    names.size > 1 ? text : isPod ? first.key : groupName(first, "workload"),
    hosts,
  );
}

/** Refuses a workload's finished pod, unless it is a Job's: others follow it. @throws DrawbridgeError ERR_OBJECT */
function expectOver(pod: Pod, workload: string): void {
  if (!isFinished(pod) || ["Job", "Pod"].includes(workloadNameOf(pod).kind)) return;
  const hint = "expected one that runs, or also the file of the workload";
  throw new DrawbridgeError("ERR_OBJECT", `${workload}: all its pods have ended, and the next are not known; ${hint}`);
}

function textOf(name: Extract<EndName, { readonly type: "pod" | "pods" | "workload" }>): string {
  if (name.type === "pods") return name.text;
  return name.type === "pod" ? name.key : `${name.namespace}/${name.kind}/${name.name}`;
}

/** Returns a host in the form in which policies are evaluated. */
export function flowEndOf(host: Host): FlowEnd {
  if (host.type === "pod") return { type: "pod", key: host.pod.key };
  if (host.type === "node") {
    const { name, address } = host;
    return address === undefined ? { type: "node", name } : { type: "address", address };
  }
  const { address, asked } = host;
  return { type: "address", address, ...(asked === undefined ? {} : { asked }) };
}

/** Returns the host that has an address, a stand-in included. */
export function hostAt(cluster: Cluster, address: Address): Host {
  const owner = ownerOf(cluster, address);
  const pod = owner?.type === "pod" ? cluster.store.pods.get(owner.key) : undefined;
  if (pod !== undefined) return { type: "pod", pod };
  if (owner?.type !== "node") return { type: "outside", address };
  // A stand-in is not an address of which policies know.
  return { type: "node", name: owner.key, ...(cluster.index.owners.has(address) ? { address } : {}) };
}

/** Returns the name of a host: `NS/POD`, `node/NAME`, its address, or what it stands for. */
export function hostName(host: Host): string {
  if (host.type === "pod") return host.name ?? host.pod.key;
  return host.type === "node" ? `node/${host.name}` : (host.name ?? formatAddress(host.address));
}

/** Returns the node of a host; undefined where it is unknown or the host is outside of the cluster. */
export function nodeOf(host: Host): string | undefined {
  if (host.type === "pod") return host.pod.nodeName;
  return host.type === "node" ? host.name : undefined;
}

function findAddress(cluster: Cluster, address: Address, services: ReadonlyMap<string, Service>): End {
  const service = [...services.values()].find((one) => hasAddress(one, address));
  const name = formatAddress(address);
  if (service !== undefined) return { type: "service", name, service, address };
  return { ...hostsEnd("address", name, [hostAt(cluster, address)]), address };
}

/** Returns whether an address belongs to a Service; false without a Service. */
export function hasAddress(service: Service | undefined, address: Address): boolean {
  if (service === undefined) return false;
  const { clusterIps, externalIps, loadBalancerIngress } = service;
  return [...clusterIps, ...externalIps, ...loadBalancerIngress.map((ingress) => ingress.address)].includes(address);
}

function hostsEnd(type: HostsEnd["type"], name: string, hosts: HostsEnd["hosts"]): HostsEnd {
  return { type, name, hosts, address: undefined };
}

function missing(what: string, name: string, known: Iterable<string>): DrawbridgeError {
  const hint = nearestHint(name, known, "expected one that is in the input");
  return new DrawbridgeError("ERR_OBJECT", `${what} ${JSON.stringify(name)} is not among the objects; ${hint}`);
}
