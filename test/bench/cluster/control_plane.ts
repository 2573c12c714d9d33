import { type ChildProcess, spawn } from "node:child_process";
import { mkdirSync, openSync, readFileSync, writeFileSync } from "node:fs";
import path from "node:path";
import { setTimeout as wait } from "node:timers/promises";
import { ADMINISTRATOR_TOKEN, apiServerArguments, writeApiServerFiles } from "../../apiserver/real/standalone.ts";
import type { BuiltPrograms } from "../../cluster/programs.ts";
import type { Lab } from "../../lab/lab.ts";
import type { LabNamespace } from "../../lab/namespace.ts";
import { POD_CIDR, SERVICE_CIDR } from "../objects/services.ts";
import { ApiClient } from "./api_client.ts";

const PORT = 6443;
const READY_MILLISECONDS = 120_000;
const SHOWN_OF_A_LOG = 4000;

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
  readonly #logs: string;

  private constructor(access: Access, client: ApiClient, logs: string) {
    this.access = access;
    this.client = client;
    this.#logs = logs;
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
    const directory = path.join(lab.scratch, "control-plane");
    const account = path.join(directory, "account");
    mkdirSync(account, { recursive: true });
    const authority = writeApiServerFiles(directory, address);
    writeFileSync(path.join(account, "token"), ADMINISTRATOR_TOKEN);
    writeFileSync(path.join(account, "ca.crt"), authority.certificate);
    const file = (name: string): string => path.join(directory, name);
    const start = (name: string, executable: string, args: readonly string[]): ChildProcess => {
      const log = openSync(file(`${name}.log`), "a");
      const child = namespace.inside(() => spawn(executable, args, { stdio: ["ignore", log, log] }));
      lab.atEnd(() => child.kill("SIGKILL"));
      return child;
    };
    start("etcd", path.join(programs.etcd.directory, "etcd"), [
      `--data-dir=${file("etcd")}`,
      // Waits for this machine's disk are not measured.
      "--unsafe-no-fsync",
      "--listen-client-urls=http://127.0.0.1:2379",
      "--advertise-client-urls=http://127.0.0.1:2379",
      "--listen-peer-urls=http://127.0.0.1:2380",
    ]);
    const server = start(
      "kube-apiserver",
      path.join(programs.kubernetes.directory, "kube-apiserver"),
      apiServerArguments({
        directory,
        etcd: "http://127.0.0.1:2379",
        address,
        port: PORT,
        advertised: address,
        authorization: "Node,RBAC",
        services: SERVICE_CIDR,
      }),
    );
    const url = `https://${address}:${PORT}`;
    const client = new ApiClient(namespace, {
      server: url,
      token: ADMINISTRATOR_TOKEN,
      authority: authority.certificate,
    });
    lab.atEnd(() => client.end());
    const control = new ControlPlane(
      { server: url, account, token: ADMINISTRATOR_TOKEN },
      client,
      file("kube-apiserver.log"),
    );
    await control.#untilReady(server);
    return control;
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

  async #untilReady(server: ChildProcess): Promise<void> {
    const deadline = performance.now() + READY_MILLISECONDS;
    for (;;) {
      const { failures } = await this.client.send([{ method: "GET", path: "/readyz" }]);
      if (failures.length === 0) return;
      if (performance.now() > deadline || server.exitCode !== null) {
        const log = readFileSync(this.#logs, "utf8").slice(-SHOWN_OF_A_LOG);
        throw new Error(`kube-apiserver is not ready: ${failures.join("; ")}\n${log}`);
      }
      await wait(200);
    }
  }
}
