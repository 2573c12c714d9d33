import { mkdirSync, writeFileSync } from "node:fs";
import path from "node:path";
import { ADMINISTRATOR_TOKEN, RealCluster } from "../../apiserver/real/cluster.ts";
import type { BuiltPrograms } from "../../cluster/programs.ts";
import type { Lab } from "../../lab/lab.ts";
import type { LabNamespace } from "../../lab/namespace.ts";
import { POD_CIDR } from "../objects/services.ts";
import { ApiClient } from "./api_client.ts";

/** The address of the API server and the credentials for it. */
export interface Access {
  readonly server: string;
  /** A directory with the files of a service account: `token` and `ca.crt`. */
  readonly account: string;
  readonly token: string;
}

/** etcd and kube-apiserver in a namespace of a lab, with nothing else of a control plane. They end with the lab. */
export class ControlPlane {
  readonly access: Access;
  readonly client: ApiClient;

  private constructor(access: Access, client: ApiClient) {
    this.access = access;
    this.client = client;
  }

  /**
   * Starts both and waits until the API server is ready.
   *
   * @param address one of the namespace's, on which nodes reach it
   * @throws Error with the end of the API server's log when it does not become ready
   */
  static async start(
    lab: Lab,
    namespace: LabNamespace,
    address: string,
    programs: Pick<BuiltPrograms, "etcd" | "kubernetes">,
  ): Promise<ControlPlane> {
    const account = path.join(lab.scratch, "account");
    const cluster = new RealCluster({
      directory: path.join(lab.scratch, "control-plane"),
      address,
      executables: {
        etcd: path.join(programs.etcd.directory, "etcd"),
        "kube-apiserver": path.join(programs.kubernetes.directory, "kube-apiserver"),
      },
      inside: (action) => namespace.inside(action),
    });
    lab.atEnd(() => void cluster.stop());
    const authority = cluster.authority.certificate;
    mkdirSync(account);
    writeFileSync(path.join(account, "token"), ADMINISTRATOR_TOKEN);
    writeFileSync(path.join(account, "ca.crt"), authority);
    const access = { server: cluster.url.origin, account, token: ADMINISTRATOR_TOKEN };
    const client = new ApiClient(namespace, { ...access, authority });
    lab.atEnd(() => client.end());
    cluster.startStorage();
    await cluster.start(async () => (await client.send([{ method: "GET", path: "/readyz" }])).failures.length === 0);
    return new ControlPlane(access, client);
  }

  /** Creates a Node of the cluster. */
  async addNode(name: string, address: string, podCidr: string = POD_CIDR): Promise<void> {
    const object = {
      apiVersion: "v1",
      kind: "Node",
      metadata: { name, labels: { "kubernetes.io/hostname": name } },
      spec: { podCIDR: podCidr, podCIDRs: [podCidr] },
      status: { addresses: [{ type: "InternalIP", address }] },
    };
    await this.client.must([{ method: "POST", path: "/api/v1/nodes", object }]);
    await this.client.must([{ method: "PUT", path: `/api/v1/nodes/${name}/status`, object }]);
  }
}
