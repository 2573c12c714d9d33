import { mkdirSync } from "node:fs";
import { setTimeout as wait } from "node:timers/promises";
import { formatAddress } from "../../../kernel/ip/address.ts";
import { ApiServerProcess } from "../../apiserver/process.ts";
import { del, podCall, startPlugin } from "../../lab/cni.ts";
import type { Lab } from "../../lab/lab.ts";
import { ProbeSocket, SocketType } from "../../lab/probe/socket.ts";
import { type TwoNodes, twoNodes } from "../../lab/topology.ts";
import { pod as podManifest } from "../../support/daemon/api_node.ts";
import { makeCertificate } from "../../support/certificate.ts";
import { BUNDLE, type DaemonProcess, startDaemon } from "../../support/daemon/policyd.ts";
import { NODE } from "../policy/cluster.ts";
import { recordLocalPods } from "../policy/local_records.ts";
import { measured, type Row } from "../row.ts";
import { clusterObjects, fill } from "./cluster.ts";
import { imageStart } from "./image_start.ts";
import { writeAccess } from "./measured_daemon.ts";
import type { Plan } from "./plan.ts";

const API_PORT = 6443;
const GOAL = 500;
const PATIENCE_MILLISECONDS = 60_000;
const SMALL = { pods: 110, services: 20, endpoints: 3, policies: 20 } as const;

/** Times in milliseconds after the daemon has read all objects. */
interface Release {
  /** Until a packet of the pod got through. */
  readonly packet: number;
  /** Until its ADD has returned. */
  readonly added: number;
}

/**
 * Measures how long a pod waits after the sync that follows an absence of the API server: where an earlier daemon's
 * rules keep it closed, and on a node that has booted and has no rules yet, where it is not started before its ADD
 * returns.
 */
export async function releases(
  makeLab: (name: string) => Lab,
  plan: Plan,
  progress: (step: string) => void,
): Promise<readonly Row[]> {
  const rows: Row[] = [];
  for (const size of [{ ...plan, ...SMALL }, plan]) {
    using lab = makeLab(`bench-release-${size.pods}`);
    await using node = await NodeWithoutServer.make(lab, size);
    const words = `API comes back, ${size.pods} pods, ${size.services} Services, ${size.policies} policies: sync`;
    const closed: number[] = [];
    const booted: number[] = [];
    for (let run = 1; run <= size.releases; run++) {
      progress(`${words}, ${run} of ${size.releases}`);
      await node.leaveRules();
      closed.push((await node.release(`closed${run}`)).packet);
      node.reboot();
      booted.push((await node.release(`booted${run}`)).added);
    }
    rows.push(measured(`${words} to the first packet of a pod that was kept closed`, "ms", closed, GOAL));
    rows.push(measured(`${words} to the end of an ADD, on a node without rules`, "ms", booted, GOAL));
  }
  return rows;
}

/** A node whose API server is away except while it is needed. */
class NodeWithoutServer implements AsyncDisposable {
  readonly #lab: Lab;
  readonly #nodes: TwoNodes;
  readonly #server: ApiServerProcess;
  readonly #authority = makeCertificate("authority");
  readonly #directory: string;
  readonly #address: string;
  #daemon: DaemonProcess | undefined;

  private constructor(lab: Lab) {
    this.#lab = lab;
    this.#nodes = twoNodes(lab);
    this.#server = new ApiServerProcess(this.#nodes.router);
    this.#address = formatAddress(this.#nodes.node1.routerAddresses[0]);
    this.#directory = `${lab.scratch}/daemon`;
  }

  static async make(lab: Lab, plan: Plan): Promise<NodeWithoutServer> {
    const made = new NodeWithoutServer(lab);
    const objects = [{ apiVersion: "v1", kind: "Namespace", metadata: { name: "default" } }, ...clusterObjects(plan)];
    await fill(made.#server, objects);
    mkdirSync(`${made.#directory}/run`, { recursive: true });
    recordLocalPods(made.#nodes.node1.node.runDir, plan, lab);
    writeAccess(made.#directory, `https://${made.#address}:${API_PORT}`, made.#authority.certificate);
    return made;
  }

  /** Makes a daemon bring its rules in force, and ends it. */
  async leaveRules(): Promise<void> {
    const daemon = this.#start();
    await this.#listen();
    await untilSaid(daemon, RULES_IN_FORCE);
    await this.#end();
  }

  /** Deletes everything in the kernel. */
  reboot(): void {
    this.#nodes.node1.node.exec("nft", ["flush", "ruleset"]);
  }

  /** Makes a pod while the server is away, and measures when it is released after the server's return. */
  async release(name: string): Promise<Release> {
    const { node1, router } = this.#nodes;
    const daemon = this.#start();
    const { attachments } = await daemon.statusWhen(({ problemCount }) => problemCount > 0, "the server is away");
    const pod = this.#lab.pod(name);
    await this.#server.apply(podManifest(name, "late"));
    const overrides = { policyd: { socket: this.#socket, wait: `${PATIENCE_MILLISECONDS}ms` } };
    let added = 0;
    const call = async (): Promise<void> => {
      const { error } = await startPlugin(node1.node, podCall("ADD", node1, pod, overrides)).outcome;
      added = Date.now();
      if (error !== undefined) throw new Error(`ADD: ${error.msg}`);
    };
    const outcome = call();
    await daemon.statusWhen((status) => status.attachments > attachments, "the pod waits");
    await until(() => pod.exec("ip", ["-4", "address", "show"]).includes("inet 10."), "the pod has an address");
    const to = { address: node1.routerAddresses[0], port: 9 };
    const receiver = ProbeSocket.open(router, 4, SocketType.DATAGRAM);
    receiver.bind(to);
    const sender = ProbeSocket.open(pod, 4, SocketType.DATAGRAM);
    await this.#listen();
    await until(() => {
      sender.sendTo(Uint8Array.of(1), to);
      return receiver.receive().kind === "data";
    }, "a packet of the pod gets through");
    const packet = Date.now();
    await outcome;
    const synced = await untilSaid(daemon, OBJECTS_READ);
    for (const socket of [sender, receiver]) socket.close();
    del(node1, pod, overrides);
    await this.#server.apply({ ...podManifest(name, "late"), isGone: true });
    await this.#end();
    return { packet: packet - synced, added: added - synced };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#daemon?.kill("SIGKILL");
    await this.#server.stop();
  }

  get #socket(): string {
    return `${this.#directory}/run/policyd.sock`;
  }

  #start(): DaemonProcess {
    const { node } = this.#nodes.node1;
    const places = [`--state-directory=${node.runDir}`, `--network-namespace=${node.path}`];
    const args = [`--node-name=${NODE}`, `--config=${this.#directory}/policyd.json`, ...places];
    this.#daemon = startDaemon(this.#socket, args, BUNDLE, imageStart().nodeOptions);
    return this.#daemon;
  }

  async #listen(): Promise<void> {
    const certificate = makeCertificate("server", this.#authority, this.#address);
    await this.#server.tell({ type: "listen", address: this.#address, port: API_PORT, certificate });
  }

  async #end(): Promise<void> {
    await this.#daemon?.kill("SIGKILL");
    await this.#server.tell({ type: "down" });
  }
}

const OBJECTS_READ = "all objects read";
const RULES_IN_FORCE = "all rules are in force";

/** Waits for a line of the daemon's log. @returns its time, in milliseconds since the epoch */
async function untilSaid(daemon: DaemonProcess, words: string): Promise<number> {
  const line = (): string | undefined =>
    daemon
      .log()
      .split("\n")
      .find((text) => text.includes(words));
  await until(() => line() !== undefined, words);
  return Date.parse(line()?.split(" ")[0] ?? "");
}

async function until(holds: () => boolean, what: string): Promise<void> {
  for (const end = performance.now() + PATIENCE_MILLISECONDS; !holds(); await wait(1)) {
    if (performance.now() > end) throw new Error(`still not the case: ${what}`);
  }
}
