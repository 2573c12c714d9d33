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
const POD = `{.metadata.namespace} {.metadata.name} {.spec.nodeName} {.status.phase}{"\\n"}`;
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
  const answers: NodeAnswer[] = [];
  for (let first = 0; first < attempts.length; first += AT_ONCE) {
    const some = attempts
      .slice(first, first + AT_ONCE)
      .map(async ({ node, attempt }) => ({ node, text: await print(attempt) }));
    answers.push(...(await Promise.all(some)));
  }
  return answers;
}

/** Returns the kubectl commands that {@link askDaemons} runs, one for each node. @throws as it does */
export async function daemonCommands(
  programs: Programs,
  { kubeconfig, context }: KubectlAccess,
  question: DaemonQuestion,
): Promise<readonly { readonly node: string; readonly attempt: Attempt }[]> {
  const { option, args, expected, otherwise } = question;
  const given = [
    ...(kubeconfig === undefined ? [] : [`--kubeconfig=${kubeconfig}`]),
    ...(context === undefined ? [] : [`--context=${context}`]),
  ];
  const kubectl = (...rest: readonly string[]): Attempt => ({ command: "kubectl", args: [...given, ...rest] });
  const output = `--output=jsonpath={range .items[*]}${POD}{end}`;
  const list = kubectl("get", "pods", "--all-namespaces", `--selector=${LABEL}`, output);
  const text = await printedBy(programs, option, "kubectl", [list], { expected, otherwise });
  return daemonsIn(text, question).map(({ namespace, name, node }) => ({
    node,
    attempt: kubectl("exec", `--namespace=${namespace}`, name, "--", ...PROGRAM, ...args),
  }));
}

interface Daemon {
  readonly namespace: string;
  readonly name: string;
  readonly node: string;
}

function daemonsIn(text: string, { option, otherwise, node: asked }: DaemonQuestion): readonly Daemon[] {
  const lines = text.split("\n").filter((line) => line.trim() !== "");
  const daemons = lines.map((line) => {
    const [namespace = "", name = "", node = "", phase = ""] = line.split(" ");
    return { namespace, name, node, phase };
  });
  const some = daemons.filter(({ node }) => asked === undefined || node === asked);
  if (some.length === 0) {
    const where = asked === undefined ? "" : ` on node ${asked}`;
    throw new DrawbridgeError(
      "ERR_INPUT",
      `${option}: no Pod with the label ${LABEL}${where}; expected the DaemonSet's Pods: ${otherwise}`,
    );
  }
  for (const { namespace, name, node, phase } of some) {
    if (phase === "Running") continue;
    const state = phase === "" ? "not on a node yet" : phase;
    throw new DrawbridgeError(
      "ERR_INPUT",
      `${option}: Pod ${namespace}/${name} is ${state}; expected Running: the connections of its node ${node} are not known`,
    );
  }
  return some;
}
