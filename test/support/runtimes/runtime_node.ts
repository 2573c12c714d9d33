import assert from "node:assert/strict";
import { type ChildProcess, spawn, spawnSync, type SpawnSyncReturns } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdirSync, readdirSync, writeFileSync } from "node:fs";
import type { NodePlace } from "../../../cli/node/place.ts";
import type { Lab } from "../../lab/lab.ts";
import type { WiredNode } from "../../lab/topology.ts";
import { nodeState, nothingHeld } from "../cni/kernel_state.ts";
import { configured, type DaemonProcess, installing } from "../daemon/policyd.ts";
import { PolicydNode } from "../daemon/policyd_node.ts";
import { recorderScript } from "./recorder.ts";
import { nodeOf } from "../routes/route_lab.ts";

const TIMEOUT_MILLISECONDS = 60_000;

/** The programs that a runtime executes. */
const PLUGINS = ["drawbridge", "loopback"] as const;

/**
 * The script that mounts the node's own directories in place of the machine's, and then waits to be killed.
 *
 * @remarks $1 stands for /var/lib, $2 for host-local's directory, $3, if it is given, for /run
 */
const HOLDER = `set -e
mount --bind "$1" /var/lib
mount --bind "$2" /var/lib/cni/networks
if [ -n "$3" ]; then mount --bind "$3" /run; fi
if [ -n "$3" ]; then umount --recursive /sys/fs/cgroup && mount -t cgroup2 none /sys/fs/cgroup; fi
echo ready
exec sleep infinity`;

interface RunningParts {
  readonly wired: WiredNode;
  readonly root: string;
  readonly policyd: PolicydNode;
  readonly daemon: DaemonProcess;
  readonly holder: ChildProcess;
}

/**
 * A node of a lab on which policyd has installed the plugin and its configuration list, as a container runtime finds
 * them.
 *
 * Programs run in the node's network namespace and in one mount namespace, in which /var/lib is the lab's: libcni keeps
 * its cache there and host-local its reservations, and no client can be configured to use another place. Later mounts
 * do not appear in it, so the pods of the lab are made before.
 */
export class RuntimeNode {
  readonly wired: WiredNode;
  readonly #root: string;
  readonly #policyd: PolicydNode;
  readonly #holder: ChildProcess;
  readonly daemon: DaemonProcess;

  private constructor({ wired, root, policyd, daemon, holder }: RunningParts) {
    this.wired = wired;
    this.#root = root;
    this.#policyd = policyd;
    this.daemon = daemon;
    this.#holder = holder;
  }

  /**
   * Starts the daemon and waits until it has installed its files.
   *
   * @param options `hasOwnRun` also replaces /run and leaves only the unified cgroup hierarchy, for a runtime that
   * makes its own network namespaces
   */
  static async start(lab: Lab, wired: WiredNode, options: { readonly hasOwnRun?: boolean } = {}): Promise<RuntimeNode> {
    const root = `${lab.scratch}/${wired.node.name}-host`;
    for (const place of ["calls", "lib/cni/networks", "recorder", "run/lock"]) {
      mkdirSync(`${root}/${place}`, { recursive: true });
    }
    const policyd = new PolicydNode(lab, wired);
    policyd.put("node.json", JSON.stringify(nodeOf(wired)));
    const daemon = await policyd.start([configured(root, installing(root))]);
    const isInstalled = (): boolean => existsSync(`${root}/conf/10-drawbridge.conflist`);
    await daemon.statusWhen(({ problemCount }) => problemCount === 0 && isInstalled(), "the plugin is installed");
    const script = ["sh", "-c", HOLDER, "sh", `${root}/lib`, wired.node.dataDir];
    const args = ["--mount", ...script, options.hasOwnRun === true ? `${root}/run` : ""];
    const holder = wired.node.inside(() => spawn("unshare", args, { stdio: ["ignore", "pipe", "inherit"] }));
    lab.atEnd(() => void holder.kill("SIGKILL"));
    await once(holder.stdout, "data");
    const node = new RuntimeNode({ wired, root, policyd, daemon, holder });
    for (const plugin of PLUGINS) {
      const recorder = recorderScript(`${node.installed}/${plugin}`, node.calls);
      writeFileSync(`${node.binaries}/${plugin}`, recorder, { mode: 0o755 });
    }
    return node;
  }

  /** The directory with the configuration list that policyd wrote. */
  get configurations(): string {
    return `${this.#root}/conf`;
  }

  /** The directory of executables that runtimes use: scripts that call the installed ones. */
  get binaries(): string {
    return `${this.#root}/recorder`;
  }

  /** The directory with the executables that policyd installed. */
  get installed(): string {
    return `${this.#root}/bin`;
  }

  /** The directory in which the calls are recorded. */
  get calls(): string {
    return `${this.#root}/calls`;
  }

  /** The directory that programs see as /var/lib. */
  get library(): string {
    return `${this.#root}/lib`;
  }

  /** The places where a cleanup finds everything of the node. */
  get place(): NodePlace {
    return {
      configurationDirectory: this.configurations,
      binaryDirectory: this.installed,
      dataDirectory: this.wired.node.dataDir,
      stateDirectory: this.wired.node.runDir,
      socket: this.#policyd.socketPath,
      bridge: "cni0",
      flowDirectory: `${this.#root}/flows`,
      networkNamespace: undefined,
    };
  }

  /** Ends the daemon, as deleting its DaemonSet does. */
  async stopDaemon(): Promise<void> {
    await this.#policyd.kill();
  }

  /** The command that runs a program of the machine on this node. */
  command(file: string, args: readonly string[]): readonly [string, ...string[]] {
    return ["nsenter", `--mount=/proc/${this.#holder.pid}/ns/mnt`, `--net=${this.wired.node.path}`, file, ...args];
  }

  /** Runs a program on this node to its end. */
  run(file: string, args: readonly string[], input = "", env: NodeJS.ProcessEnv = {}): SpawnSyncReturns<string> {
    const [first, ...rest] = this.command(file, args);
    const { PATH } = process.env;
    return spawnSync(first, rest, { input, encoding: "utf8", timeout: TIMEOUT_MILLISECONDS, env: { PATH, ...env } });
  }

  /** The results that libcni still has in its cache. */
  get cached(): readonly string[] {
    const results = `${this.library}/cni/results`;
    return existsSync(results) ? readdirSync(results) : [];
  }

  /**
   * Asserts that the node holds nothing for a pod, neither in files, nor in the daemon, nor in the kernel. @throws
   * AssertionError while it does
   */
  async mustHoldNothing(addresses: readonly string[]): Promise<void> {
    await this.daemon.statusWhen(({ attachments }) => attachments === 0, "no attachment is left in the daemon");
    assert.deepEqual(nodeState(this.wired.node), nothingHeld);
    const ruleset = this.wired.node.ruleset();
    for (const address of addresses) {
      const pattern = new RegExp(`(^|[^0-9a-f.:])${address.replaceAll(".", "\\.")}([^0-9a-f.:]|$)`, "m");
      assert.doesNotMatch(ruleset, pattern, `nftables still names ${address}`);
    }
  }
}
