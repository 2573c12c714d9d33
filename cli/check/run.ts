import { randomBytes } from "node:crypto";
import * as v from "valibot";
import { DrawbridgeError } from "../../kernel/error.ts";
import { printable } from "../../objects/printable.ts";
import { ExitCode, type Io, styleOf } from "../io.ts";
import { daemonEntries } from "../input/input_schema.ts";
import { type Daemon, daemonPods, isRunning, kubectl } from "../input/programs/daemons.ts";
import { printedBy } from "../input/programs/programs.ts";
import { formatTable } from "../output/table.ts";
import { CHECK_FORMATS } from "./command.ts";
import { checkObjects, type Placing, serverPolicy } from "./objects.ts";
import { isOfPods, outsideTry, TRYING, triesOf, type Try } from "./tries.ts";

const optionsSchema = v.object({
  ...daemonEntries,
  node: v.optional(v.array(v.string())),
  outside: v.string(),
  output: v.picklist(CHECK_FORMATS),
});

const QUESTION = { option: "check", expected: "pods", otherwise: "run drawbridge node doctor --probe on each node" };
const MOST_ROUNDS = 10;
const PAUSE_MILLISECONDS = 1000;
const READY_ROUNDS = 12;

/** A try and its outcome. */
interface Tried extends Try {
  /** Why it does not work; undefined where it works. */
  readonly problem: string | undefined;
}

/**
 * Makes the pods, tries everything, prints the table, and removes the namespace, also after a failure or a signal.
 *
 * @returns an error in the command line, or the exit code
 * @throws DrawbridgeError ERR_INPUT where kubectl is missing or fails, the pods do not become ready, or a signal comes
 */
export async function runCheck(io: Io, options: unknown): Promise<ExitCode | string> {
  const { node: named, outside, output, ...access } = v.parse(optionsSchema, options);
  const texts = outside === "none" ? [] : outside.split(",");
  const outsides = texts.flatMap((text) => outsideTry(text) ?? []);
  if (outsides.length < texts.length) return `--outside ${outside}: expected 192.0.2.1:443,[2001:db8::1]:443 or none`;
  const daemons = (await daemonPods(io.programs, access, QUESTION)).filter(isRunning);
  const chosen = chosenDaemons(daemons, named);
  const [{ image }] = chosen;
  const namespace = `drawbridge-check-${randomBytes(4).toString("hex")}`;
  const { option, ...words } = QUESTION;
  const run: Kubectl = (args, input) =>
    printedBy(io.programs, option, "kubectl", [kubectl(access, args, input)], words);
  const tried = await tryAll(io, run, { image, namespace, nodes: chosen.map(({ node }) => node) }, outsides);
  if (chosen.length === 1) io.err.write("not tried: connections between nodes, since only one node is tried\n");
  const rows = tried.map(({ problem, port, ...one }) => ({ ...one, port: port ?? null, problem: problem ?? null }));
  io.out.write(output === "json" ? `${JSON.stringify({ tried: rows }, null, 2)}\n` : tableOf(tried, io));
  return tried.every(works) ? ExitCode.YES : ExitCode.NO;
}

/** Returns the daemons of the first two nodes, or of those that are named. */
function chosenDaemons(
  daemons: readonly Daemon[],
  names: readonly string[] | undefined,
): readonly [Daemon, ...Daemon[]] {
  const found = names?.map((name) => daemons.find(({ node }) => node === name) ?? noDaemon(name)) ?? daemons;
  const [first = noDaemon("any node"), ...others] = found;
  return [first, ...others.slice(0, 1)];
}

function noDaemon(where: string): never {
  throw new DrawbridgeError("ERR_INPUT", `check: no daemon runs on ${where}; expected one to take its image`);
}

function tableOf(tried: readonly Tried[], { out }: Io): string {
  const style = styleOf(out);
  const rows = tried.map(({ test, family, host, port, problem }) => [
    test,
    `IPv${family}`,
    port === undefined ? host : `${host} ${port}`,
    problem === undefined ? style.good("ok") : style.bad(printable(problem)),
  ]);
  const good = tried.filter(works).length;
  return `${formatTable(["from a pod to", "family", "address", "result"], rows, out.columns)}\n${good} of ${tried.length} are ok\n`;
}

/** Runs kubectl with some arguments and standard input. */
type Kubectl = (args: readonly string[], input?: string) => Promise<string>;

/** Makes the objects of a check, tries everything, and deletes the namespace, whatever happens. */
async function tryAll(io: Io, run: Kubectl, placing: Placing, outside: readonly Try[]): Promise<readonly Tried[]> {
  const { namespace } = placing;
  let isStopped = false;
  const undo = io.programs.onStop(() => (isStopped = true));
  const step: Kubectl = (args, input) => {
    if (isStopped) throw new DrawbridgeError("ERR_INPUT", "check: stopped by a signal; its namespace is removed");
    return run([`--namespace=${namespace}`, ...args], input);
  };
  const create = (object: object): Promise<string> => step(["create", "--filename=-"], JSON.stringify(object));
  const sleep = (): Promise<void> => io.clusters.sleep(PAUSE_MILLISECONDS);
  try {
    await create(checkObjects(placing));
    await untilReady(step);
    const tries = triesOf(JSON.parse(await step(["get", "pods,services", "--output=json"])), outside);
    const all = [...(await tryUntil(step, sleep, tries, works))];
    // That a policy denies shows only where something works without it.
    const ofPods = all.filter((one) => works(one) && isOfPods(one));
    for (const name of ["closed", "opened"] as const) {
      await create(serverPolicy(namespace, name));
      const isExpected = name === "opened" ? works : (one: Tried): boolean => !works(one);
      const tried = await tryUntil(step, sleep, ofPods, isExpected);
      const toTried = (one: Tried): Tried => ({
        ...one,
        test: `${one.test} that a policy ${name === "opened" ? "allows" : "denies"}`,
        problem: isExpected(one) ? undefined : (one.problem ?? "allowed"),
      });
      all.push(...tried.map(toTried));
    }
    return all;
  } finally {
    await remove(io, run, namespace).finally(undo);
  }
}

async function remove(io: Io, run: Kubectl, namespace: string): Promise<void> {
  try {
    await run(["delete", "namespace", namespace, "--ignore-not-found", "--timeout=50s"]);
  } catch (error) {
    io.err.write(`not removed: run kubectl delete namespace ${namespace}\n`);
    throw error;
  }
}

async function untilReady(step: Kubectl): Promise<void> {
  for (let round = 1; ; round++) {
    try {
      await step(["wait", "pods", "--all", "--for=condition=Ready", "--timeout=5s"]);
      return;
    } catch (error) {
      if (round === READY_ROUNDS || !(error instanceof DrawbridgeError)) throw error;
    }
  }
}

/** Tries until everything is as expected, since rules and names take a moment; only the last round counts. */
async function tryUntil(
  step: Kubectl,
  sleep: () => Promise<void>,
  tries: readonly Try[],
  isExpected: (one: Tried) => boolean,
): Promise<readonly Tried[]> {
  for (let round = 1; ; round++) {
    const printed = await step(["exec", "client", "--", "node", "-e", TRYING, JSON.stringify(tries)]);
    const answers = v.parse(v.array(v.nullable(v.string())), JSON.parse(printed));
    const tried = tries.map((one, i) => ({ ...one, problem: answers[i] ?? undefined }));
    if (round === MOST_ROUNDS || tried.every(isExpected)) return tried;
    await sleep();
  }
}

function works({ problem }: Tried): boolean {
  return problem === undefined;
}
