import { mkdirSync, renameSync, rmSync, writeFileSync } from "node:fs";
import path from "node:path";
import { stringify } from "yaml";
import { formatAddress } from "../../kernel/ip/address.ts";
import { formatCidr } from "../../kernel/ip/cidr.ts";
import type { Lab } from "../lab/lab.ts";
import type { TwoNodes } from "../lab/topology.ts";
import { PORT } from "./measure.ts";
import type { DemoPod } from "./world.ts";
import { NODES, POD_NAMESPACES } from "./world.ts";

/** The cluster's objects as files of Kubernetes YAML, in a directory that the daemons follow. */
export class Cluster {
  readonly directory: string;
  readonly #files = new Map<string, readonly object[]>();

  /** Writes the namespaces and the nodes. */
  constructor(lab: Lab, nodes: TwoNodes) {
    this.directory = path.join(lab.scratch, "objects");
    mkdirSync(this.directory);
    for (const name of POD_NAMESPACES) {
      this.#write(`namespace-${name}`, { apiVersion: "v1", kind: "Namespace", metadata: { name, labels: { name } } });
    }
    for (const name of NODES) {
      const { addresses, podCidrs } = nodes[name];
      this.#write(name, {
        apiVersion: "v1",
        kind: "Node",
        metadata: { name },
        spec: { podCIDRs: podCidrs.map(formatCidr) },
        status: { addresses: addresses.map((address) => ({ type: "InternalIP", address: formatAddress(address) })) },
      });
    }
  }

  /** Writes a pod as it is once it has its addresses. */
  addPod({ name, podNamespace: namespace, labels, node, addresses }: DemoPod): void {
    const podIPs = ([4, 6] as const).map((family) => ({ ip: formatAddress(addresses[family]) }));
    this.#write(name, {
      apiVersion: "v1",
      kind: "Pod",
      metadata: { name, namespace, labels },
      spec: { nodeName: node, containers: [{ name: "main", ports: [{ name: "web", containerPort: PORT }] }] },
      status: { phase: "Running", podIP: podIPs[0]?.ip, podIPs },
    });
  }

  /** Writes Services and their slices, all of them in one file. */
  addServices(manifests: readonly object[]): void {
    this.#write("services", ...manifests);
  }

  /** Writes policies instead of those there are, none for none. */
  setPolicies(manifests: readonly object[]): void {
    if (manifests.length > 0) return this.#write("policies", ...manifests);
    this.#files.delete("policies");
    rmSync(path.join(this.directory, "policies.yaml"));
  }

  /** Everything there is. */
  get objects(): readonly object[] {
    return [...this.#files.values()].flat();
  }

  /** Renamed into place, a file takes effect whole and at once (DAEMON-03). */
  #write(name: string, ...objects: readonly object[]): void {
    this.#files.set(name, objects);
    const unfinished = path.join(this.directory, `.${name}`);
    writeFileSync(unfinished, objects.map((object) => stringify(object)).join("---\n"));
    renameSync(unfinished, path.join(this.directory, `${name}.yaml`));
  }
}
