import { copyFileSync, mkdirSync, writeFileSync } from "node:fs";
import path from "node:path";
import process from "node:process";
import type { Materials } from "./cluster.ts";
import { enter, type FirstProcess, startInside, startNode } from "./node/processes.ts";
import { containerdConfiguration } from "./parts/containerd.ts";
import { kubeletArguments, kubeletConfiguration } from "./parts/kubelet.ts";
import { STATE } from "./place.ts";
import { run, until } from "./run.ts";
import { MACHINE_ADDRESSES, type NodePlan, type Settings, withoutLength } from "./settings.ts";
import type { RunningNode } from "./state.ts";

/** kubeadm's configuration on the first node. */
export const KUBEADM = "/etc/kubernetes/kubeadm.yaml";

const PKI = "/etc/kubernetes/pki";

/** Starts a node and connects it to the others. */
export async function makeNode(machine: FirstProcess, plan: NodePlan, settings: Settings): Promise<RunningNode> {
  const directory = path.join(STATE, plan.name);
  const node = { ...plan, directory, first: await startNode(machine, plan.name, directory) };
  connect(machine.pid, node, settings);
  return node;
}

function connect(machine: number, { name, first, addresses }: RunningNode, settings: Settings): void {
  // Outside of the machine's PID namespace, where the node's process has the number that this process knows.
  const link = `ip link add ${name} up master link0 type veth peer name eth0 netns ${first.pid}`;
  run("nsenter", ["--target", `${machine}`, "--net", "--", ...link.split(" ")]);
  const commands = [
    ["link", "set", "eth0", "up"],
    ...(settings.isDualStack || settings.firstFamily === 4
      ? [
          ["address", "add", `${addresses[4]}/24`, "dev", "eth0"],
          ["route", "add", "default", "via", withoutLength(MACHINE_ADDRESSES[4])],
        ]
      : []),
    ...(settings.isDualStack || settings.firstFamily === 6
      ? [
          ["address", "add", `${addresses[6]}/64`, "dev", "eth0", "nodad"],
          ["-6", "route", "add", "default", "via", withoutLength(MACHINE_ADDRESSES[6])],
        ]
      : []),
  ];
  for (const command of commands) enter("node", first, ["ip", ...command]);
}

/** Writes the names of all nodes, and the files with a node's identity, on every node. */
export function writeHosts({ firstFamily }: Settings, nodes: readonly RunningNode[]): void {
  const names = nodes.flatMap(({ name, addresses }) => [`${addresses[4]} ${name}`, `${addresses[6]} ${name}`]);
  const text = ["127.0.0.1 localhost", "::1 localhost", ...names, ""].join("\n");
  for (const { directory, name } of nodes) {
    writeFileSync(path.join(directory, "etc/hosts"), text);
    const nameServer = withoutLength(MACHINE_ADDRESSES[firstFamily]);
    writeFileSync(path.join(directory, "etc/resolv.conf"), `nameserver ${nameServer}\n`);
    writeFileSync(path.join(directory, "etc/machine-id"), `${Buffer.from(name).toString("hex").padEnd(32, "0")}\n`);
  }
}

/** Gives a node the kubelet's kubeconfig and the cluster's authority, as `kubeadm join` does. */
export function giveCredentials({ program }: Materials, control: RunningNode, { name, directory }: RunningNode): void {
  const args = ["kubeconfig", "user", "--org=system:nodes", `--client-name=system:node:${name}`, `--config=${KUBEADM}`];
  const text = enter("node", control.first, [program("kubeadm"), ...args]);
  writeFileSync(path.join(directory, "etc/kubernetes/kubelet.conf"), text, { mode: 0o600 });
  mkdirSync(path.join(directory, PKI), { recursive: true });
  copyFileSync(path.join(control.directory, PKI, "ca.crt"), path.join(directory, PKI, "ca.crt"));
}

/** Starts containerd on a node and imports the images that every node has. */
export async function startRuntime(settings: Settings, materials: Materials, node: RunningNode): Promise<void> {
  const text = containerdConfiguration(settings.containerd, materials.pause, hasSysResource());
  writeFileSync(path.join(node.directory, "etc/containerd/config.toml"), text);
  startContainerd(settings, materials, node);
  await until(`containerd of ${node.name}`, () => ctr(settings, materials, node, ["version"]), 30);
  for (const archive of materials.images) ctr(settings, materials, node, ["images", "import", archive]);
}

/** Starts containerd itself, which finds its configuration and existing containers. */
export function startContainerd(settings: Settings, materials: Materials, { first, name }: RunningNode): void {
  const log = path.join(STATE, `${name}-containerd.log`);
  if (settings.containerd === 1) return startInside(first, ["containerd"], log);
  const directory = materials.containerd2();
  const searched = `${directory}:${process.env["PATH"] ?? ""}`;
  startInside(first, ["env", `PATH=${searched}`, path.join(directory, "containerd")], log);
}

/** Runs containerd's client on a node, in the namespace that the kubelet uses. */
export function ctr(
  { containerd }: Settings,
  materials: Materials,
  { first }: RunningNode,
  args: readonly string[],
): string {
  const client = containerd === 1 ? "ctr" : path.join(materials.containerd2(), "ctr");
  return enter("node", first, [client, "--namespace=k8s.io", ...args]);
}

/** Whether this process has CAP_SYS_RESOURCE, bit 24 (linux/capability.h). */
function hasSysResource(): boolean {
  const effective = /^CapEff:\t(?<bits>[0-9a-f]+)$/m.exec(run("cat", ["/proc/self/status"]))?.groups?.["bits"] ?? "0";
  return (BigInt(`0x${effective}`) & (1n << 24n)) !== 0n;
}

/** Starts the kubelet of a node that has its credentials. */
export function startKubelet(settings: Settings, { program }: Materials, node: RunningNode): void {
  writeFileSync(path.join(node.directory, "var/lib/kubelet/config.yaml"), kubeletConfiguration(settings));
  startInside(
    node.first,
    [program("kubelet"), ...kubeletArguments(settings, node)],
    path.join(STATE, `${node.name}-kubelet.log`),
  );
}
