import { mkdirSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { type Configuration, LAB_BRIDGE } from "../../lab/cni.ts";
import type { Lab } from "../../lab/lab.ts";
import type { WiredNode } from "../../lab/topology.ts";
import { BUNDLE, type DaemonProcess, startDaemon } from "./policyd.ts";

/** A policyd for one node of a lab, with its socket and its objects below the lab's own files. */
export class PolicydNode {
  /** The plugin's configuration that names the daemon. */
  readonly overrides: Configuration;
  readonly #wait: string;
  readonly #wired: WiredNode;
  /** The directory of its own files. */
  readonly directory: string;
  #daemon: DaemonProcess | undefined;

  /**
   * @param lab at whose end the daemon is killed
   * @param wait the longest time that the plugin waits for the daemon
   */
  constructor(lab: Lab, wired: WiredNode, wait = "5s") {
    this.#wired = wired;
    this.directory = `${lab.scratch}/policyd-${wired.node.name}`;
    this.#wait = wait;
    this.overrides = this.overridesWith({});
    mkdirSync(`${this.directory}/objects`, { recursive: true });
    lab.atEnd(() => void this.#daemon?.child.kill("SIGKILL"));
  }

  /** Returns {@link overrides} with other fields of the key. */
  overridesWith(changes: Configuration): Configuration {
    return { policyd: { socket: this.socketPath, wait: this.#wait, ...changes } };
  }

  /** The path of the daemon's socket. */
  get socketPath(): string {
    return `${this.directory}/run/policyd.sock`;
  }

  /**
   * Starts a daemon, and resolves when it has read everything. Only one runs at a time.
   *
   * @param args further arguments of its command line
   * @param nodeOptions for Node itself
   */
  async start(args: readonly string[] = [], nodeOptions: readonly string[] = []): Promise<DaemonProcess> {
    const all = [
      `--node-name=${this.#wired.node.name}`,
      `--objects=${this.directory}/objects`,
      `--state-directory=${this.#wired.node.runDir}`,
      `--network-namespace=${this.#wired.node.path}`,
      // The router of these labs has routes to all pod CIDRs.
      "--encapsulation=never",
      `--bridge=${LAB_BRIDGE}`,
      ...args,
    ];
    const daemon = startDaemon(this.socketPath, all, BUNDLE, nodeOptions);
    this.#daemon = daemon;
    await daemon.statusWhen(({ isSynced }) => isSynced, "synced");
    return daemon;
  }

  /** Returns the path of a file of objects. */
  pathOf(name: string): string {
    return `${this.directory}/objects/${name}`;
  }

  /** Writes a file of objects, whole, where the daemon reads it; an empty text removes it. */
  put(name: string, text: string): void {
    const path = this.pathOf(name);
    if (text === "") return rmSync(path);
    writeFileSync(`${this.directory}/new`, text);
    renameSync(`${this.directory}/new`, path);
  }

  /** Kills the daemon, as in a crash. */
  async kill(): Promise<void> {
    await this.#daemon?.kill("SIGKILL");
    this.#daemon = undefined;
  }
}
