import { DrawbridgeError } from "../../../kernel/error.ts";
import { printable, shortList } from "../../../objects/printable.ts";
import type { Io } from "../../io.ts";
import { type Attempt, printedBy, type Programs } from "./programs.ts";

/** The options by which kubectl finds the cluster and its daemons (`daemonEntries` of input_schema.ts). */
export interface KubectlAccess {
  readonly kubeconfig?: string | undefined;
  readonly context?: string | undefined;
  /** The only namespace in which a Pod is a daemon: elsewhere anybody may give a Pod the label. */
  readonly drawbridgeNamespace: string;
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
  /** Called with the reason where Nodes cannot be listed, which is an error without it. */
  readonly onUnlisted?: (reason: string) => void;
}

/** The output of a node's container. */
export interface NodeAnswer {
  readonly node: string;
  readonly text: string;
}

/** The label of the DaemonSet and of its Pods. */
export const DAEMON_LABEL = "app.kubernetes.io/name=drawbridge";
const POD = `{.metadata.name} {.spec.nodeName} {.status.phase} {.spec.containers[0].image}{"\\n"}`;
/** The DaemonSet is for these nodes. */
const NODES = "kubernetes.io/os=linux";
const NODE = `{.metadata.name}{"\\n"}`;
/** The most nodes that are named; further ones are counted. */
const MOST_NAMES = 10;
/** The image has no shell; Node is its only program. */
const PROGRAM = ["node", "cli/drawbridge.js"];
/** The number of nodes that are asked at the same time. */
const AT_ONCE = 8;

/** The answers of nodes, and the nodes that were not asked. */
export interface NodeAnswers {
  readonly answers: readonly NodeAnswer[];
  readonly away: readonly AwayNode[];
}

/** A node without a daemon that runs. */
export interface AwayNode {
  readonly node: string;
  /** Its daemon's Pod; undefined where it has none. */
  readonly pod: Daemon | undefined;
}

/**
 * Runs a command in the daemon's container of each node, by the user's own kubectl, and returns its output. The user
 * needs the right to create `pods/exec` there, which amounts to root on the nodes, and to list Nodes, but for a question
 * with `onUnlisted`.
 *
 * @throws DrawbridgeError ERR_INPUT where kubectl is missing or fails, and where no daemon runs
 */
export async function askDaemons(
  programs: Programs,
  access: KubectlAccess,
  question: DaemonQuestion,
): Promise<NodeAnswers> {
  const { option, expected, otherwise } = question;
  const print = (attempt: Attempt): Promise<string> =>
    printedBy(programs, option, "kubectl", [attempt], { expected, otherwise });
  const { commands, away } = await daemonCommands(programs, access, question);
  const answers = await forEachNode(commands, async ({ node, attempt }) => ({ node, text: await print(attempt) }));
  return { answers, away };
}

/** Says on stderr which nodes were not asked. */
export function tellAway({ err }: Pick<Io, "err">, away: readonly AwayNode[]): void {
  if (away.length > 0) err.write(`note: not asked: ${awayText(away)}\n`);
}

function awayText(away: readonly AwayNode[]): string {
  const text = ({ node, pod }: AwayNode): string =>
    `${node} (${pod === undefined ? "no daemon" : `Pod ${pod.namespace}/${pod.name} is ${pod.phase}`})`;
  return printable(shortList(away, MOST_NAMES, text));
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
): Promise<{
  readonly commands: readonly { readonly node: string; readonly attempt: Attempt }[];
  readonly away: readonly AwayNode[];
}> {
  const { option, args, otherwise } = question;
  const daemons = await daemonPods(programs, access, question);
  const away = await awayNodes(programs, access, question, daemons);
  const running = daemons.filter(isRunning);
  if (running.length === 0) {
    throw new DrawbridgeError("ERR_INPUT", `${option}: no daemon runs: ${awayText(away)}; ${otherwise}`);
  }
  const commands = running.map(({ namespace, name, node }) => ({
    node,
    attempt: kubectl(access, ["exec", `--namespace=${namespace}`, name, "--", ...PROGRAM, ...args]),
  }));
  return { commands, away };
}

/** A Pod of the DaemonSet. */
export interface Daemon {
  readonly namespace: string;
  readonly name: string;
  readonly node: string;
  /** Such as `Running`. */
  readonly phase: string;
  readonly image: string;
}

/** Returns whether a daemon can be asked. */
export function isRunning({ phase }: Daemon): boolean {
  return phase === "Running";
}

/**
 * Returns the daemons' pods that are on a node.
 *
 * @throws DrawbridgeError ERR_INPUT where kubectl is missing or fails, and where their namespace has none
 */
export async function daemonPods(
  programs: Programs,
  access: KubectlAccess,
  question: Omit<DaemonQuestion, "args">,
): Promise<readonly Daemon[]> {
  const { option, otherwise, node: asked } = question;
  const namespace = access.drawbridgeNamespace;
  const args = ["pods", `--namespace=${namespace}`, `--selector=${DAEMON_LABEL}`];
  const pods = (await listed(programs, access, question, args, POD)).map((line): Daemon => {
    const [name = "", node = "", phase = "", image = ""] = line.split(" ");
    return { namespace, name, node, phase, image };
  });
  if (pods.length === 0) {
    throw new DrawbridgeError(
      "ERR_INPUT",
      `${option}: namespace ${namespace} has no Pod with the label ${DAEMON_LABEL}; expected the DaemonSet's Pods: name their namespace with --drawbridge-namespace, or ${otherwise}`,
    );
  }
  return pods.filter(({ node }) => (asked === undefined ? node !== "" : node === asked));
}

/**
 * Returns the nodes that should have a daemon and have none that runs.
 *
 * @throws DrawbridgeError as {@link daemonPods}, but for Nodes that cannot be listed where the question has `onUnlisted`
 */
export async function awayNodes(
  programs: Programs,
  access: KubectlAccess,
  question: Omit<DaemonQuestion, "args">,
  daemons: readonly Daemon[],
): Promise<readonly AwayNode[]> {
  const { node: asked, onUnlisted } = question;
  const args = ["nodes", `--selector=${NODES}`];
  const list = (): Promise<readonly string[]> =>
    listed(programs, access, question, args, NODE).catch((error: unknown) => {
      if (onUnlisted === undefined || !(error instanceof DrawbridgeError)) throw error;
      onUnlisted(error.message);
      return [];
    });
  const nodes = asked === undefined ? await list() : [asked];
  const answering = new Set(daemons.filter(isRunning).map(({ node }) => node));
  return [...new Set([...nodes, ...daemons.map(({ node }) => node)])]
    .filter((node) => !answering.has(node))
    .map((node) => ({ node, pod: daemons.find((daemon) => daemon.node === node) }));
}

/** Returns a line of text for each object of a list. */
async function listed(
  programs: Programs,
  access: KubectlAccess,
  { option, expected, otherwise }: Omit<DaemonQuestion, "args">,
  args: readonly string[],
  line: string,
): Promise<readonly string[]> {
  const list = kubectl(access, ["get", ...args, `--output=jsonpath={range .items[*]}${line}{end}`]);
  const text = await printedBy(programs, option, "kubectl", [list], { expected, otherwise });
  return text.split("\n").filter((one) => one.trim() !== "");
}
