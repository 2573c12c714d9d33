import { spawn, spawnSync } from "node:child_process";
import { existsSync, symlinkSync } from "node:fs";
import path from "node:path";
import process from "node:process";
import { fileURLToPath } from "node:url";
import { formatCidr } from "../../kernel/ip/cidr.ts";
import type { LabPod } from "./lab.ts";
import type { MaskedFeature } from "./mask/features.ts";
import { masked } from "./mask/mask.ts";
import type { LabNamespace } from "./namespace.ts";
import { hasFamilyOf, type WiredNode } from "./topology.ts";

/** The directory of `npm run build` whose files a daemon installs. */
export const SOURCE: string = fileURLToPath(new URL("../../dist/cni", import.meta.url));

/** The plugin's executable. */
export const DRAWBRIDGE: string = path.join(SOURCE, "drawbridge");

/**
 * Returns the path of the plugin under one of its names, according to which it acts.
 *
 * @param directory in which the name is made, or exists already
 */
export function pluginAs(name: "drawbridge" | "drawbridge-ipam" | "loopback", directory: string): string {
  const file = path.join(directory, name);
  if (!existsSync(file)) symlinkSync(DRAWBRIDGE, file);
  return file;
}

/** A network configuration for the plugin's standard input. */
export type Configuration = Readonly<Record<string, unknown>>;

/** The parts of one call of a plugin. */
export interface Call {
  readonly command: "ADD" | "DEL" | "CHECK" | "STATUS" | "GC" | "VERSION";
  readonly environment: Readonly<Record<string, string>>;
  readonly configuration: Configuration;
  /** The plugin; {@link DRAWBRIDGE} when absent. Its directory is the CNI_PATH. */
  readonly executable?: string;
  /** Kernel features that are hidden from the plugin. */
  readonly without?: readonly MaskedFeature[];
  /** A command line that runs the plugin, which is appended to it. Not together with `without`. */
  readonly launcher?: readonly string[];
}

/** The outcome of a call of a plugin. */
export interface CallOutcome {
  /** null when it was killed. */
  readonly exitCode: number | null;
  readonly signal: NodeJS.Signals | null;
  readonly stdout: string;
  readonly stderr: string;
  /** Its output, if it exited with 0 and printed JSON. */
  readonly result: Configuration | undefined;
  /** The printed error object, if it exited with another code. */
  readonly error: { readonly code: number; readonly msg: string; readonly details?: string } | undefined;
  /** The time from just before the process was made until it had ended. */
  readonly milliseconds: number;
}

/** The options by which calls differ. */
export interface CallOptions {
  readonly executable?: string;
  readonly containerId?: string;
  readonly ifname?: string;
  /** CNI_NETNS; a DEL may come without one. */
  readonly netns?: string;
  readonly without?: readonly MaskedFeature[];
  readonly launcher?: readonly string[];
  /** The pod's namespace; "default" when absent. */
  readonly podNamespace?: string;
  /** Appended to the K8S_ pairs of CNI_ARGS ("IP=10.244.1.9"). */
  readonly arguments?: string;
}

/**
 * The bridge of the labs' pods, which the configurations of plugin and daemon name: not the default, but the name that
 * most other add-ons give their bridge.
 */
export const LAB_BRIDGE = "cni0";

/** Returns the configuration of a node; `overrides` replaces single keys. */
export function configurationOf(wired: WiredNode, overrides: Configuration = {}): Configuration {
  return {
    cniVersion: "1.1.0",
    name: "drawbridge",
    type: "drawbridge",
    bridge: LAB_BRIDGE,
    isGateway: true,
    hairpinMode: true,
    mtu: wired.mtu,
    runDir: wired.node.runDir,
    ipam: {
      type: "host-local",
      dataDir: wired.node.dataDir,
      ranges: wired.podCidrs.filter(hasFamilyOf).map((subnet) => [{ subnet: formatCidr(subnet) }]),
    },
    ...overrides,
  };
}

/** Carries out ADD for a pod. */
export function add(wired: WiredNode, pod: LabPod, overrides?: Configuration, options?: CallOptions): CallOutcome {
  return callPlugin(wired.node, podCall("ADD", wired, pod, overrides, options));
}

/** Carries out DEL for a pod. */
export function del(wired: WiredNode, pod: LabPod, overrides?: Configuration, options?: CallOptions): CallOutcome {
  return callPlugin(wired.node, podCall("DEL", wired, pod, overrides, options));
}

/** Carries out CHECK for a pod, as CRI-O does after each ADD. @param prevResult the output of the ADD, or of a chain */
export function check(
  wired: WiredNode,
  pod: LabPod,
  prevResult: unknown,
  overrides: Configuration = {},
  options?: CallOptions,
): CallOutcome {
  return callPlugin(wired.node, podCall("CHECK", wired, pod, { ...overrides, prevResult }, options));
}

/** Carries out GC with a runtime's list of valid attachments; without a list, the key is omitted. */
export function collectGarbage(
  wired: WiredNode,
  valid: readonly Configuration[] | undefined,
  overrides?: Configuration,
): CallOutcome {
  return callPlugin(wired.node, garbageCall(wired, valid, overrides));
}

/** Returns the call of {@link collectGarbage}. */
export function garbageCall(
  wired: WiredNode,
  valid: readonly Configuration[] | undefined,
  overrides: Configuration = {},
): Call {
  return {
    command: "GC",
    environment: { CNI_CONTAINERID: "", CNI_NETNS: "", CNI_IFNAME: "", CNI_ARGS: "" },
    configuration: configurationOf(wired, {
      ...overrides,
      ...(valid === undefined ? {} : { "cni.dev/valid-attachments": valid }),
    }),
  };
}

/** Carries out STATUS, as the kubelet does every few seconds through the runtime. */
export function networkStatus(wired: WiredNode, overrides: Configuration = {}, executable?: string): CallOutcome {
  return callPlugin(wired.node, {
    command: "STATUS",
    // libcni sets all variables for every verb.
    environment: { CNI_CONTAINERID: "", CNI_NETNS: "", CNI_IFNAME: "", CNI_ARGS: "" },
    configuration: configurationOf(wired, overrides),
    ...(executable === undefined ? {} : { executable }),
  });
}

/** Asks for the versions that the plugin supports; libcni sends no more than this. */
export function version(namespace: LabNamespace, executable = DRAWBRIDGE): CallOutcome {
  return callPlugin(namespace, {
    command: "VERSION",
    environment: {},
    configuration: { cniVersion: "1.1.0" },
    executable,
  });
}

/** Returns the call that a container runtime makes for a pod. */
export function podCall(
  command: "ADD" | "DEL" | "CHECK",
  wired: WiredNode,
  pod: LabPod,
  overrides: Configuration = {},
  options: CallOptions = {},
): Call {
  const containerId = options.containerId ?? pod.containerId;
  const podArguments =
    `IgnoreUnknown=1;K8S_POD_NAMESPACE=${options.podNamespace ?? "default"};` +
    `K8S_POD_NAME=${pod.name};K8S_POD_INFRA_CONTAINER_ID=${containerId};K8S_POD_UID=uid-${pod.name}`;
  return {
    command,
    configuration: configurationOf(wired, overrides),
    environment: {
      CNI_CONTAINERID: containerId,
      CNI_NETNS: options.netns ?? pod.path,
      CNI_IFNAME: options.ifname ?? "eth0",
      CNI_ARGS: options.arguments === undefined ? podArguments : `${podArguments};${options.arguments}`,
    },
    ...(options.executable === undefined ? {} : { executable: options.executable }),
    ...(options.without === undefined ? {} : { without: options.without }),
    ...(options.launcher === undefined ? {} : { launcher: options.launcher }),
  };
}

/** Runs a plugin in a node's namespace to its end, blocking this thread. */
export function callPlugin(namespace: LabNamespace, call: Call): CallOutcome {
  const { file, args, env, input } = prepare(call);
  const start = performance.now();
  const { status, signal, stdout, stderr, error } = namespace.inside(() =>
    spawnSync(file, args, { env, input, encoding: "utf8", maxBuffer: 1 << 24 }),
  );
  if (error !== undefined && !isUnreadInput(error)) throw error;
  return outcomeOf({ exitCode: status, signal, stdout, stderr, milliseconds: performance.now() - start });
}

/**
 * Whether an error only says that a program ended without reading all of its standard input (EPIPE). Its exit code and
 * output give the reason.
 */
export function isUnreadInput(error: Error): boolean {
  return "code" in error && error.code === "EPIPE";
}

/** A running plugin. */
export interface RunningCall {
  readonly outcome: Promise<CallOutcome>;
  kill(signal: NodeJS.Signals): void;
}

/**
 * Starts a plugin in a node's namespace, for calls in parallel.
 *
 * Only the start happens inside: libuv forks on the calling thread before spawn() returns, and the child starts in that
 * thread's namespace. Its output is read through descriptors, independently of namespaces.
 */
export function startPlugin(namespace: LabNamespace, call: Call): RunningCall {
  const { file, args, env, input } = prepare(call);
  const start = performance.now();
  const child = namespace.inside(() => spawn(file, args, { env, stdio: "pipe" }));
  const outcome = new Promise<CallOutcome>((resolve, reject) => {
    const texts = { stdout: "", stderr: "" };
    let ended = start;
    child.stdout.setEncoding("utf8").on("data", (text: string) => (texts.stdout += text));
    child.stderr.setEncoding("utf8").on("data", (text: string) => (texts.stderr += text));
    child.on("error", reject);
    child.on("exit", () => (ended = performance.now()));
    child.on("close", (exitCode, signal) => {
      resolve(outcomeOf({ exitCode, signal, ...texts, milliseconds: ended - start }));
    });
    // A killed plugin reads nothing more: EPIPE adds nothing to its outcome.
    child.stdin.on("error", () => {});
    child.stdin.end(input);
  });
  return { outcome, kill: (signal) => void child.kill(signal) };
}

interface PreparedCall {
  readonly file: string;
  readonly args: readonly string[];
  readonly env: Record<string, string>;
  readonly input: string;
}

function prepare(call: Call): PreparedCall {
  const executable = call.executable ?? DRAWBRIDGE;
  return {
    ...commandLine(call, executable),
    env: {
      PATH: process.env["PATH"] ?? "/usr/sbin:/usr/bin:/sbin:/bin",
      ...call.environment,
      CNI_COMMAND: call.command,
      CNI_PATH: path.dirname(executable),
    },
    input: JSON.stringify(call.configuration),
  };
}

function commandLine(
  { without, launcher }: Call,
  executable: string,
): { readonly file: string; readonly args: readonly string[] } {
  if (without !== undefined) return masked(without, executable);
  const [file, ...args] = [...(launcher ?? []), executable];
  return { file, args };
}

function outcomeOf(ended: Omit<CallOutcome, "result" | "error">): CallOutcome {
  const printed = parseObject(ended.stdout);
  if (ended.exitCode === 0) return { ...ended, result: printed, error: undefined };
  const { code, msg, details } = printed ?? {};
  const error =
    typeof code === "number" && typeof msg === "string"
      ? { code, msg, ...(typeof details === "string" ? { details } : {}) }
      : undefined;
  return { ...ended, result: undefined, error };
}

function parseObject(text: string): Configuration | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return isObject(value) ? value : undefined;
  } catch {
    return undefined;
  }
}

function isObject(value: unknown): value is Configuration {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
