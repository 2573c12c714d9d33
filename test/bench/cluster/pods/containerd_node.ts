import { type ChildProcess, spawn } from "node:child_process";
import { existsSync, mkdirSync, openSync, readFileSync, writeFileSync } from "node:fs";
import path from "node:path";
import process from "node:process";
import { setTimeout as wait } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { run } from "../../../cluster/run.ts";
import { enableForwarding, type Lab, type LabNode } from "../../../lab/lab.ts";
import { sleep } from "../../sleep.ts";
import { PodCgroup } from "./cgroup.ts";
import { ContainerRuntime } from "./container_runtime.ts";

const NODE_PROGRAM = fileURLToPath(new URL("node.sh", import.meta.url));
const WAIT_MILLISECONDS = 60_000;
const POLL_MILLISECONDS = 20;
const SHOWN_OF_A_LOG = 2000;
/** Joins the cgroup whose file is the first argument, and executes the other arguments. */
const JOIN = 'echo 0 >"$1" && shift && exec "$@"';

/** An image that containerd imports, and its name. */
export interface Image {
  readonly archive: string;
  readonly name: string;
}

/** A node with a containerd of its own: namespaces and a cgroup that are removed with it, by the lab at the latest. */
export class ContainerdNode implements Disposable {
  readonly node: LabNode;
  readonly cgroup: PodCgroup;
  /** A client of containerd. */
  readonly runtime: ContainerRuntime;
  /** The directory in which containerd looks for plugins. */
  readonly plugins: string;
  readonly #configurations: string;
  readonly #outer: ChildProcess;
  #isEnded = false;

  private constructor(lab: Lab, name: string, sandbox: Image) {
    this.node = lab.node(name);
    enableForwarding(this.node);
    const directory = path.join(lab.scratch, name);
    this.plugins = path.join(directory, "plugins");
    this.#configurations = path.join(directory, "net.d");
    for (const made of [this.plugins, this.#configurations]) mkdirSync(made, { recursive: true });
    const configuration = path.join(directory, "containerd.toml");
    writeFileSync(configuration, containerdConfiguration(this, this.#configurations, sandbox));
    this.cgroup = new PodCgroup(name);
    const log = openSync(logOf(directory), "w");
    const namespaces = ["--mount", "--pid", "--fork", "--kill-child", "--"];
    const containerd = ["containerd", "--config", configuration, "--root", path.join(directory, "root")];
    const state = ["--state", "/run/containerd", "--address", socketOf(directory)];
    this.#outer = this.node.inside(() =>
      spawn("unshare", [...namespaces, ...this.#joined(NODE_PROGRAM, ...containerd, ...state)], {
        stdio: ["ignore", log, log],
      }),
    );
    lab.atEnd(() => this[Symbol.dispose]());
    this.runtime = new ContainerRuntime(socketOf(directory));
  }

  /** Starts containerd and gives it the image of sandboxes. @throws Error with the end of its log */
  static async start(lab: Lab, name: string, sandbox: Image): Promise<ContainerdNode> {
    const made = new ContainerdNode(lab, name, sandbox);
    const directory = path.join(lab.scratch, name);
    await made.#until(() => existsSync(socketOf(directory)), `containerd of ${name}`, logOf(directory));
    run("ctr", ["--address", socketOf(directory), "--namespace", "k8s.io", "images", "import", sandbox.archive]);
    return made;
  }

  /** Writes the configuration of the node's network, with which it can run pods. */
  configure(name: string, list: object): void {
    writeFileSync(path.join(this.#configurations, `${name}.conflist`), JSON.stringify(list));
  }

  /** Starts a program within the node, in the cgroup of its runtime. It ends with the node. */
  start(command: readonly string[], environment: Readonly<Record<string, string>>, log: string): void {
    const output = openSync(log, "w");
    const target = ["--target", String(this.#first()), "--mount", "--pid", "--net", "--"];
    spawn("nsenter", [...target, ...this.#joined(...command)], {
      env: { ...process.env, ...environment },
      stdio: ["ignore", output, output],
    });
  }

  /** Ends every process of the node and removes its cgroup. */
  [Symbol.dispose](): void {
    if (this.#isEnded) return;
    this.#isEnded = true;
    this.runtime[Symbol.dispose]();
    const first = this.#first();
    // When the first process of a PID namespace is killed, all others end before it does.
    if (first === undefined) this.#outer.kill("SIGKILL");
    else endProcess(first);
    this.cgroup[Symbol.dispose]();
  }

  #joined(...command: readonly string[]): readonly string[] {
    return ["sh", "-c", JOIN, "sh", this.cgroup.runtimeProcesses, ...command];
  }

  /** The first process of the node's PID namespace, by its ID outside. */
  #first(): number | undefined {
    const { pid } = this.#outer;
    const file = `/proc/${pid}/task/${pid}/children`;
    const [child] = existsSync(file) ? readFileSync(file, "latin1").split(" ").filter(Boolean).map(Number) : [];
    return child;
  }

  async #until(isSo: () => boolean, what: string, log: string): Promise<void> {
    const deadline = performance.now() + WAIT_MILLISECONDS;
    while (!isSo()) {
      if (performance.now() > deadline || this.#outer.exitCode !== null) {
        throw new Error(`${what} does not start:\n${readFileSync(log, "utf8").slice(-SHOWN_OF_A_LOG)}`);
      }
      await wait(100);
    }
  }
}

/** Kills a process and waits until its parent has reaped it. */
function endProcess(pid: number): void {
  process.kill(pid, "SIGKILL");
  for (let left = WAIT_MILLISECONDS; existsSync(`/proc/${pid}`) && left > 0; left -= POLL_MILLISECONDS) {
    sleep(POLL_MILLISECONDS);
  }
}

function socketOf(directory: string): string {
  return path.join(directory, "containerd.sock");
}

function logOf(directory: string): string {
  return path.join(directory, "containerd.log");
}

/** Returns the configuration in version 2 of the format, which containerd 1.6 and 2 read. */
function containerdConfiguration({ plugins }: { readonly plugins: string }, network: string, { name }: Image): string {
  return `version = 2
disabled_plugins = ["io.containerd.internal.v1.opt"]
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "${name}"
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "${plugins}"
    conf_dir = "${network}"
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
      SystemdCgroup = false
`;
}
