import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, openSync, readFileSync, readlinkSync } from "node:fs";
import path from "node:path";
import { fileURLToPath } from "node:url";
import type { RunOptions } from "../run.ts";
import { run, start, until } from "../run.ts";

const HERE = fileURLToPath(new URL(".", import.meta.url));
const MACHINE_NAMESPACES = ["--mount", "--net", "--pid"] as const;
const NODE_NAMESPACES = ["--mount", "--net", "--pid", "--uts", "--ipc", "--cgroup"] as const;

/** The first process of a PID namespace, seen from outside. With it ends everything in that namespace. */
export interface FirstProcess {
  readonly pid: number;
  /** The link of its PID namespace, by which it differs from a later process with the same number. */
  readonly namespace: string;
}

/** Whether the process still is the one that was started. */
export function isAlive({ pid, namespace }: FirstProcess): boolean {
  try {
    return readlinkSync(`/proc/${pid}/ns/pid`) === namespace;
  } catch {
    return false;
  }
}

/** Ends the process and everything in its PID namespace. */
export async function end(first: FirstProcess): Promise<void> {
  if (isAlive(first)) process.kill(first.pid, "SIGKILL");
  await until("the end of the cluster's processes", () => (isAlive(first) ? undefined : true), 30);
}

/** Starts the machine that holds the cluster, with these addresses in prefix notation on the nodes' link. */
export async function startMachine(directory: string, addresses: readonly string[]): Promise<FirstProcess> {
  mkdirSync(directory, { recursive: true });
  const args = [...MACHINE_NAMESPACES, "--fork", "--", path.join(HERE, "machine.sh"), ...addresses];
  const outer = start("unshare", args, path.join(directory, "machine.log"));
  const first = await until("the cluster's machine", () => firstOf(descendant(outer, 1)), 10);
  await until(
    "the nodes' link",
    () => enter("machine", first, ["ip", "link", "show", "up", "dev", "link0"]) || undefined,
    10,
  );
  return first;
}

/** Starts a node within the machine, without a network; its files are kept in the directory. */
export async function startNode(machine: FirstProcess, name: string, directory: string): Promise<FirstProcess> {
  mkdirSync(path.join(directory, "etc"), { recursive: true });
  const args = [...targets(machine, MACHINE_NAMESPACES), "--", path.join(HERE, "node.sh"), name, directory];
  const outer = start("nsenter", args, path.join(directory, "node.log"));
  // nsenter has a child in the PID namespace, which becomes unshare; the child of that is the node's first process.
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

/** Runs a program inside with this terminal as its own. Returns its exit code. */
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

function enterArguments(kind: "machine" | "node", first: FirstProcess, command: readonly string[]): readonly string[] {
  return kind === "machine"
    ? [...targets(first, MACHINE_NAMESPACES), "--", ...command]
    : [...targets(first, NODE_NAMESPACES), "--", path.join(HERE, "enter.sh"), ...command];
}

function targets({ pid }: FirstProcess, namespaces: readonly string[]): readonly string[] {
  return ["--target", `${pid}`, ...namespaces];
}

/** The process a number of generations below one that has a single child in each; undefined before it exists. */
function descendant(pid: number, generations: number): number | undefined {
  if (generations === 0) return pid;
  const [child] = readFileSync(`/proc/${pid}/task/${pid}/children`, "utf8").trim().split(" ").map(Number);
  return child === undefined || child === 0 ? undefined : descendant(child, generations - 1);
}

/** Undefined while the process is not yet the first of a PID namespace of its own. */
function firstOf(pid: number | undefined): FirstProcess | undefined {
  if (pid === undefined) return undefined;
  const inside = /^NSpid:.*\t(?<innermost>\d+)$/m.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.groups?.[
    "innermost"
  ];
  return inside === "1" ? { pid, namespace: readlinkSync(`/proc/${pid}/ns/pid`) } : undefined;
}
