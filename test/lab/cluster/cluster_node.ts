import process from "node:process";
import { spawn } from "node:child_process";
import type { PolicydStatus } from "../../../attachment/policyd_messages.ts";
import { type Address, addressPlus, type Family, familyOf, formatAddress } from "../../../kernel/ip/address.ts";
import { networkAddress, parseCidr } from "../../../kernel/ip/cidr.ts";
import type { RawObject } from "../../apiserver/storage.ts";
import { BUNDLE, type DaemonProcess, followDaemon } from "../../support/daemon/policyd.ts";
import { type Scrape, scrapeWhen } from "../../support/daemon/scrape.ts";
import { confined, type Confinement } from "../confined/confined.ts";
import type { Lab, LabNode } from "../lab.ts";
import type { Machine } from "./fabric.ts";
import { ContainerRuntime } from "./runtime.ts";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { parse } from "yaml";
import { daemonSet, type PodTemplate } from "../../support/daemon/daemon_set.ts";
import { INSTALL, manifestObjects } from "../../support/daemon/manifest_grants.ts";
import { SECCOMP_PROFILE } from "../../support/programs/podman.ts";
import { SOURCE } from "../cni.ts";

/** The directory of a service account's token, which the kubelet mounts without an entry in the manifest. */
const ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount";
const SETTINGS = "/proc/sys/net";

type Container = PodTemplate["containers"][number];

/** The access of a daemon to its cluster. */
interface ClusterAccess {
  readonly server: string;
  readonly token: string;
  readonly authority: string;
}

/**
 * A node's files as in the DaemonSet's mounts, below a directory that stands for the node's root.
 *
 * In the lab there is no image and no mount: instead, the daemon gets these paths by its configuration.
 */
class DaemonFiles {
  readonly #root: string;
  readonly #pod: PodTemplate;
  readonly #configuration: Readonly<Record<string, unknown>>;

  constructor(root: string, manifest: string = readFileSync(INSTALL, "utf8")) {
    this.#root = root;
    this.#pod = daemonSet(manifest).pod;
    this.#configuration = configurationIn(manifest);
  }

  /** Returns the path of a place on the node. */
  at(place: string): string {
    return `${this.#root}${place}`;
  }

  get socket(): string {
    return this.at("/run/drawbridge/policyd.sock");
  }

  /** Returns the arguments of the container. */
  args(nodeName: string): readonly string[] {
    return this.#container.args.map((text) =>
      text.replace("$(NODE_NAME)", nodeName).replace("--config=", `--config=${this.#root}`),
    );
  }

  /** The container's permissions, and the directories of the machine that are its mounts. */
  get confinement(): Confinement {
    const { capabilities, readOnlyRootFilesystem } = this.#container.securityContext;
    if (!readOnlyRootFilesystem) throw new Error("the DaemonSet's root is not read-only");
    const mounts = (this.#container.volumeMounts ?? []).filter(({ readOnly }) => readOnly !== true);
    return {
      capabilities: capabilities.add,
      writable: mounts.map(({ name }) => {
        const { hostPath } = this.#pod.volumes.find((volume) => volume.name === name) ?? {};
        if (hostPath === undefined) throw new Error(`volume ${name}: no directory of the node`);
        return hostPath.path === SETTINGS ? SETTINGS : this.at(hostPath.path);
      }),
      seccompProfile: SECCOMP_PROFILE,
    };
  }

  /**
   * Writes the files that exist on a node before its daemon: the directories, the kubelet's kubeconfig, the account,
   * the ConfigMap.
   */
  write({ server, token, authority }: ClusterAccess): void {
    for (const place of this.confinement.writable) if (place !== SETTINGS) mkdirSync(place, { recursive: true });
    for (const place of ["/etc/drawbridge", "/etc/kubernetes", ACCOUNT]) mkdirSync(this.at(place), { recursive: true });
    const kubelet = { apiVersion: "v1", kind: "Config", clusters: [{ name: "k", cluster: { server } }] };
    writeFileSync(this.at("/etc/kubernetes/kubelet.conf"), JSON.stringify(kubelet));
    writeFileSync(this.at(`${ACCOUNT}/token`), token);
    writeFileSync(this.at(`${ACCOUNT}/ca.crt`), authority);
    const fields = {
      ...this.#configuration,
      cniSourceDirectory: SOURCE,
      cniBinDirectory: this.at("/opt/cni/bin"),
      cniConfDirectory: this.at("/etc/cni/net.d"),
      socketPath: this.socket,
      stateDirectory: this.at("/run/drawbridge"),
      kubeletKubeconfig: this.at("/etc/kubernetes/kubelet.conf"),
      serviceAccountDirectory: this.at(ACCOUNT),
    };
    writeFileSync(this.at("/etc/drawbridge/policyd.yaml"), JSON.stringify(fields));
  }

  get #container(): Container {
    const [container] = this.#pod.containers;
    if (container === undefined) throw new Error("the DaemonSet has no container");
    return container;
  }
}

/** Returns the contents of a manifest's ConfigMap. */
function configurationIn(manifest: string): Readonly<Record<string, unknown>> {
  const configMap = manifestObjects(manifest).find(({ kind }) => kind === "ConfigMap");
  const text = (configMap?.["data"] as Readonly<Record<string, string>> | undefined)?.["policyd.yaml"];
  if (text === undefined) throw new Error("the manifest has no ConfigMap with policyd.yaml");
  return parse(text) as Readonly<Record<string, unknown>>;
}

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
