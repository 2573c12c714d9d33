import { spawn } from "node:child_process";
import { mkdirSync, writeFileSync } from "node:fs";
import path from "node:path";
import { setTimeout as wait } from "node:timers/promises";
import { add, LAB_BRIDGE } from "../../lab/cni.ts";
import { createLab, type Lab } from "../../lab/lab.ts";
import type { LabNamespace } from "../../lab/namespace.ts";
import { twoNodes } from "../../lab/topology.ts";
import { startDaemon } from "../../support/daemon/policyd.ts";
import { UNHINDERED, writeKubeProxyFiles } from "../kube_proxy_files.ts";
import { FakeApiServer } from "./fake_api_server.ts";
import type { ConnectionKind, ConnectionProgram, Ends } from "./connection_program.ts";
import {
  CLUSTER_CIDR,
  CLUSTER_IP,
  CONNECTION_PORT,
  connectionObjects,
  NODES,
  podObjects,
  REMOTE,
  SERVER,
} from "./connection_objects.ts";

const API_PORT = 6443;
const SYNC_MILLISECONDS = 20_000;
/** A short timeout, so that entries of earlier connections do not accumulate over the rounds. */
const UDP_SECONDS = "5";

/** The keeper of the node's tables: nothing, policyd, or kube-proxy. */
export type Keeper =
  | { readonly kind: "none" }
  | { readonly kind: "policyd" }
  | { readonly kind: "kube-proxy"; readonly executable: string };

/** The ends of a connection, and how it is made. */
export interface ConnectionCase {
  readonly kind: ConnectionKind;
  readonly family: 4 | 6;
  readonly from: "node" | "pod";
  readonly to: "pod" | "remote";
  readonly by: "address" | "ClusterIP";
}

/** Returns a title such as "node to a pod by ClusterIP, TCP, IPv6". */
export function caseTitle({ kind, family, from, to, by }: ConnectionCase): string {
  const what = kind.endsWith("exchange") ? "established" : kind.startsWith("tcp") ? "connect" : "first exchange";
  const where = to === "pod" ? "a pod here" : "a pod elsewhere";
  return `${from} to ${where}${by === "address" ? "" : " by ClusterIP"}, ${kind.slice(0, 3).toUpperCase()} ${what}, IPv${family}`;
}

interface StandEnds {
  readonly node: LabNamespace;
  readonly pod: LabNamespace;
  readonly server: LabNamespace;
  readonly remote: LabNamespace;
}

/** A node with two pods that our plugin attached, a pod elsewhere, and the keeper of the node's tables. */
export class ConnectionStand implements AsyncDisposable {
  readonly name: string;
  readonly #lab: Lab;
  readonly #ends: StandEnds;
  readonly #stop: () => Promise<void>;

  private constructor(name: string, lab: Lab, ends: StandEnds, stop: () => Promise<void>) {
    this.name = name;
    this.#lab = lab;
    this.#ends = ends;
    this.#stop = stop;
  }

  /** @param name of the lab: letters, digits and dashes */
  static async open(name: string, keeper: Keeper): Promise<ConnectionStand> {
    const lab = createLab(name);
    try {
      const { node1: wired, router } = twoNodes(lab);
      for (const address of Object.values(REMOTE)) router.exec("ip", ["addr", "add", address, "dev", "lo"]);
      const { stop, overrides } = await keep(lab, wired.node, wired.node.runDir, keeper);
      const [server, pod] = ["server", "client"].map((podName) => {
        const made = lab.pod(podName);
        const { exitCode, stdout, stderr } = add(wired, made, overrides);
        if (exitCode !== 0) throw new Error(`${name}: the ADD of ${podName} failed: ${stdout}${stderr}`);
        return made;
      });
      if (server === undefined || pod === undefined) throw new Error("no pods");
      for (const namespace of [wired.node, router]) {
        for (const key of ["udp_timeout", "udp_timeout_stream"]) {
          namespace.writeSysctl(`net/netfilter/nf_conntrack_${key}`, UDP_SECONDS);
        }
      }
      return new ConnectionStand(name, lab, { node: wired.node, pod, server, remote: router }, stop);
    } catch (error) {
      lab.destroy();
      throw error;
    }
  }

  /** @returns the median of a number of connections, in microseconds */
  measure(program: ConnectionProgram, which: ConnectionCase, count: number): number {
    return program.measure(which.kind, count, this.#endsOf(which));
  }

  #endsOf({ family, from, to, by }: ConnectionCase): Ends {
    const { node, pod, server, remote } = this.#ends;
    const listen = (to === "pod" ? SERVER : REMOTE)[family];
    return {
      client: from === "node" ? node : pod,
      server: to === "pod" ? server : remote,
      listen,
      destination: by === "address" ? listen : CLUSTER_IP[to === "pod" ? "server" : "remote"][family],
      port: CONNECTION_PORT,
    };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#stop();
    this.#lab.destroy();
  }
}

interface Kept {
  readonly stop: () => Promise<void>;
  readonly overrides: Readonly<Record<string, unknown>>;
}

async function keep(lab: Lab, node: LabNamespace, runDir: string, keeper: Keeper): Promise<Kept> {
  switch (keeper.kind) {
    case "none":
      return { stop: async () => {}, overrides: {} };
    case "policyd":
      return keepByPolicyd(lab, node, runDir);
    case "kube-proxy":
      return keepByKubeProxy(lab, node, keeper.executable);
  }
}

async function keepByPolicyd(lab: Lab, node: LabNamespace, runDir: string): Promise<Kept> {
  const objects = path.join(lab.scratch, "objects");
  mkdirSync(objects, { recursive: true });
  const { services, endpointslices, nodes } = connectionObjects();
  const items = [...services, ...endpointslices, ...nodes, ...podObjects()];
  writeFileSync(path.join(objects, "all.json"), JSON.stringify({ apiVersion: "v1", kind: "List", items }));
  const socket = path.join(lab.scratch, "policyd", "policyd.sock");
  const daemon = startDaemon(socket, [
    `--node-name=${NODES[0].name}`,
    `--objects=${objects}`,
    `--state-directory=${runDir}`,
    `--network-namespace=${node.path}`,
    `--bridge=${LAB_BRIDGE}`,
    "--log-level=error",
  ]);
  await daemon.statusWhen(({ isSynced }) => isSynced, "synced");
  return {
    stop: async () => void (await daemon.kill("SIGKILL")),
    overrides: { policyd: { socket, wait: "5s" } },
  };
}

async function keepByKubeProxy(lab: Lab, node: LabNamespace, executable: string): Promise<Kept> {
  const objects = connectionObjects();
  // The server of this benchmark answers every request with all objects, and kube-proxy takes any Node that it receives
  // for its own.
  const configuration = writeKubeProxyFiles(path.join(lab.scratch, "kube-proxy"), {
    nodeName: NODES[0].name,
    clusterCidr: CLUSTER_CIDR,
    cluster: { server: `http://127.0.0.1:${API_PORT}` },
    user: {},
    ...UNHINDERED,
  });
  const api = await FakeApiServer.start(node, API_PORT, { ...objects, nodes: objects.nodes.slice(0, 1) });
  const child = node.inside(() =>
    spawn(executable, ["--config", configuration], { stdio: ["ignore", "ignore", "ignore"] }),
  );
  const deadline = performance.now() + SYNC_MILLISECONDS;
  while (!isServed(node, objects.services.length)) {
    if (performance.now() > deadline) throw new Error(`kube-proxy did not sync in ${SYNC_MILLISECONDS} ms`);
    await wait(100);
  }
  return {
    stop: async () => {
      child.kill("SIGKILL");
      await api[Symbol.asyncDispose]();
    },
    overrides: {},
  };
}

function isServed(node: LabNamespace, services: number): boolean {
  try {
    const text = ["ip", "ip6"].map((family) => node.exec("nft", ["list", "map", family, "kube-proxy", "service-ips"]));
    return text.join("").split(" : goto ").length - 1 >= 2 * services;
  } catch {
    // The tables do not exist yet.
    return false;
  }
}
