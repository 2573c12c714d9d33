import { mkdirSync, renameSync, writeFileSync } from "node:fs";
import path from "node:path";
import { stringify } from "yaml";
import { formatAddress } from "../../kernel/ip/address.ts";
import { formatCidr } from "../../kernel/ip/cidr.ts";
import type { Lab } from "../lab/lab.ts";
import type { TwoNodes } from "../lab/topology.ts";
import type { DemoPod } from "./world.ts";
import { NODES } from "./world.ts";

/** What the lab's plugin configuration says of every pod (test/lab/cni.ts). */
const NAMESPACE = "default";

/** The cluster's objects as files of Kubernetes YAML, in a directory that the daemons follow. */
export class Cluster {
  readonly directory: string;
  readonly #objects: object[] = [];

  /** Writes the namespace and the nodes. */
  constructor(lab: Lab, nodes: TwoNodes) {
    this.directory = path.join(lab.scratch, "objects");
    mkdirSync(this.directory);
    this.#write("namespace", { apiVersion: "v1", kind: "Namespace", metadata: { name: NAMESPACE } });
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
  addPod({ name, node, addresses }: DemoPod): void {
    const podIPs = ([4, 6] as const).map((family) => ({ ip: formatAddress(addresses[family]) }));
    this.#write(name, {
      apiVersion: "v1",
      kind: "Pod",
      metadata: { name, namespace: NAMESPACE, labels: { app: name } },
      spec: { nodeName: node },
      status: { phase: "Running", podIP: podIPs[0]?.ip, podIPs },
    });
  }

  /** Writes Services and their slices, all of them in one file. */
  addServices(manifests: readonly object[]): void {
    this.#write("services", ...manifests);
  }

  /** Everything written so far. */
  get objects(): readonly object[] {
    return this.#objects;
  }

  /** Renamed into place, a file takes effect whole and at once (DAEMON-03). */
  #write(name: string, ...objects: readonly object[]): void {
    this.#objects.push(...objects);
    const unfinished = path.join(this.directory, `.${name}`);
    writeFileSync(unfinished, objects.map((object) => stringify(object)).join("---\n"));
    renameSync(unfinished, path.join(this.directory, `${name}.yaml`));
  }
}
