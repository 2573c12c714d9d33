import { type Address, formatAddress } from "../../../kernel/ip/address.ts";
import { ApiServerProcess } from "../../apiserver/process.ts";
import type { RawObject } from "../../apiserver/storage.ts";
import { type Certificate, makeCertificate } from "../../support/certificate.ts";
import { manifestGrants } from "../../support/daemon/manifest_grants.ts";
import { createLab, type Lab, type LabPod } from "../lab.ts";
import { ClusterNode } from "./cluster_node.ts";
import { type EndpointPod, type SelectingService, slicesOf } from "./endpoints.ts";
import { Fabric, type NodePlace } from "./fabric.ts";
import type { Attachment, Sandbox } from "./runtime.ts";

const PORT = 6443;
const TOKEN = "t0ken-of-policyd";
/** Unauthorized, Forbidden, Method Not Allowed. */
const REFUSALS = [401, 403, 405];
/** The ranges of Services, which each cluster since 1.33 publishes. */
export const SERVICE_CIDRS = ["10.96.0.0/16", "fd00:96::/112"];

/** The specification of a pod to create. */
export interface PodSpec {
  readonly name: string;
  /** "default" when absent. */
  readonly namespace?: string;
  readonly labels?: Readonly<Record<string, string>>;
  /** The node that the scheduler would choose. */
  readonly node: string;
  readonly ports?: readonly { readonly name?: string; readonly containerPort: number; readonly hostPort?: number }[];
}

/** A running pod. */
export interface ClusterPod extends EndpointPod {
  readonly sandbox: Sandbox;
  readonly pod: LabPod;
  /** The duration of its ADD. */
  readonly addMilliseconds: number;
}

/**
 * A cluster in a lab: the tests' API server, nodes with a policyd each, and the network between them. This class acts
 * as the kubelets, the scheduler, and the controllers of EndpointSlices and of nodes' pod CIDRs, one step at a time:
 * when a call settles, the API has the objects that they would have written.
 *
 * The daemons know only what is on their node and in the API; the files that they install there attach the pods.
 */
export class Cluster {
  readonly lab: Lab;
  readonly fabric: Fabric;
  readonly server: ApiServerProcess;
  readonly #authority: Certificate = makeCertificate("authority");
  readonly #nodes = new Map<string, ClusterNode>();
  readonly #pods = new Map<string, ClusterPod>();
  readonly #services = new Map<string, SelectingService>();
  /** The existing slices, as text, by key. */
  readonly #slices = new Map<string, { readonly text: string; readonly object: RawObject }>();
  #ranges = 0;
  #sandboxes = 0;

  private constructor(name: string) {
    this.lab = createLab(name);
    this.fabric = new Fabric(this.lab);
    this.server = new ApiServerProcess(this.fabric.router);
  }

  /** Starts a cluster without nodes, whose API server demands the daemons' token and grants what the manifest does. */
  static async start(name: string): Promise<Cluster> {
    const cluster = new Cluster(name);
    const { server, fabric } = cluster;
    try {
      await server.tell({ type: "features", features: { token: TOKEN, grants: manifestGrants() } });
      const certificate = makeCertificate("server", cluster.#authority, fabric.serverAddress);
      await server.tell({ type: "listen", address: fabric.serverAddress, port: PORT, certificate });
      await server.apply(
        {
          apiVersion: "networking.k8s.io/v1",
          kind: "ServiceCIDR",
          metadata: { name: "kubernetes" },
          spec: { cidrs: SERVICE_CIDRS },
        },
        namespaceObject("default"),
      );
      return cluster;
    } catch (error) {
      await cluster.stop();
      throw error;
    }
  }

  get nodes(): readonly ClusterNode[] {
    return [...this.#nodes.values()];
  }

  get pods(): readonly ClusterPod[] {
    return [...this.#pods.values()];
  }

  /** Returns a node. @throws Error when there is none of this name */
  node(name: string): ClusterNode {
    const node = this.#nodes.get(name);
    if (node === undefined) throw new Error(`no node ${name}`);
    return node;
  }

  /** Adds a machine: its Node gets new pod CIDRs, and its daemon starts. */
  async addNode(name: string, place: NodePlace = "lan"): Promise<ClusterNode> {
    const number = ++this.#ranges;
    const access = {
      server: `https://${this.fabric.serverAddress}:${PORT}`,
      token: TOKEN,
      authority: this.#authority.certificate,
    };
    const podCidrs = [`10.244.${number}.0/24`, `fd00:244:${number}::/64`];
    const node = new ClusterNode(this.lab, this.fabric.addMachine(name, place), podCidrs, access);
    this.#nodes.set(name, node);
    await this.server.apply(node.object(true));
    node.startDaemon();
    return node;
  }

  /** Waits for nodes, or all without names, to be ready, and reports that in the API. */
  async untilReady(...names: readonly string[]): Promise<void> {
    const waited = names.length === 0 ? this.nodes : names.map((name) => this.node(name));
    await Promise.all(waited.map((node) => node.untilReady()));
    await this.server.apply(...waited.map((node) => node.object(true)));
  }

  /** Waits until all daemons know the API's objects and have them in force; policies may take some turns longer. */
  async untilInForce(): Promise<void> {
    const kinds = Map.groupBy(await this.server.objects(), ({ kind }) => String(kind));
    const counts = new Map([...kinds].map(([kind, objects]) => [kind, objects.length]));
    await Promise.all(this.nodes.map((node) => node.untilInForce(counts)));
  }

  /** Drains a node: it gets no new pods, and its pods are deleted. */
  async drain(name: string): Promise<void> {
    await this.server.apply(this.node(name).object(false));
    const there = this.pods.filter(({ nodeName }) => nodeName === name);
    await Promise.all(there.map((pod) => this.deletePod(pod)));
  }

  /** Removes a drained machine: its Node is deleted, its daemon ends and the machine is gone. */
  async removeNode(name: string): Promise<void> {
    const node = this.node(name);
    await this.delete(node.object(false));
    await node.stopDaemon("SIGTERM");
    this.#nodes.delete(name);
    this.lab.remove(node.namespace);
  }

  /** Applies objects like kubectl; endpoints follow Services. */
  async apply(...objects: readonly RawObject[]): Promise<void> {
    for (const object of objects) if (isService(object)) this.#services.set(keyOf(object), object);
    await this.server.apply(...objects);
    if (objects.some(isService)) await this.#reconcile();
  }

  async delete(...objects: readonly RawObject[]): Promise<void> {
    for (const object of objects) if (isService(object)) this.#services.delete(keyOf(object));
    await this.server.apply(...objects.map((object) => ({ ...object, isGone: true })));
    if (objects.some(isService)) await this.#reconcile();
  }

  /**
   * Creates a pod, which its node's kubelet then runs.
   *
   * @throws Error as {@link ContainerRuntime.attach}; the pod then stays pending
   */
  async createPod(spec: PodSpec): Promise<ClusterPod> {
    const { name, namespace = "default", labels = {}, node } = spec;
    const uid = `${namespace}-${name}-${++this.#sandboxes}`;
    await this.server.apply(podObject(spec, uid, []));
    const pod = this.lab.pod(`${name}-${this.#sandboxes}`);
    const portMappings = (spec.ports ?? []).flatMap(({ hostPort, containerPort }) =>
      hostPort === undefined ? [] : [{ hostPort, containerPort, protocol: "tcp" }],
    );
    const sandbox = { namespace: pod, podNamespace: namespace, podName: name, uid, runtimeConfig: { portMappings } };
    let attachment: Attachment;
    try {
      attachment = await this.node(node).runtime.attach(sandbox);
    } catch (error) {
      this.lab.remove(pod);
      throw error;
    }
    const { addresses, milliseconds: addMilliseconds } = attachment;
    const asEndpoint = { name, namespace, labels, nodeName: node, addresses, isTerminating: false };
    const running = { ...asEndpoint, sandbox, pod, addMilliseconds };
    this.#pods.set(`${namespace}/${name}`, running);
    await this.server.apply(podObject(spec, uid, addresses));
    await this.#reconcile();
    return running;
  }

  /** Returns the API's object of a running pod, with further labels. */
  podObject(
    { name, namespace, labels, nodeName, sandbox, addresses }: ClusterPod,
    further: Readonly<Record<string, string>>,
  ): RawObject {
    return podObject({ name, namespace, labels: { ...labels, ...further }, node: nodeName }, sandbox.uid, addresses);
  }

  /** Deletes a pod: removes it from its Services, then its sandbox, and then its object. */
  async deletePod(pod: ClusterPod): Promise<void> {
    const { name, namespace, nodeName, sandbox } = pod;
    const key = `${namespace}/${name}`;
    this.#pods.set(key, { ...pod, isTerminating: true });
    const object = this.podObject(pod, {});
    await this.server.apply({
      ...object,
      metadata: { ...metadataOf(object), deletionTimestamp: new Date().toISOString() },
    });
    await this.#reconcile();
    await this.node(nodeName).runtime.detach(sandbox);
    this.lab.remove(pod.pod);
    this.#pods.delete(key);
    await this.server.apply({ ...object, isGone: true });
    await this.#reconcile();
  }

  /** Returns the requests that the API server has refused so far, since the client has no permission or is unknown. */
  async refused(): Promise<readonly string[]> {
    const { asked = [] } = await this.server.tell({ type: "asked" });
    return asked.flatMap(({ verb, url, status = 200 }) =>
      REFUSALS.includes(status) ? [`${status} ${verb} ${url}`] : [],
    );
  }

  async stop(): Promise<void> {
    await Promise.all(this.nodes.map((node) => node.stopDaemon()));
    await this.server.stop();
    this.lab.destroy();
  }

  /** Updates EndpointSlices like their controller. */
  async #reconcile(): Promise<void> {
    const wanted = new Map<string, { readonly text: string; readonly object: RawObject }>();
    for (const service of this.#services.values()) {
      for (const object of slicesOf(service, this.pods)) {
        wanted.set(keyOf(object), { object, text: JSON.stringify(object) });
      }
    }
    const changes: RawObject[] = [];
    for (const [key, { object }] of this.#slices) if (!wanted.has(key)) changes.push({ ...object, isGone: true });
    for (const [key, { text, object }] of wanted) if (this.#slices.get(key)?.text !== text) changes.push(object);
    this.#slices.clear();
    for (const [key, slice] of wanted) this.#slices.set(key, slice);
    if (changes.length > 0) await this.server.apply(...changes);
  }
}

/** Returns a Namespace with the label that every Namespace has. */
export function namespaceObject(name: string, labels: Readonly<Record<string, string>> = {}): RawObject {
  return {
    apiVersion: "v1",
    kind: "Namespace",
    metadata: { name, labels: { "kubernetes.io/metadata.name": name, ...labels } },
  };
}

function podObject(
  { name, namespace = "default", labels = {}, node, ports = [] }: PodSpec,
  uid: string,
  addresses: readonly Address[],
): RawObject {
  const podIPs = addresses.map((address) => ({ ip: formatAddress(address) }));
  const isRunning = podIPs.length > 0;
  return {
    apiVersion: "v1",
    kind: "Pod",
    metadata: { name, namespace, uid, labels },
    spec: { nodeName: node, containers: [{ name: "main", ports }] },
    status: isRunning ? { phase: "Running", podIP: podIPs[0]?.ip, podIPs } : { phase: "Pending" },
  };
}

function isService(object: RawObject): object is RawObject & SelectingService {
  return object["kind"] === "Service";
}

function metadataOf(object: RawObject): Readonly<Record<string, unknown>> {
  return object["metadata"] as Readonly<Record<string, unknown>>;
}

function keyOf(object: RawObject): string {
  const { namespace, name } = metadataOf(object);
  return `${String(namespace)}/${String(name)}`;
}
