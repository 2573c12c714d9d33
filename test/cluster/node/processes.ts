import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, openSync, readdirSync, readFileSync, readlinkSync } from "node:fs";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { run, type RunOptions, start, until } from "../run.ts";
import { CACHE, PROJECT, STATE } from "../place.ts";

const HERE = fileURLToPath(new URL(".", import.meta.url));
const MACHINE_NAMESPACES = ["--mount", "--net", "--pid"] as const;
const NODE_NAMESPACES = ["--mount", "--net", "--pid", "--uts", "--ipc", "--cgroup"] as const;

/**
 * Returns the variables that make kubectl and upstream's tests leave files with the cluster, not in the user's
 * directories.
 */
function foldersOf(directory: string): Readonly<Record<string, string>> {
  return { TMPDIR: path.join(directory, "tmp"), KUBECACHEDIR: path.join(directory, "kubectl") };
}

const FOLDERS = Object.entries(foldersOf(STATE)).map(([name, value]) => `${name}=${value}`);

/** The first process of a PID namespace, seen from outside. When it ends, everything in that namespace ends. */
export interface FirstProcess {
  readonly pid: number;
  /** The link of its PID namespace, which identifies it if a later process has the same number. */
  readonly namespace: string;
}

/** Whether the started process is still running. */
export function isAlive({ pid, namespace }: FirstProcess): boolean {
  try {
    return readlinkSync(`/proc/${pid}/ns/pid`) === namespace;
  } catch {
    return false;
  }
}

/**
 * Ends the machine of the cluster in this directory, and everything in its PID namespace. The machine is found by its
 * command line, so this also works if the process that started it was killed before it recorded that.
 *
 * @param known the recorded machine, which another version of machine.sh may have started
 */
export async function endMachine(directory: string, known?: FirstProcess): Promise<void> {
  await until(
    "the end of the cluster's processes",
    () => {
      const found = [...machinesOf(directory), ...(known !== undefined && isAlive(known) ? [known.pid] : [])];
      for (const pid of found) process.kill(pid, "SIGKILL");
      return found.length === 0 ? true : undefined;
    },
    30,
  );
}

/** Finds the first process of the machine, and unshare, which started it. */
function machinesOf(directory: string): readonly number[] {
  return readdirSync("/proc")
    .map(Number)
    .filter((pid) => pid > 0 && isMachineOf(directory, commandLine(pid)));
}

/** Whether a command line is that of a cluster's machine: machine.sh, followed by the cluster's directory. */
export function isMachineOf(directory: string, args: readonly string[]): boolean {
  const script = args.findIndex((one) => one.endsWith("/test/cluster/node/machine.sh"));
  return script !== -1 && args[script + 1] === directory;
}

function commandLine(pid: number): readonly string[] {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, "utf8").split("\0");
  } catch {
    // It has ended.
    return [];
  }
}

/** Ends a node and everything in its PID namespace. */
export async function endNode(first: FirstProcess): Promise<void> {
  if (isAlive(first)) process.kill(first.pid, "SIGKILL");
  await until("the end of the node's processes", () => (isAlive(first) ? undefined : true), 30);
}

/** Starts the machine that holds the cluster, with these addresses in prefix notation on the nodes' link. */
export async function startMachine(directory: string, addresses: readonly string[]): Promise<FirstProcess> {
  for (const folder of Object.values(foldersOf(directory))) mkdirSync(folder, { recursive: true });
  const args = [...MACHINE_NAMESPACES, "--fork", "--", path.join(HERE, "machine.sh"), directory, ...addresses];
  const outer = start("unshare", args, path.join(directory, "machine.log"));
  const first = await until("the cluster's machine", () => firstOf(descendant(outer, 1)), 10);
  await until(
    "the nodes' link",
    () => enter("machine", first, ["ip", "link", "show", "up", "dev", "link0"]) || undefined,
    10,
  );
  return first;
}

/**
 * Starts a node within the machine, without a network; the directory keeps its files. The node sees the project and the
 * cache even if they are in a directory that a node has separately, such as /tmp.
 */
export async function startNode(machine: FirstProcess, name: string, directory: string): Promise<FirstProcess> {
  mkdirSync(path.join(directory, "etc"), { recursive: true });
  const args = [
    ...targets(machine, MACHINE_NAMESPACES),
    "--",
    path.join(HERE, "node.sh"),
    name,
    directory,
    PROJECT,
    CACHE,
  ];
  const outer = start("nsenter", args, path.join(directory, "node.log"));
  // nsenter has a child in the PID namespace, which becomes unshare; unshare's child is the node's first process.
  const first = await until(`the first process of ${name}`, () => firstOf(descendant(outer, 2)), 20);
  await until(`the mounts of ${name}`, () => enter("node", first, ["cat", "/run/node.ready"]) || undefined, 20);
  return first;
}

/** Runs a program inside the machine or a node to its end and returns its output. */
export function enter(
  kind: "machine" | "node",
  first: FirstProcess,
  command: readonly string[],
  options: RunOptions = {},
): string {
  return run("nsenter", enterArguments(kind, first, command), options);
}

/** Runs a program inside on this terminal. Returns its exit code. */
export function enterTerminal(kind: "machine" | "node", first: FirstProcess, command: readonly string[]): number {
  return spawnSync("nsenter", enterArguments(kind, first, command), { stdio: "inherit" }).status ?? 1;
}

/** Runs a program inside the machine to its end, with its output in a file. Resolves to its exit code. */
export async function enterLogged(first: FirstProcess, command: readonly string[], log: string): Promise<number> {
  const output = openSync(log, "w");
  const child = spawn("nsenter", enterArguments("machine", first, command), { stdio: ["ignore", output, output] });
  await once(child, "exit");
  return child.exitCode ?? 1;
}

/** Starts a program inside a node that outlives this process. */
export function startInside(first: FirstProcess, command: readonly string[], log: string): void {
  start("nsenter", enterArguments("node", first, command), log);
}

/** Starts a program inside the machine that outlives this process. */
export function startOnMachine(first: FirstProcess, command: readonly string[], log: string): void {
  start("nsenter", enterArguments("machine", first, command), log);
}

function enterArguments(kind: "machine" | "node", first: FirstProcess, command: readonly string[]): readonly string[] {
  return kind === "machine"
    ? [...targets(first, MACHINE_NAMESPACES), "--", "env", ...FOLDERS, ...command]
    : [...targets(first, NODE_NAMESPACES), "--", path.join(HERE, "enter.sh"), ...command];
}

function targets({ pid }: FirstProcess, namespaces: readonly string[]): readonly string[] {
  return ["--target", `${pid}`, ...namespaces];
}

/**
 * Returns the descendant some generations below a process in which each has a single child; undefined before it exists.
 */
function descendant(pid: number, generations: number): number | undefined {
  if (generations === 0) return pid;
  const [child] = readFileSync(`/proc/${pid}/task/${pid}/children`, "utf8").trim().split(" ").map(Number);
  return child === undefined || child === 0 ? undefined : descendant(child, generations - 1);
}

/** Returns a process; undefined until it is the first one of its own PID namespace. */
function firstOf(pid: number | undefined): FirstProcess | undefined {
  if (pid === undefined) return undefined;
  const inside = /^NSpid:.*\t(?<innermost>\d+)$/m.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.groups?.[
    "innermost"
  ];
  return inside === "1" ? { pid, namespace: readlinkSync(`/proc/${pid}/ns/pid`) } : undefined;
}
