import { DrawbridgeError } from "../../../kernel/error.ts";
import { type Attempt, printedBy, type Programs } from "./programs.ts";

/** The options by which kubectl finds the cluster. */
export interface KubectlAccess {
  readonly kubeconfig?: string | undefined;
  readonly context?: string | undefined;
}

/** A question that is put to the daemons' containers. */
export interface DaemonQuestion {
  /** The option that asks it, for messages. */
  readonly option: string;
  /** The arguments of `drawbridge` there. */
  readonly args: readonly string[];
  /** The expected output, in a few words. */
  readonly expected: string;
  /** Another way to the same data, for messages. */
  readonly otherwise: string;
  /** The only node to ask; undefined stands for all. */
  readonly node?: string | undefined;
}

/** The output of a node's container. */
export interface NodeAnswer {
  readonly node: string;
  readonly text: string;
}

const LABEL = "app.kubernetes.io/name=drawbridge";
const POD = `{.metadata.namespace} {.metadata.name} {.spec.nodeName} {.status.phase} {.spec.containers[0].image}{"\\n"}`;
/** The image has no shell; Node is its only program. */
const PROGRAM = ["node", "cli/drawbridge.js"];
/** The number of nodes that are asked at the same time. */
const AT_ONCE = 8;

/**
 * Runs a command in the daemon's container of each node, by the user's own kubectl, and returns its output. The user
 * needs the right to create `pods/exec` there, which amounts to root on the nodes.
 *
 * @throws DrawbridgeError ERR_INPUT where kubectl is missing or fails, naming a node whose daemon does not run, or has
 *   none
 */
export async function askDaemons(
  programs: Programs,
  access: KubectlAccess,
  question: DaemonQuestion,
): Promise<readonly NodeAnswer[]> {
  const { option, expected, otherwise } = question;
  const print = (attempt: Attempt): Promise<string> =>
    printedBy(programs, option, "kubectl", [attempt], { expected, otherwise });
  const attempts = await daemonCommands(programs, access, question);
  return await forEachNode(attempts, async ({ node, attempt }) => ({ node, text: await print(attempt) }));
}

/** Returns a command of kubectl for a cluster. */
export function kubectl({ kubeconfig, context }: KubectlAccess, args: readonly string[], input?: string): Attempt {
  const given = [
    ...(kubeconfig === undefined ? [] : [`--kubeconfig=${kubeconfig}`]),
    ...(context === undefined ? [] : [`--context=${context}`]),
  ];
  return { command: "kubectl", args: [...given, ...args], ...(input === undefined ? {} : { input }) };
}

/** Does something for each element, for some at the same time. */
export async function forEachNode<T, R>(all: readonly T[], act: (one: T) => Promise<R>): Promise<readonly R[]> {
  const done: R[] = [];
  for (let first = 0; first < all.length; first += AT_ONCE) {
    done.push(...(await Promise.all(all.slice(first, first + AT_ONCE).map(act))));
  }
  return done;
}

/** Returns the kubectl commands that {@link askDaemons} runs, one for each node. @throws as it does */
export async function daemonCommands(
  programs: Programs,
  access: KubectlAccess,
  question: DaemonQuestion,
): Promise<readonly { readonly node: string; readonly attempt: Attempt }[]> {
  const { option, args } = question;
  const daemons = await daemonPods(programs, access, question);
  for (const { namespace, name, node, phase } of daemons) {
    if (phase === "Running") continue;
    const state = phase === "" ? "not on a node yet" : phase;
    throw new DrawbridgeError(
      "ERR_INPUT",
      `${option}: Pod ${namespace}/${name} is ${state}; expected Running: the connections of its node ${node} are not known`,
    );
  }
  return daemons.map(({ namespace, name, node }) => ({
    node,
    attempt: kubectl(access, ["exec", `--namespace=${namespace}`, name, "--", ...PROGRAM, ...args]),
  }));
}

/** A Pod of the DaemonSet. */
export interface Daemon {
  readonly namespace: string;
  readonly name: string;
  readonly node: string;
  /** Such as `Running`; empty where it is not on a node yet. */
  readonly phase: string;
  readonly image: string;
}

/** Returns the daemons' pods. @throws DrawbridgeError ERR_INPUT where kubectl is missing or fails, and without any */
export async function daemonPods(
  programs: Programs,
  access: KubectlAccess,
  question: Omit<DaemonQuestion, "args">,
): Promise<readonly Daemon[]> {
  const { option, expected, otherwise, node: asked } = question;
  const output = `--output=jsonpath={range .items[*]}${POD}{end}`;
  const list = kubectl(access, ["get", "pods", "--all-namespaces", `--selector=${LABEL}`, output]);
  const text = await printedBy(programs, option, "kubectl", [list], { expected, otherwise });
  const lines = text.split("\n").filter((line) => line.trim() !== "");
  const daemons = lines.map((line) => {
    const [namespace = "", name = "", node = "", phase = "", image = ""] = line.split(" ");
    return { namespace, name, node, phase, image };
  });
  const some = daemons.filter(({ node }) => asked === undefined || node === asked);
  if (some.length === 0) {
    const where = asked === undefined ? "" : ` on node ${asked}`;
    throw new DrawbridgeError(
      "ERR_INPUT",
      `${option}: no Pod with the label ${LABEL}${where}; expected the DaemonSet's Pods: ${otherwise}`,
    );
  }
  return some;
}
