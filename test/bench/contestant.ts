import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import path from "node:path";
import { formatCidr } from "../../kernel/ip/cidr.ts";
import { DRAWBRIDGE } from "../lab/cni.ts";
import { enableForwarding, type Lab, type LabNode, type LabPod } from "../lab/lab.ts";
import { type Program, startProgram, waitFor } from "../lab/posix_spawn.ts";
import type { WiredNode } from "../lab/topology.ts";

/** One of the two plugins, with its executable. */
export interface Contestant {
  /** "drawbridge" or "bridge": its `type`, its file name and the prefix of its objects in a lab. */
  readonly name: "drawbridge" | "bridge";
  readonly executable: string;
}

export const OURS: Contestant = { name: "drawbridge", executable: DRAWBRIDGE };

export function peerContestant(directory: string): Contestant {
  return { name: "bridge", executable: path.join(directory, "bridge") };
}

/**
 * Returns the contestant in a fresh directory, where all of it was written at once as an installer does.
 *
 * It starts up to a sixth faster than one whose pages came into memory one by one (the page cache then holds it in
 * small pieces, and every page fault maps less): so both have to be installed in the same way, immediately before they
 * run.
 *
 * @param files its files in addition to its executable
 */
export function install(contestant: Contestant, directory: string, files: readonly string[] = []): Contestant {
  mkdirSync(directory, { recursive: true });
  const from = path.dirname(contestant.executable);
  const name = path.basename(contestant.executable);
  for (const file of [name, ...files]) {
    writeFileSync(path.join(directory, file), readFileSync(path.join(from, file)), { mode: 0o755 });
  }
  return { ...contestant, executable: path.join(directory, name) };
}

/** A contestant on a node of its own. */
export interface Side {
  readonly contestant: Contestant;
  readonly node: LabNode;
  /** The directory of inputs, outputs and the plugin's own run-time files. */
  readonly directory: string;
  readonly configuration: object;
}

/** The lab and the directory where sides are made. */
export interface Place {
  readonly lab: Lab;
  /** A directory in memory, as /run is on a node: see {@link RunDirectory}. */
  readonly runDirectory: string;
}

const RANGES: readonly string[] = ["10.244.1.0/24", "fd00:244:1::/64"];

/** Puts a contestant on a fresh node without uplinks. */
export function newSide({ lab, runDirectory }: Place, contestant: Contestant, name: string): Side {
  const node = lab.node(`${contestant.name}-${name}`);
  enableForwarding(node);
  return sideOn(node, path.join(runDirectory, node.name), contestant, RANGES);
}

/** Puts a contestant on a node of a topology. */
export function wiredSide(wired: WiredNode, runDirectory: string, contestant: Contestant): Side {
  const directory = path.join(runDirectory, `${contestant.name}-${wired.node.name}`);
  return sideOn(wired.node, directory, contestant, wired.podCidrs.map(formatCidr));
}

/**
 * Returns a side with the configuration that both plugins share except for its `type`. The default routes are the
 * IPAM's, through the bridge's address, as `isDefaultGateway` makes them, and the reference plugin refuses both
 * together.
 */
function sideOn(node: LabNode, directory: string, contestant: Contestant, subnets: readonly string[]): Side {
  mkdirSync(directory, { recursive: true });
  const configuration = {
    cniVersion: "1.1.0",
    name: "drawbridge",
    type: contestant.name,
    bridge: "drawbridge0",
    isGateway: true,
    hairpinMode: true,
    runDir: directory,
    ipam: {
      type: "host-local",
      dataDir: node.dataDir,
      ranges: subnets.map((subnet) => [{ subnet }]),
      routes: [{ dst: "0.0.0.0/0" }, { dst: "::/0" }],
    },
  };
  return { contestant, node, directory, configuration };
}

/** The verbs that are measured. */
export type Command = "ADD" | "DEL" | "GC" | "VERSION";

/**
 * Returns a call of a plugin as a container runtime makes it, with its input in a file.
 *
 * @param further keys of the configuration for this call
 */
export function programFor(side: Side, command: Command, pod?: LabPod, further: object = {}): Program {
  const { directory, contestant, configuration } = side;
  const file = (suffix: string): string => path.join(directory, `${pod?.name ?? "no-pod"}.${suffix}`);
  const stdin = file("stdin");
  writeFileSync(
    stdin,
    JSON.stringify(command === "VERSION" ? { cniVersion: "1.1.0" } : { ...configuration, ...further }),
  );
  return {
    file: contestant.executable,
    environment: {
      PATH: "/usr/sbin:/usr/bin:/sbin:/bin",
      CNI_COMMAND: command,
      CNI_PATH: path.dirname(contestant.executable),
      ...(pod === undefined ? {} : podEnvironment(pod)),
    },
    stdin,
    stdout: file("stdout"),
    stderr: file("stderr"),
  };
}

function podEnvironment(pod: LabPod): Record<string, string> {
  return {
    CNI_CONTAINERID: pod.containerId,
    CNI_NETNS: pod.path,
    CNI_IFNAME: "eth0",
    CNI_ARGS:
      "IgnoreUnknown=1;K8S_POD_NAMESPACE=default;" +
      `K8S_POD_NAME=${pod.name};K8S_POD_INFRA_CONTAINER_ID=${pod.containerId};K8S_POD_UID=uid-${pod.name}`,
  };
}

/** The costs of a call. */
export interface Timing {
  /** The time from the start of the process until its end. */
  readonly milliseconds: number;
  /** User and system time of the process and of those that it waited for. */
  readonly cpuMilliseconds: number;
}

/**
 * Runs a call to its end.
 *
 * @throws Error with the plugin's output when it failed, since there is nothing to measure then
 */
export function timeCall(side: Side, command: Command, pod?: LabPod, further?: object): Timing {
  const program = programFor(side, command, pod, further);
  const start = performance.now();
  const { exitCode, cpuMilliseconds } = waitFor(startProgram(side.node, program));
  const milliseconds = performance.now() - start;
  demandSuccess(program, exitCode);
  return { milliseconds, cpuMilliseconds };
}

/**
 * Runs a call for each pod, all at once.
 *
 * @returns milliseconds from the start of the first until the end of the last
 * @throws Error as {@link timeCall}
 */
export function together(side: Side, command: "ADD" | "DEL", pods: readonly LabPod[]): number {
  const programs = pods.map((pod) => programFor(side, command, pod));
  const start = performance.now();
  const processes = programs.map((program) => startProgram(side.node, program));
  const ends = processes.map(waitFor);
  const milliseconds = performance.now() - start;
  for (const [i, program] of programs.entries()) demandSuccess(program, ends[i]?.exitCode ?? null);
  return milliseconds;
}

/** Attaches a pod and returns the result. */
function resultOfAdd(side: Side, pod: LabPod): unknown {
  timeCall(side, "ADD", pod);
  return parseJson(readFileSync(programFor(side, "ADD", pod).stdout, "utf8"));
}

/** Attaches a pod and returns its first address. */
export function addressOfNewPod(side: Side, pod: LabPod): string {
  const result = resultOfAdd(side, pod);
  const address = member(member(member(result, "ips"), "0"), "address");
  if (typeof address !== "string") throw new Error(`${side.contestant.name}: no address in the result of ADD`);
  return address.slice(0, address.indexOf("/"));
}

/** Asserts that a program exited with 0. @throws Error with the program's output otherwise */
export function demandSuccess(program: Program, exitCode: number | null): void {
  if (exitCode === 0) return;
  const printed = [program.stdout, program.stderr].map((file) => readFileSync(file, "utf8").trim()).join("\n");
  const command = [program.file, ...(program.args ?? []), program.environment["CNI_COMMAND"] ?? ""].join(" ").trim();
  throw new Error(`${command}: exit code ${exitCode ?? "none, it was killed"}\n${printed}`);
}

export function parseJson(text: string): unknown {
  return JSON.parse(text);
}

/** Returns a member of a JSON object or array; undefined when there is none. */
export function member(value: unknown, key: string): unknown {
  if (typeof value !== "object" || value === null) return undefined;
  return Object.entries(value).find(([name]) => name === key)?.[1];
}
