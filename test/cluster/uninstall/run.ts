import { installAddOn } from "../addon.ts";
import { kubectl, type Materials } from "../cluster.ts";
import { until } from "../run.ts";
import type { RunningCluster } from "../state.ts";
import type { TestResult } from "../suites/result.ts";
import { differencesOf, NODE_KINDS, type NodeInventory, readNode } from "./inventory.ts";
import { NAMESPACE, SELECTOR, users } from "./objects.ts";
import { uninstall } from "./steps.ts";

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
  const read = (): readonly NodeInventory[] => cluster.nodes.map(readNode);
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

function isPassed({ state }: TestResult): boolean {
  return state === "passed";
}

function compare(
  { nodes }: RunningCluster,
  before: readonly NodeInventory[],
  after: readonly NodeInventory[],
): readonly TestResult[] {
  return nodes.flatMap(({ name }, index) =>
    NODE_KINDS.map((kind) => {
      const differences = differencesOf(kind, before[index] ?? {}, after[index] ?? {});
      return result(`${name}: after uninstalling its ${kind} are as before`, differences);
    }),
  );
}

function notice(
  { nodes }: RunningCluster,
  before: readonly NodeInventory[],
  during: readonly NodeInventory[],
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
