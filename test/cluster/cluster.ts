import { copyFileSync, mkdirSync, readdirSync, rmdirSync, writeFileSync } from "node:fs";
import path from "node:path";
import { end, enter, startInside, startMachine, startNode } from "./node/processes.ts";
import { containerdConfiguration } from "./parts/containerd.ts";
import { controlPlane } from "./parts/control_plane.ts";
import { kubeadmConfiguration } from "./parts/kubeadm.ts";
import { kubeletArguments, kubeletConfiguration } from "./parts/kubelet.ts";
import { STATE } from "./place.ts";
import { run, until } from "./run.ts";
import type { Settings } from "./settings.ts";
import { MACHINE_ADDRESSES, planNodes } from "./settings.ts";
import type { RunningCluster, RunningNode } from "./state.ts";
import { readCluster, removeState, writeCluster } from "./state.ts";

/** The programs and images of a cluster. */
export interface Materials {
  /** Finds a built program by its name. */
  readonly program: (name: string) => string;
  /** The directory of Kubernetes' programs. */
  readonly programs: string;
  readonly version: string;
  /** The image of a sandbox, by its name. */
  readonly pause: string;
  /** Archives of images that every node gets. */
  readonly images: readonly string[];
}

/** The kubeconfig of the cluster's administrator, for programs outside of it. */
export const ADMINISTRATOR = path.join(STATE, "node1/etc/kubernetes/super-admin.conf");

const PKI = "/etc/kubernetes/pki";

/** Makes a cluster without a network add-on: its nodes are not ready yet. */
export async function makeCluster(
  settings: Settings,
  materials: Materials,
  say: (line: string) => void,
): Promise<RunningCluster> {
  const machine = await startMachine(STATE, Object.values(MACHINE_ADDRESSES));
  const nodes: RunningNode[] = [];
  for (const plan of planNodes(settings)) {
    const directory = path.join(STATE, plan.name);
    const node = { ...plan, directory, first: await startNode(machine, plan.name, directory) };
    connect(machine.pid, node, settings);
    nodes.push(node);
    writeCluster({ settings, machine, nodes });
  }
  const [first] = nodes;
  if (first === undefined) throw new RangeError("a cluster has at least one node");
  writeHosts(nodes);
  say(`${nodes.length} nodes are connected`);

  makeCertificates(settings, materials, first, nodes);
  await startControlPlane(settings, materials, first);
  say("the API server is ready");
  await Promise.all(nodes.map((node) => startRuntime(materials, node)));
  say("containerd runs on every node and has the images");
  for (const node of nodes) startKubelet(settings, materials, node);
  configureCluster(materials, first);
  await until(
    "the nodes' objects",
    () =>
      kubectl(materials, ["get", "nodes", "-o", "name"]).trim().split("\n").length === nodes.length ? true : undefined,
    60,
  );
  say("every kubelet has registered its node");
  return { settings, machine, nodes };
}

/** Ends a cluster and removes everything that it left on this machine. Also does so for one that was never completed. */
export async function removeCluster(): Promise<void> {
  const cluster = readCluster();
  if (cluster !== undefined) await end(cluster.machine);
  await until("the removal of the nodes' cgroups", () => (removeCgroups() ? true : undefined), 30);
  removeState();
}

/** Runs kubectl as the cluster's administrator and returns its output. */
export function kubectl(materials: Materials, args: readonly string[], input?: string): string {
  const cluster = readCluster();
  if (cluster === undefined) throw new Error("no cluster is up");
  return enter(
    "machine",
    cluster.machine,
    [materials.program("kubectl"), `--kubeconfig=${ADMINISTRATOR}`, ...args],
    input === undefined ? {} : { input },
  );
}

function connect(machine: number, { name, first, addresses }: RunningNode, settings: Settings): void {
  // Not in the machine's PID namespace: the number of the node's process is that of this one.
  const link = `ip link add ${name} up master link0 type veth peer name eth0 netns ${first.pid}`;
  run("nsenter", ["--target", `${machine}`, "--net", "--", ...link.split(" ")]);
  const [gateway4] = MACHINE_ADDRESSES[4].split("/");
  const [gateway6] = MACHINE_ADDRESSES[6].split("/");
  const commands = [
    ["link", "set", "eth0", "up"],
    ...(settings.isDualStack || settings.firstFamily === 4
      ? [
          ["address", "add", `${addresses[4]}/24`, "dev", "eth0"],
          ["route", "add", "default", "via", `${gateway4}`],
        ]
      : []),
    ...(settings.isDualStack || settings.firstFamily === 6
      ? [
          ["address", "add", `${addresses[6]}/64`, "dev", "eth0", "nodad"],
          ["-6", "route", "add", "default", "via", `${gateway6}`],
        ]
      : []),
  ];
  for (const command of commands) enter("node", first, ["ip", ...command]);
}

function writeHosts(nodes: readonly RunningNode[]): void {
  const names = nodes.flatMap(({ name, addresses }) => [`${addresses[4]} ${name}`, `${addresses[6]} ${name}`]);
  const text = ["127.0.0.1 localhost", "::1 localhost", ...names, ""].join("\n");
  for (const { directory, name } of nodes) {
    writeFileSync(path.join(directory, "etc/hosts"), text);
    // Nobody answers there; CoreDNS does not start without a server to forward to.
    writeFileSync(path.join(directory, "etc/resolv.conf"), "nameserver 192.0.2.1\n");
    writeFileSync(path.join(directory, "etc/machine-id"), `${Buffer.from(name).toString("hex").padEnd(32, "0")}\n`);
  }
}

function makeCertificates(
  settings: Settings,
  { program, version }: Materials,
  first: RunningNode,
  nodes: readonly RunningNode[],
): void {
  const configuration = "/etc/kubernetes/kubeadm.yaml";
  writeFileSync(path.join(first.directory, configuration), kubeadmConfiguration(settings, version, first));
  const kubeadm = (...args: readonly string[]): string =>
    enter("node", first.first, [program("kubeadm"), ...args, `--config=${configuration}`]);
  kubeadm("init", "phase", "certs", "all");
  kubeadm("init", "phase", "kubeconfig", "all");
  for (const { name, directory } of nodes.slice(1)) {
    const text = kubeadm("kubeconfig", "user", "--org=system:nodes", `--client-name=system:node:${name}`);
    writeFileSync(path.join(directory, "etc/kubernetes/kubelet.conf"), text, { mode: 0o600 });
    mkdirSync(path.join(directory, PKI), { recursive: true });
    copyFileSync(path.join(first.directory, PKI, "ca.crt"), path.join(directory, PKI, "ca.crt"));
  }
}

async function startControlPlane(settings: Settings, { program }: Materials, node: RunningNode): Promise<void> {
  for (const { name, args } of controlPlane(settings, node)) {
    startInside(node.first, [program(name), ...args], path.join(STATE, `${name}.log`));
    if (name === "kube-apiserver") {
      const ready = ["curl", "--silent", "--fail", "--insecure", "https://localhost:6443/readyz"];
      await until("the API server", () => enter("node", node.first, ready) || undefined, 60);
    }
  }
}

async function startRuntime(
  { program, pause, images }: Materials,
  { first, directory, name }: RunningNode,
): Promise<void> {
  writeFileSync(path.join(directory, "etc/containerd/config.toml"), containerdConfiguration(pause, hasSysResource()));
  startInside(first, [program("containerd")], path.join(STATE, `${name}-containerd.log`));
  const ctr = [program("ctr"), "--namespace=k8s.io"];
  await until(`containerd of ${name}`, () => enter("node", first, [...ctr, "version"]), 30);
  for (const archive of images) enter("node", first, [...ctr, "images", "import", archive]);
}

/** CAP_SYS_RESOURCE is bit 24 (linux/capability.h). */
function hasSysResource(): boolean {
  const effective = /^CapEff:\t(?<bits>[0-9a-f]+)$/m.exec(run("cat", ["/proc/self/status"]))?.groups?.["bits"] ?? "0";
  return (BigInt(`0x${effective}`) & (1n << 24n)) !== 0n;
}

function startKubelet(settings: Settings, { program }: Materials, node: RunningNode): void {
  writeFileSync(path.join(node.directory, "var/lib/kubelet/config.yaml"), kubeletConfiguration(settings));
  startInside(
    node.first,
    [program("kubelet"), ...kubeletArguments(settings, node)],
    path.join(STATE, `${node.name}-kubelet.log`),
  );
}

/** Does what `kubeadm init` does in the cluster once its API server runs. */
function configureCluster(materials: Materials, { first }: RunningNode): void {
  const group = "kubeadm:cluster-admins";
  kubectl(materials, ["create", "clusterrolebinding", group, "--clusterrole=cluster-admin", `--group=${group}`]);
  for (const phase of [["bootstrap-token"], ["addon", "coredns"]]) {
    const files = ["--config=/etc/kubernetes/kubeadm.yaml", "--kubeconfig=/etc/kubernetes/super-admin.conf"];
    enter("node", first, [materials.program("kubeadm"), "init", "phase", ...phase, ...files]);
  }
}

/** @returns false while processes are still in one of them */
function removeCgroups(): boolean {
  const roots = ["/sys/fs/cgroup", ...readdirSync("/sys/fs/cgroup").map((name) => path.join("/sys/fs/cgroup", name))];
  return roots.map((root) => removeCgroup(path.join(root, "drawbridge-cluster"))).every(Boolean);
}

function removeCgroup(directory: string): boolean {
  try {
    const below = readdirSync(directory, { withFileTypes: true }).filter((entry) => entry.isDirectory());
    const isEmpty = below.map(({ name }) => removeCgroup(path.join(directory, name))).every(Boolean);
    if (isEmpty) rmdirSync(directory);
    return isEmpty;
  } catch (error) {
    if (!(error instanceof Error) || !("code" in error)) throw error;
    return error.code === "ENOENT" || error.code === "ENOTDIR";
  }
}
