import { mkdirSync } from "node:fs";
import { setTimeout as wait } from "node:timers/promises";
import { writeAttachment } from "../../../attachment/attachment_writer.ts";
import { systemFileSystem } from "../../../ipam/file_system.ts";
import { readTextFile } from "../../../kernel/file.ts";
import type { KernelNotifications } from "../../../kernel/notifications/notifications.ts";
import { formatAddress } from "../../../kernel/ip/address.ts";
import { ApiServerProcess } from "../../apiserver/process.ts";
import type { Lab } from "../../lab/lab.ts";
import type { LabNamespace } from "../../lab/namespace.ts";
import { twoNodes } from "../../lab/topology.ts";
import { makeCertificate } from "../../support/certificate.ts";
import { attachmentOf, benchPods } from "../objects/policies.ts";
import { AddressCommits, COMMITS_SOURCE } from "./address_commits.ts";
import { clusterObjects, fill } from "./cluster.ts";
import { MeasuredDaemon, writeAccess } from "./measured_daemon.ts";
import type { Plan } from "./plan.ts";

const PORT = 6443;
/** A time longer than the daemon ever gathers changes. */
const QUIET_MILLISECONDS = 2000;

/** An API server that has all objects of a plan, and a node of that cluster on which daemons are started one after the other. */
export class MeasuredCluster {
  readonly server: ApiServerProcess;
  readonly commits = new AddressCommits();
  /** The node of the daemon. */
  readonly node: LabNamespace;
  readonly #directory: string;
  readonly #events: KernelNotifications;
  #daemon: MeasuredDaemon | undefined;

  private constructor(lab: Lab, server: ApiServerProcess, node: LabNamespace) {
    this.server = server;
    this.node = node;
    this.#directory = `${lab.scratch}/daemon`;
    this.#events = node.notifications();
    lab.atEnd(() => this.#daemon?.daemon.child.kill("SIGKILL"));
  }

  /** Fills the API server; no daemon runs yet. */
  static async open(lab: Lab, plan: Plan, progress: (step: string) => void): Promise<MeasuredCluster> {
    const { node1, router } = twoNodes(lab);
    const server = new ApiServerProcess(router);
    lab.atEnd(() => void server.stop());
    const address = formatAddress(node1.routerAddresses[0]);
    progress("filling the API server");
    await fill(server, clusterObjects(plan));
    const authority = makeCertificate("authority");
    const certificate = makeCertificate("server", authority, address);
    await server.tell({ type: "listen", address, port: PORT, certificate });
    const cluster = new MeasuredCluster(lab, server, node1.node);
    const directory = cluster.#directory;
    writeAccess(directory, `https://${address}:${PORT}`, authority.certificate);
    mkdirSync(`${directory}/state`);
    const bootId = (readTextFile(lab.calls, "/proc/sys/kernel/random/boot_id", 64) ?? "").trim();
    for (const pod of benchPods(plan).filter(({ isLocal }) => isLocal)) {
      writeAttachment(`${directory}/state`, { ...attachmentOf(pod), bootId }, systemFileSystem(lab.calls));
    }
    await cluster.#events.subscribe(COMMITS_SOURCE, cluster.commits);
    return cluster;
  }

  /**
   * Starts a daemon on a node without rules, which replaces the previous one.
   *
   * @returns it, and milliseconds from its start until everything is in force
   */
  async start(): Promise<{ readonly current: MeasuredDaemon; readonly sync: number }> {
    if (this.#daemon !== undefined) {
      await this.#daemon.daemon.kill("SIGKILL");
      const flushed = performance.now();
      this.node.exec("nft", ["flush", "ruleset"]);
      // The kernel reports this as well, and it is not the next daemon's first batch.
      await this.#lastOfBurst(flushed);
    }
    const begun = performance.now();
    const current = new MeasuredDaemon(this.node, this.#directory);
    this.#daemon = current;
    await current.daemon.statusWhen(({ isSynced }) => isSynced, "all objects read");
    return { current, sync: (await this.#lastOfBurst(begun)) - begun };
  }

  /** Ends the daemon and the API server. */
  async stop(): Promise<void> {
    await this.#events.stop();
    await this.#daemon?.daemon.kill("SIGTERM");
    await this.server.stop();
  }

  /** Waits until no further batch follows. @returns when the last one was reported */
  async #lastOfBurst(begun: number): Promise<number> {
    while (this.commits.last < begun || performance.now() - this.commits.last < QUIET_MILLISECONDS) await wait(50);
    return this.commits.last;
  }
}
