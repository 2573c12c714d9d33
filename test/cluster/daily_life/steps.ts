import { readFileSync } from "node:fs";
import path from "node:path";
import { importImage, INSTALL, waitForAddOn } from "../addon.ts";
import { addNode, kubectl, restartNode } from "../cluster.ts";
import { enter } from "../node/processes.ts";
import { startContainerd, startKubelet } from "../nodes.ts";
import { PROJECT } from "../place.ts";
import { until } from "../run.ts";
import type { RunningNode } from "../state.ts";
import { NAMESPACE, PORT } from "./objects.ts";
import type { StepWindow } from "./records.ts";
import {
  inNamespace,
  kill,
  processesOf,
  readyAddresses,
  sleep,
  waitForServers,
  withAddOn,
  type World,
} from "./world.ts";

/** The failures that a step may cause. */
export type Excuse = Pick<StepWindow, "unknown" | "killed">;

/** An operation on a cluster, carried out while connections are made. */
export interface Step {
  readonly name: string;
  readonly do: (world: World) => Promise<Excuse | void>;
  readonly isExpected?: string;
}

const DAEMON = "/opt/drawbridge/policyd/policyd.js";
const CLEANUP = path.join(PROJECT, "manifests/cleanup");
/** The time from the API's notice that an endpoint has gone until every node's kernel is updated, on a busy machine. */
const PROGRAMMED = 1000;

const RESTARTED = "{.status.containerStatuses[0].restartCount} {.status.containerStatuses[0].ready}";

/** The steps of a run in their order. */
export const STEPS: readonly Step[] = [
  { name: "nothing happens", do: () => sleep(10) },
  {
    name: "rolling update of the Deployment",
    do: async (world) => {
      inNamespace(world, "rollout", "restart", "deployment/web");
      waitForServers(world);
    },
  },
  {
    name: "five of ten pods deleted",
    do: async (world) => {
      inNamespace(world, "delete", "--wait=true", ...names(world, 5));
      waitForServers(world);
    },
  },
  { name: "three pods deleted by force", do: deleteByForce },
  { name: "a server killed in its pod", do: killServer },
  {
    name: "daemon killed on every node",
    do: async (world) => {
      await Promise.all(world.cluster.nodes.map(killDaemon));
      await sleep(2);
      waitForAddOn(world.materials);
    },
  },
  {
    name: "upgrade to the other build",
    do: async (world) => {
      importImage(world.cluster, world.materials, world.other.archive);
      upgrade(world, world.other.manifest);
    },
  },
  { name: "back to this build", do: async (world) => upgrade(world, readFileSync(INSTALL, "utf8")) },
  {
    // After an upgrade the daemons' pods are new: the kubelet restarts a container at once the first time, and after 10
    // s the next.
    name: "daemon killed on every node in the middle of a rolling update",
    do: async (world) => {
      inNamespace(world, "rollout", "restart", "deployment/web");
      await sleep(3);
      await Promise.all(world.cluster.nodes.map(killDaemon));
      waitForServers(world);
      waitForAddOn(world.materials);
    },
  },
  {
    name: "kubelets restarted",
    do: (world) => restartEverywhere(world, "^[^ ]*/kubelet ", startKubelet),
  },
  {
    name: "containerd restarted on every node",
    do: (world) => restartEverywhere(world, "^([^ ]*/)?containerd$", startContainerd),
  },
  {
    name: "a node drained and uncordoned",
    do: async (world) => {
      const { name } = lastNode(world);
      const options = ["--ignore-daemonsets", "--delete-emptydir-data", "--timeout=240s"];
      kubectl(world.materials, ["drain", name, ...options]);
      await sleep(5);
      kubectl(world.materials, ["uncordon", name]);
      waitForServers(world);
    },
  },
  {
    name: "a node added, and pods scheduled on it",
    do: async (world) => {
      world.cluster = await addNode(world.cluster, withAddOn(world.materials));
      waitForAddOn(world.materials);
      world.startGenerator(lastNode(world));
      inNamespace(world, "rollout", "restart", "deployment/web");
      waitForServers(world);
    },
  },
  { name: "a node lost its power, and started again", do: loseNode },
  {
    name: "add-on deleted, and installed again",
    do: async (world) => {
      kubectl(world.materials, ["delete", "--wait=true", "-f", INSTALL]);
      await sleep(10);
      kubectl(world.materials, ["apply", "-f", INSTALL]);
      waitForAddOn(world.materials);
    },
  },
  {
    name: "nodes cleaned, add-on installed again, pods recreated",
    do: cleanAndReinstall,
    isExpected: "pods have no network until they are recreated",
  },
  { name: "after that", do: () => sleep(10) },
];

function lastNode({ cluster }: World): RunningNode {
  const node = cluster.nodes.at(-1);
  if (node === undefined) throw new RangeError("a cluster has at least one node");
  return node;
}

/** Returns the names of some servers that are not leaving, as arguments of kubectl. */
function names(world: World, count: number): readonly string[] {
  const lines = inNamespace(world, "get", "pods", "--selector=app=web", "--output=name").trim().split("\n");
  return lines.slice(0, count);
}

/** Ends the program with a matching command line on each node, and starts it again. */
async function restartEverywhere(world: World, program: string, start: typeof startKubelet): Promise<void> {
  const { cluster, materials } = world;
  for (const node of cluster.nodes) {
    await kill(node, processesOf(node, program));
    start(cluster.settings, materials, node);
  }
  await sleep(10);
  waitForServers(world);
}

async function killDaemon(node: RunningNode): Promise<void> {
  await kill(node, processesOf(node, DAEMON));
}

/** Whether no slice names one of these addresses as ready. */
function areUnready(world: World, addresses: readonly string[]): boolean {
  const ready = readyAddresses(world);
  return !addresses.some((address) => ready.has(address));
}

function addressesOf(world: World, pods: readonly string[]): readonly string[] {
  const template = '{range .items[*].status.podIPs[*]}{.ip}{"\\n"}{end}{range .status.podIPs[*]}{.ip}{"\\n"}{end}';
  return inNamespace(world, "get", ...pods, `--output=jsonpath=${template}`)
    .split("\n")
    .filter((line) => line !== "");
}

async function deleteByForce(world: World): Promise<Excuse> {
  const pods = names(world, 3);
  const addresses = addressesOf(world, pods);
  const from = Date.now();
  inNamespace(world, "delete", "--force", "--grace-period=0", ...pods);
  const to = await until(
    "the endpoints to go",
    () => (areUnready(world, addresses) ? Date.now() + PROGRAMMED : undefined),
    60,
  );
  waitForServers(world);
  // The kubelet ends their processes after the API has forgotten the pods.
  return { unknown: { from, to }, killed: { from, to: Date.now() } };
}

async function killServer(world: World): Promise<Excuse> {
  const node = lastNode(world);
  const [pod = ""] = inNamespace(
    world,
    "get",
    "pods",
    "--selector=app=web",
    `--field-selector=spec.nodeName=${node.name},status.phase=Running`,
    "--output=name",
  )
    .trim()
    .split("\n");
  const addresses = addressesOf(world, [pod]);
  const from = Date.now();
  const [server = ""] = processesOf(node, `^/load serve ${PORT}$`).filter((id) =>
    addresses.some((address) =>
      enter("node", node.first, ["nsenter", "--target", id, "--net", "ip", "address"]).includes(` ${address}/`),
    ),
  );
  await kill(node, [server]);
  // The kubelet may start the next server before it reports the end of the first.
  const hasRestarted = (): boolean => inNamespace(world, "get", pod, `--output=jsonpath=${RESTARTED}`) === "1 true";
  const to = await until(
    "the server to go or to come back",
    () => (areUnready(world, addresses) || hasRestarted() ? Date.now() + PROGRAMMED : undefined),
    60,
  );
  await until("the server to come back", () => hasRestarted() || undefined, 60);
  return { unknown: { from, to }, killed: { from, to } };
}

async function loseNode(world: World): Promise<Excuse> {
  const { name } = lastNode(world);
  const ofNode = ["get", "pods", "--selector=app=web", `--field-selector=spec.nodeName=${name}`, "--output=name"];
  const addresses = addressesOf(
    world,
    inNamespace(world, ...ofNode)
      .trim()
      .split("\n"),
  );
  const from = Date.now();
  world.cluster = await restartNode(world.cluster, world.materials, lastNode(world));
  const to = await until(
    "the endpoints to go",
    () => (areUnready(world, addresses) ? Date.now() + PROGRAMMED : undefined),
    120,
  );
  waitForAddOn(world.materials);
  waitForServers(world);
  inNamespace(world, "rollout", "status", "daemonset/load", "--timeout=120s");
  world.startGenerator(lastNode(world));
  return { unknown: { from, to }, killed: { from, to } };
}

/** Applies a build's manifest, and replaces each pod that the former build has attached by one that this build attaches. */
function upgrade(world: World, manifest: string): void {
  const before = schemas(world);
  kubectl(world.materials, ["apply", "-f", "-"], manifest);
  waitForAddOn(world.materials);
  if (schemas(world) === before) throw new Error("the tables of the other build have the same versions");
  inNamespace(world, "rollout", "restart", "deployment/web");
  waitForServers(world);
}

/** Returns the versions of the tables on the last node, which gets a new daemon like the others. */
function schemas(world: World): string {
  const text = enter("node", lastNode(world).first, ["nft", "list", "chains"]);
  return [...text.matchAll(/schema-\w+/g)].map(([name]) => name).join(" ");
}

/** Follows docs/guides/uninstall.md for every pod that the add-on has attached, and then installs the add-on again. */
async function cleanAndReinstall(world: World): Promise<void> {
  const { materials } = world;
  kubectl(materials, ["delete", "--wait=true", "-f", INSTALL]);
  kubectl(materials, ["apply", "-k", CLEANUP]);
  for (const [namespace, selector] of [
    [NAMESPACE, "app in (web, steady, load)"],
    ["kube-system", "k8s-app=kube-dns"],
  ] as const) {
    kubectl(materials, ["-n", namespace, "delete", "pods", `--selector=${selector}`, "--timeout=120s"]);
  }
  kubectl(materials, ["-n", "kube-system", "rollout", "status", "daemonset/drawbridge-cleanup", "--timeout=120s"]);
  kubectl(materials, ["delete", "--wait=true", "-k", CLEANUP]);
  kubectl(materials, ["apply", "-f", INSTALL]);
  waitForAddOn(materials);
  waitForServers(world);
  inNamespace(world, "rollout", "status", "daemonset/load", "--timeout=120s");
}
