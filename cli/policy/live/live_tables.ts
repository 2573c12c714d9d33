import { Buffer } from "node:buffer";
import { DrawbridgeError } from "../../../kernel/error.ts";
import type { Programs } from "../../input/programs/programs.ts";
import { printedBy } from "../../input/programs/programs.ts";
import type { ReadConnections } from "./conntrack_text.ts";
import { readConntrack } from "./conntrack_text.ts";

/** How kubectl finds the cluster. */
export interface KubectlAccess {
  readonly kubeconfig?: string | undefined;
  readonly context?: string | undefined;
}

const LABEL = "app.kubernetes.io/name=drawbridge";
const POD = `{.metadata.namespace} {.metadata.name} {.spec.nodeName} {.status.phase}{"\\n"}`;
/** The image has no shell: Node is its only program. */
const READ = ["node", "cli/drawbridge.js", "node", "connections"];
/** Nodes that are read at the same time. */
const AT_ONCE = 8;
const WORDS = { expected: "one table", otherwise: "give what conntrack -L prints on the nodes with --conntrack" };

/**
 * Reads the tables of connections of all nodes, by the user's own kubectl: in the daemon's container of each node it runs
 * `node connections`. The user needs the right to create `pods/exec` there, which is root on the nodes.
 *
 * @throws DrawbridgeError ERR_INPUT where kubectl is not there or fails, and naming a node whose daemon does not run
 */
export async function liveTables(programs: Programs, access: KubectlAccess): Promise<readonly ReadConnections[]> {
  const given = [
    ...(access.kubeconfig === undefined ? [] : [`--kubeconfig=${access.kubeconfig}`]),
    ...(access.context === undefined ? [] : [`--context=${access.context}`]),
  ];
  const kubectl = (...args: readonly string[]): Promise<string> =>
    printedBy(programs, "--live", "kubectl", [{ command: "kubectl", args: [...given, ...args] }], WORDS);
  const output = `--output=jsonpath={range .items[*]}${POD}{end}`;
  const daemons = daemonsIn(await kubectl("get", "pods", "--all-namespaces", `--selector=${LABEL}`, output));
  const tables: ReadConnections[] = [];
  for (let first = 0; first < daemons.length; first += AT_ONCE) {
    const some = daemons.slice(first, first + AT_ONCE).map(async ({ namespace, name, node }) => {
      const text = await kubectl("exec", `--namespace=${namespace}`, name, "--", ...READ);
      return readConntrack([Buffer.from(text)], `node ${node}`);
    });
    tables.push(...(await Promise.all(some)));
  }
  return tables;
}

interface Daemon {
  readonly namespace: string;
  readonly name: string;
  readonly node: string;
}

function daemonsIn(text: string): readonly Daemon[] {
  const lines = text.split("\n").filter((line) => line.trim() !== "");
  if (lines.length === 0) {
    throw new DrawbridgeError(
      "ERR_INPUT",
      `--live: no Pod with the label ${LABEL}; expected the DaemonSet's Pods: ${WORDS.otherwise}`,
    );
  }
  return lines.map((line) => {
    const [namespace = "", name = "", node = "", phase = ""] = line.split(" ");
    if (phase === "Running") return { namespace, name, node };
    const state = phase === "" ? "not on a node yet" : phase;
    throw new DrawbridgeError(
      "ERR_INPUT",
      `--live: Pod ${namespace}/${name} is ${state}; expected Running: the connections of its node ${node} are not known`,
    );
  });
}
