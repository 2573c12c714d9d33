import assert from "node:assert/strict";
import { Buffer } from "node:buffer";
import { mkdirSync, writeFileSync } from "node:fs";
import { formatAddress, parseAddress } from "../../../kernel/ip/address.ts";
import { ApiServerProcess } from "../../apiserver/process.ts";
import type { RawObject } from "../../apiserver/storage.ts";
import { add, type Configuration, LAB_BRIDGE } from "../../lab/cni.ts";
import type { Lab, LabPod } from "../../lab/lab.ts";
import type { LabNamespace } from "../../lab/namespace.ts";
import { Prober } from "../../lab/probe/prober.ts";
import { twoNodes, type WiredNode } from "../../lab/topology.ts";
import { type Certificate, makeCertificate } from "../certificate.ts";
import { manifestGrants } from "./manifest_grants.ts";
import { type DaemonProcess, startDaemon } from "./policyd.ts";
import { valueWhen } from "../until.ts";

export const PORT = 6443;
const TOKEN = "t0ken-of-policyd";
/** The cluster IP of {@link SERVICE}, which is not the address of any Service of a storm. */
export const VIP = "10.96.255.10";

export const SERVICE: RawObject = {
  apiVersion: "v1",
  kind: "Service",
  metadata: { name: "web", namespace: "shop" },
  spec: {
    type: "ClusterIP",
    clusterIP: VIP,
    clusterIPs: [VIP],
    ports: [{ name: "http", protocol: "TCP", port: 80 }],
  },
};

/** The Service's only slice, with one endpoint. */
export function slice(address: string): RawObject {
  return {
    apiVersion: "discovery.k8s.io/v1",
    kind: "EndpointSlice",
    metadata: { name: "web-1", namespace: "shop", labels: { "kubernetes.io/service-name": "web" } },
    addressType: "IPv4",
    ports: [{ name: "http", protocol: "TCP", port: 8080 }],
    endpoints: [{ addresses: [address], conditions: { ready: true }, nodeName: "node1" }],
  };
}

/** A pod of this node, labelled with its app. */
export function pod(name: string, app: string): RawObject {
  return {
    apiVersion: "v1",
    kind: "Pod",
    metadata: { name, namespace: "default", uid: `uid-${name}`, labels: { app } },
    spec: { nodeName: "node1" },
    status: { phase: "Running" },
  };
}

/** A node whose daemon lists and watches the tests' API server, which runs on the lab's router. */
export class ApiNode {
  readonly lab: Lab;
  readonly wired: WiredNode;
  readonly router: LabNamespace;
  readonly server: ApiServerProcess;
  readonly prober: Prober;
  readonly authority: Certificate = makeCertificate("authority");
  /** The directory of the files that the daemon reads, and of its socket. */
  readonly directory: string;
  readonly serverAddress: string;
  /** The pods that {@link attachPods} has attached, by name. */
  readonly pods = new Map<string, LabPod>();
  #daemon: DaemonProcess | undefined;

  constructor(lab: Lab) {
    this.lab = lab;
    const { node1, router } = twoNodes(lab);
    this.wired = node1;
    this.router = router;
    this.serverAddress = formatAddress(node1.routerAddresses[0]);
    this.server = new ApiServerProcess(router);
    this.prober = new Prober(lab);
    lab.atEnd(() => {
      this.#daemon?.child.kill("SIGKILL");
      void this.server.stop();
    });
    this.directory = `${lab.scratch}/policyd`;
    mkdirSync(`${this.directory}/account`, { recursive: true });
    writeFileSync(`${this.directory}/account/token`, TOKEN);
    writeFileSync(`${this.directory}/account/ca.crt`, this.authority.certificate);
  }

  /** Makes the server demand the daemon's token and grant what the manifest grants; it does not listen yet. */
  async prepare(): Promise<void> {
    await this.server.tell({ type: "features", features: { token: TOKEN, grants: manifestGrants() } });
  }

  async listen(): Promise<void> {
    const certificate = makeCertificate("server", this.authority, this.serverAddress);
    await this.server.tell({ type: "listen", address: this.serverAddress, port: PORT, certificate });
  }

  get daemon(): DaemonProcess {
    assert.ok(this.#daemon, "start() first");
    return this.#daemon;
  }

  /** Starts a daemon; an earlier one must have ended. */
  start(args: readonly string[] = [`--kubeconfig=${this.kubeconfig()}`], nodeOptions: readonly string[] = []): void {
    const fixed = [
      "--node-name=node1",
      `--state-directory=${this.wired.node.runDir}`,
      `--network-namespace=${this.wired.node.path}`,
      `--bridge=${LAB_BRIDGE}`,
    ];
    this.#daemon = startDaemon(`${this.directory}/run/policyd.sock`, [...fixed, ...args], undefined, nodeOptions);
  }

  async untilSynced(): Promise<void> {
    await this.daemon.statusWhen(({ isSynced }) => isSynced, "synced");
  }

  /** Writes a kubeconfig that holds the certificates and the token themselves, and returns its path. */
  kubeconfig(): string {
    const cluster = {
      server: `https://${this.serverAddress}:${PORT}`,
      "certificate-authority-data": Buffer.from(this.authority.certificate).toString("base64"),
    };
    const config = {
      apiVersion: "v1",
      kind: "Config",
      "current-context": "here",
      clusters: [{ name: "one", cluster }],
      contexts: [{ name: "here", context: { cluster: "one", user: "me" } }],
      users: [{ name: "me", user: { token: TOKEN } }],
    };
    writeFileSync(`${this.directory}/kubeconfig`, JSON.stringify(config));
    return `${this.directory}/kubeconfig`;
  }

  /** Returns the plugin's configuration: the daemon's socket, and how long the plugin waits for it. */
  overrides(wait = "30s"): Configuration {
    return { policyd: { socket: `${this.directory}/run/policyd.sock`, wait } };
  }

  /** Attaches three pods, two of which listen, and creates their Namespace and the Service in front of the first. */
  async attachPods(): Promise<void> {
    const namespace = { apiVersion: "v1", kind: "Namespace", metadata: { name: "default" } };
    await this.server.apply(namespace, SERVICE, slice("10.244.1.3"));
    for (const [name, number] of [
      ["client", 2],
      ["first", 3],
      ["second", 4],
    ] as const) {
      await this.server.apply(pod(name, name));
      const attached = this.lab.pod(name);
      assert.equal(add(this.wired, attached, this.overrides()).error, undefined);
      this.pods.set(name, attached);
      if (name !== "client")
        this.prober.listen("tcp", { namespace: attached, address: parseAddress(`10.244.1.${number}`), port: 8080 });
    }
  }

  /** Returns the name of the pod that answers the Service; "" when none does. */
  async answer(): Promise<string> {
    const client = this.pods.get("client");
    assert.ok(client, "attachPods() first");
    const flow = { protocol: "tcp", from: client, to: { address: parseAddress(VIP), port: 80 } } as const;
    const [result] = await this.prober.run([flow], { timeoutMilliseconds: 300 });
    return result?.reached === true ? (result.seenBy?.name ?? "") : "";
  }

  /** Whether a connection from the node to its API server's address and port reaches a pod. */
  async asksAPod(): Promise<boolean> {
    const to = { address: parseAddress(this.serverAddress), port: PORT };
    const flow = { protocol: "tcp", from: this.wired.node, to } as const;
    const [result] = await this.prober.run([flow], { timeoutMilliseconds: 400 });
    return result?.seenBy !== undefined;
  }

  async untilAnswered(expected: string): Promise<void> {
    const known = (): readonly string[] => {
      const { objects, problems } = this.daemon.status();
      return [JSON.stringify(objects), ...problems, this.ruleset(), this.daemon.log()];
    };
    await valueWhen(
      () => this.answer(),
      (found) => found === expected,
      (found) => [`answered by "${found}"; expected "${expected}"`, ...known()].join("\n"),
    );
  }

  /** Returns the node's rules as text, without the values of counters. */
  ruleset(): string {
    return this.wired.node.ruleset("--stateless");
  }
}
