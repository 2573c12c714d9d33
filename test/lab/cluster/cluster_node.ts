import { spawn } from "node:child_process";
import process from "node:process";
import type { PolicydStatus } from "../../../attachment/policyd_messages.ts";
import { type Address, addressPlus, type Family, familyOf, formatAddress } from "../../../kernel/ip/address.ts";
import { networkAddress, parseCidr } from "../../../kernel/ip/cidr.ts";
import type { RawObject } from "../../apiserver/storage.ts";
import { BUNDLE, type DaemonProcess, followDaemon } from "../../support/daemon/policyd.ts";
import { type Scrape, scrapeWhen } from "../../support/daemon/scrape.ts";
import { confined } from "../confined/confined.ts";
import type { Lab, LabNode } from "../lab.ts";
import { type ClusterAccess, DaemonFiles } from "./daemon_files.ts";
import type { Machine } from "./fabric.ts";
import { ContainerRuntime } from "./runtime.ts";

/** A daemon copies a hundred megabytes before it is ready, and the machine may be busy. */
const PATIENCE_SECONDS = 30;

/** A node of a cluster: its machine, its files, its container runtime, and policyd as the DaemonSet runs it. */
export class ClusterNode {
  readonly name: string;
  readonly machine: Machine;
  readonly podCidrs: readonly string[];
  readonly runtime: ContainerRuntime;
  readonly files: DaemonFiles;
  #daemon: DaemonProcess | undefined;
  readonly #lab: Lab;

  constructor(lab: Lab, machine: Machine, podCidrs: readonly string[], access: ClusterAccess) {
    this.#lab = lab;
    this.name = machine.node.name;
    this.machine = machine;
    this.podCidrs = podCidrs;
    this.files = new DaemonFiles(`${lab.scratch}/${this.name}/root`);
    this.files.write(access);
    this.runtime = new ContainerRuntime(this.namespace, {
      configurations: this.files.at("/etc/cni/net.d"),
      binaries: this.files.at("/opt/cni/bin"),
      reservations: machine.node.dataDir,
    });
  }

  get namespace(): LabNode {
    return this.machine.node;
  }

  /** Returns the address of a family at which pods reach the node: the first of their range (POD-08). */
  gateway(family: Family): Address {
    const range = this.podCidrs.map((text) => parseCidr(text)).find(({ address }) => familyOf(address) === family);
    const gateway = range && addressPlus(networkAddress(range), 1n);
    if (gateway === undefined) throw new Error(`${this.name}: no pod CIDR of IPv${family}`);
    return gateway;
  }

  /** The running daemon. @throws Error when none runs */
  get daemon(): DaemonProcess {
    if (this.#daemon === undefined) throw new Error(`${this.name}: no daemon`);
    return this.#daemon;
  }

  /** Starts policyd in the node's namespace, with its container's restrictions; the previous one must have ended. */
  startDaemon(bundle: string = BUNDLE): void {
    const program = confined(this.files.confinement, process.execPath, [bundle, ...this.files.args(this.name)]);
    // The kubelet gives every container this environment; the address works only once Services do (SVC-25).
    const env = { NODE_NAME: this.name, KUBERNETES_SERVICE_HOST: "10.96.0.1", KUBERNETES_SERVICE_PORT: "443" };
    const child = this.namespace.inside(() =>
      spawn(program.file, program.args, { cwd: "/", env, stdio: ["ignore", "ignore", "pipe"] }),
    );
    this.#lab.atEnd(() => void child.kill("SIGKILL"));
    this.#daemon = followDaemon(child, this.files.socket);
  }

  /** Waits until pods can be attached: the last thing that a daemon does for a node. */
  async untilReady(): Promise<void> {
    await this.daemon.statusWhen(
      ({ isSynced }) => isSynced && this.runtime.isNetworkReady,
      `policyd of ${this.name} has the network ready`,
      PATIENCE_SECONDS,
    );
  }

  /** Waits until the daemon knows these numbers of objects of each kind, and the kernel has their elements. */
  async untilInForce(counts: ReadonlyMap<string, number>): Promise<void> {
    const knowsAll = ({ objects }: PolicydStatus): boolean =>
      Object.entries(objects).every(([kind, count]) => count === (counts.get(kind) ?? 0));
    await this.daemon.statusWhen(
      knowsAll,
      `policyd of ${this.name} knows ${JSON.stringify(Object.fromEntries(counts))}`,
      PATIENCE_SECONDS,
    );
    const isInForce = (values: Scrape): boolean => values.get("drawbridge_synced") === 1;
    await scrapeWhen(this.namespace, isInForce, `policyd of ${this.name} has it all in the kernel`);
  }

  /** Ends the daemon. */
  async stopDaemon(signal: NodeJS.Signals = "SIGKILL"): Promise<void> {
    await this.#daemon?.kill(signal);
    this.#daemon = undefined;
  }

  /** Returns the Node as a kubelet and the controller manager write it. */
  object(isSchedulable: boolean): RawObject {
    const { addresses } = this.machine;
    return {
      apiVersion: "v1",
      kind: "Node",
      metadata: { name: this.name, labels: { "kubernetes.io/hostname": this.name } },
      spec: {
        podCIDR: this.podCidrs[0],
        podCIDRs: this.podCidrs,
        ...(isSchedulable
          ? {}
          : { unschedulable: true, taints: [{ key: "node.kubernetes.io/unschedulable", effect: "NoSchedule" }] }),
      },
      status: {
        addresses: [
          { type: "InternalIP", address: formatAddress(addresses[4]) },
          { type: "InternalIP", address: formatAddress(addresses[6]) },
          { type: "Hostname", address: this.name },
        ],
        conditions: [{ type: "Ready", status: this.runtime.isNetworkReady ? "True" : "False" }],
      },
    };
  }
}
