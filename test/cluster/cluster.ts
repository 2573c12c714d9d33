import { existsSync, lstatSync, readdirSync, readFileSync, rmdirSync, rmSync, writeFileSync } from "node:fs";
import path from "node:path";
import process from "node:process";
import {
  endMachine,
  endNode,
  enter,
  type FirstProcess,
  startInside,
  startMachine,
  startOnMachine,
} from "./node/processes.ts";
import { giveCredentials, KUBEADM, makeNode, startKubelet, startRuntime, writeHosts } from "./nodes.ts";
import { controlPlane } from "./parts/control_plane.ts";
import { kubeadmConfiguration } from "./parts/kubeadm.ts";
import { upstreamDnsConfiguration } from "./parts/upstream_dns.ts";
import { PROJECT, STATE } from "./place.ts";
import { ProgramError, until } from "./run.ts";
import { INTERNET_ADDRESSES, MACHINE_ADDRESSES, planNodes, type Settings, withoutLength } from "./settings.ts";
import { readCluster, removeState, type RunningCluster, type RunningNode, writeCluster } from "./state.ts";

/** The addresses of the machine, which acts as the nodes' router and as everything outside of the cluster. */
const OUTSIDE = [...Object.values(MACHINE_ADDRESSES), ...Object.values(INTERNET_ADDRESSES)];

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
  /** Returns the directory of containerd 2, which is built on first use; Debian's is found in PATH. */
  readonly containerd2: () => string;
}

/** The kubeconfig of the cluster's administrator, for programs outside of it. */
export const ADMINISTRATOR = path.join(STATE, "node1/etc/kubernetes/super-admin.conf");

/** Makes a cluster without a network add-on: its nodes are not ready yet. */
export async function makeCluster(
  settings: Settings,
  materials: Materials,
  say: (line: string) => void,
): Promise<RunningCluster> {
  const machine = await startMachine(STATE, OUTSIDE);
  startUpstreamDns(materials, machine);
  const nodes: RunningNode[] = [];
  for (const plan of planNodes(settings)) {
    nodes.push(await makeNode(machine, plan, settings));
    writeCluster({ settings, machine, nodes });
  }
  const [first] = nodes;
  if (first === undefined) throw new RangeError("a cluster has at least one node");
  writeHosts(settings, nodes);
  say(`${nodes.length} nodes are connected`);

  makeCertificates(settings, materials, first);
  for (const node of nodes.slice(1)) giveCredentials(materials, first, node);
  await startControlPlane(settings, materials, first);
  say("the API server is ready");
  await Promise.all(nodes.map((node) => startRuntime(settings, materials, node)));
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

/** Adds a node to a running cluster, as the last one. It becomes ready when the add-on runs on it. */
export async function addNode(cluster: RunningCluster, materials: Materials): Promise<RunningCluster> {
  const { machine } = cluster;
  const settings = { ...cluster.settings, nodes: cluster.nodes.length + 1 };
  const [first] = cluster.nodes;
  const plan = planNodes(settings).at(-1);
  if (first === undefined || plan === undefined) throw new RangeError("a cluster has at least one node");
  const node = await makeNode(machine, plan, settings);
  const grown = { settings, machine, nodes: [...cluster.nodes, node] };
  writeCluster(grown);
  writeHosts(settings, grown.nodes);
  giveCredentials(materials, first, node);
  await startRuntime(settings, materials, node);
  startKubelet(settings, materials, node);
  await until(
    `the object of ${node.name}`,
    () => (kubectl(materials, ["get", "node", node.name, "-o", "name"]) === "" ? undefined : true),
    60,
  );
  return grown;
}

/** Ends a node without control plane as a loss of power does, and starts it again with its files. */
export async function restartNode(
  cluster: RunningCluster,
  materials: Materials,
  { first, name, addresses, zone }: RunningNode,
): Promise<RunningCluster> {
  const { machine, settings } = cluster;
  await endNode(first);
  const link = ["ip", "link", "show", "dev", name];
  await until(
    "the end of the node's link",
    () => (isRefused(() => enter("machine", machine, link)) ? true : undefined),
    30,
  );
  const node = await makeNode(machine, { name, addresses, zone }, settings);
  const restarted = { ...cluster, nodes: cluster.nodes.map((one) => (one.name === name ? node : one)) };
  writeCluster(restarted);
  await startRuntime(settings, { ...materials, images: [] }, node);
  startKubelet(settings, materials, node);
  return restarted;
}

function isRefused(act: () => unknown): boolean {
  try {
    act();
    return false;
  } catch (error) {
    if (error instanceof ProgramError) return true;
    throw error;
  }
}

/** Ends a cluster and removes its remains on this machine. Also works for an incomplete cluster. */
export async function removeCluster(): Promise<void> {
  await endMachine(STATE, readCluster()?.machine);
  await until("the removal of the nodes' cgroups", () => (removeCgroups() ? true : undefined), 30);
  removeMountPoints();
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

/** Runs the built command line like the administrator, with kubectl in its PATH. */
export function drawbridge({ machine }: RunningCluster, materials: Materials, args: readonly string[]): string {
  const PATH = [path.dirname(materials.program("kubectl")), process.env["PATH"]].join(":");
  const program = [process.execPath, path.join(PROJECT, "dist/cli/drawbridge.js")];
  return enter("machine", machine, ["env", `PATH=${PATH}`, `KUBECONFIG=${ADMINISTRATOR}`, ...program, ...args]);
}

function startUpstreamDns({ program }: Materials, machine: FirstProcess): void {
  const file = path.join(STATE, "upstream_dns.Corefile");
  writeFileSync(file, upstreamDnsConfiguration(OUTSIDE.map(withoutLength)));
  startOnMachine(machine, [program("coredns"), "-conf", file], path.join(STATE, "upstream_dns.log"));
}

function makeCertificates(settings: Settings, { program, version }: Materials, first: RunningNode): void {
  writeFileSync(path.join(first.directory, KUBEADM), kubeadmConfiguration(settings, version, first));
  const kubeadm = (...args: readonly string[]): string =>
    enter("node", first.first, [program("kubeadm"), ...args, `--config=${KUBEADM}`]);
  kubeadm("init", "phase", "certs", "all");
  kubeadm("init", "phase", "kubeconfig", "all");
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

/** Configures the cluster as `kubeadm init` does once the API server runs. */
function configureCluster(materials: Materials, { first }: RunningNode): void {
  const group = "kubeadm:cluster-admins";
  kubectl(materials, ["create", "clusterrolebinding", group, "--clusterrole=cluster-admin", `--group=${group}`]);
  for (const phase of [["bootstrap-token"], ["addon", "coredns"]]) {
    const files = [`--config=${KUBEADM}`, "--kubeconfig=/etc/kubernetes/super-admin.conf"];
    enter("node", first, [materials.program("kubeadm"), "init", "phase", ...phase, ...files]);
  }
}

/** Removes the empty mount points that node.sh made on this machine. */
function removeMountPoints(): void {
  const file = path.join(STATE, "made");
  const made = existsSync(file) ? readFileSync(file, "utf8").trim().split("\n") : [];
  // Longer paths are removed before the directories that they are in.
  for (const place of made.toSorted((a, b) => b.length - a.length)) {
    const status = lstatSync(place, { throwIfNoEntry: false });
    if (status?.isDirectory() === true && readdirSync(place).length === 0) rmdirSync(place);
    if (status?.isFile() === true && status.size === 0) rmSync(place);
  }
}

/** Removes the nodes' cgroups. @returns false while processes are still in one of them */
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
