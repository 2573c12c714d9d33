import { installAddOn } from "../addon.ts";
import { kubectl, type Materials } from "../cluster.ts";
import { differencesOf, type Inventory, NETWORK_COMMANDS, readInventory } from "../inventory.ts";
import { enter } from "../node/processes.ts";
import { until } from "../run.ts";
import type { RunningCluster, RunningNode } from "../state.ts";
import type { TestResult } from "../suites/result.ts";
import { NAMESPACE, SELECTOR, users } from "./objects.ts";
import { uninstall } from "./steps.ts";

/** The places of an add-on's files on a node. Kubelet and runtime keep theirs elsewhere. */
const PLACES =
  "/etc/cni /etc/drawbridge /etc/kubernetes /opt/cni /opt/drawbridge /run/drawbridge* /var/lib/cni /var/lib/drawbridge";

const COMMANDS = {
  ...NETWORK_COMMANDS,
  queues: "tc qdisc show",
  files: `find ${PLACES} '!' -type d 2>/dev/null || true`,
};
const KINDS = Object.keys(COMMANDS);

/** Mounts of pods' sandboxes and volumes, which come and go with the pods. */
const OF_PODS = /^(?:\/run\/(?:containerd|netns)|\/var\/run\/netns|\/var\/lib\/kubelet\/pods)\//;

/**
 * The runtime's records of its own loopback plugin. containerd adds the networks of a sandbox in parallel, so it may
 * write this record after it has removed a sandbox whose other network was refused, as every network is after the
 * clean-up.
 */
const OF_LOOPBACK = /^\/var\/lib\/cni\/results\/cni-loopback-/;

/** Kinds of state that the add-on changes on every node, so that a defective inventory is noticed. */
const CHANGED = ["nftables", "links", "addresses", "routes", "queues", "sysctls", "files"];
/** The seconds in which a kubelet and a runtime remove the rest of the last pods. */
const PATIENCE = 60;

/**
 * Installs the add-on on clean nodes, makes pods that use it, uninstalls it as docs/guides/uninstall.md says, and
 * compares each node with its state before.
 *
 * @returns a result for each node and each kind of its state
 */
export async function runUninstall(
  cluster: RunningCluster,
  materials: Materials,
  say: (line: string) => void,
): Promise<readonly TestResult[]> {
  const read = (): readonly Inventory[] => cluster.nodes.map(readNode);
  const before = read();
  installAddOn(cluster, materials, say);
  kubectl(materials, ["apply", "-f", "-"], JSON.stringify({ apiVersion: "v1", kind: "List", items: users() }));
  kubectl(materials, ["-n", NAMESPACE, "rollout", "status", "daemonset/server", "--timeout=120s"]);
  const during = read();
  uninstall(materials, [
    [NAMESPACE, SELECTOR],
    ["kube-system", "k8s-app=kube-dns"],
  ]);
  const isRestored = (): true | undefined => (compare(cluster, before, read()).every(isPassed) ? true : undefined);
  // A difference that remains is reported.
  await until("the nodes to be as before", isRestored, PATIENCE).catch(() => undefined);
  return [...notice(cluster, before, during), ...compare(cluster, before, read())];
}

function readNode({ first }: RunningNode): Inventory {
  return readInventory(
    COMMANDS,
    (command) => enter("node", first, ["sh", "-c", command]),
    (kind, line) => (kind === "mounts" && OF_PODS.test(line)) || (kind === "files" && OF_LOOPBACK.test(line)),
  );
}

function isPassed({ state }: TestResult): boolean {
  return state === "passed";
}

function compare(
  { nodes }: RunningCluster,
  before: readonly Inventory[],
  after: readonly Inventory[],
): readonly TestResult[] {
  return nodes.flatMap(({ name }, index) =>
    KINDS.map((kind) => {
      const differences = differencesOf(kind, before[index] ?? {}, after[index] ?? {});
      return result(`${name}: after uninstalling its ${kind} are as before`, differences);
    }),
  );
}

function notice(
  { nodes }: RunningCluster,
  before: readonly Inventory[],
  during: readonly Inventory[],
): readonly TestResult[] {
  return nodes.flatMap(({ name }, index) =>
    CHANGED.map((kind) => {
      const differences = differencesOf(kind, before[index] ?? {}, during[index] ?? {});
      const isSeen = differences.length > 0;
      return result(`${name}: while the add-on runs its ${kind} differ`, isSeen ? [] : ["nothing differs"]);
    }),
  );
}

function result(title: string, failures: readonly string[]): TestResult {
  return { title, state: failures.length === 0 ? "passed" : "failed", message: failures.join("\n"), duration: 0 };
}
