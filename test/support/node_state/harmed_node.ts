import assert from "node:assert/strict";
import { existsSync, mkdirSync, writeFileSync } from "node:fs";
import { setTimeout as pause } from "node:timers/promises";
import { formatAddress, parseAddress } from "../../../kernel/ip/address.ts";
import { add } from "../../lab/cni.ts";
import type { Lab, LabPod } from "../../lab/lab.ts";
import { type Flow, Prober } from "../../lab/probe/prober.ts";
import { twoNodes, type WiredNode } from "../../lab/topology.ts";
import { configured, type DaemonProcess } from "../daemon/policyd.ts";
import { PolicydNode } from "../daemon/policyd_node.ts";
import { nodeOf } from "../routes/route_lab.ts";
import { type HarmedFiles, OTHER_BRIDGE } from "./harms.ts";
import { fileState, nodeState } from "./snapshot.ts";
import { until } from "../until.ts";
import { listOf } from "../services/manifest.ts";

/** The slowest repair: milliseconds until all pods worked, and until all state was as before. */
export interface Worst {
  readonly flows: number;
  readonly state: number;
  readonly what: string;
}

/** The time after a harm in which all pods must work again. */
export const REPAIR_MILLISECONDS = 1000;
const PROBE_MILLISECONDS = 150;

/**
 * A node with three pods, a daemon that installs the plugin, and a tunnel to a second node with a pod, beside a bridge
 * of containers and the link of a VPN, which belong to other programs.
 */
export class HarmedNode {
  readonly policyd: PolicydNode;
  readonly wired: WiredNode;
  readonly files: HarmedFiles;
  readonly #second: WiredNode;
  readonly #secondDaemon: PolicydNode;
  /** Milliseconds until all pods worked again and all state was as before, of the slowest repair so far. */
  worst: Worst = { flows: 0, state: 0, what: "" };
  /** Milliseconds until all pods worked again, of each repair. */
  readonly repairs: number[] = [];
  readonly #lab: Lab;
  readonly #prober: Prober;
  /** The state that each repair has to restore. */
  #whole: Readonly<Record<"state" | "others", Readonly<Record<string, unknown>>>> | undefined;
  #pods: readonly LabPod[] = [];
  #far: LabPod | undefined;
  #daemon: DaemonProcess | undefined;

  constructor(lab: Lab) {
    this.#lab = lab;
    ({ node1: this.wired, node2: this.#second } = twoNodes(lab));
    this.policyd = new PolicydNode(lab, this.wired);
    this.#secondDaemon = new PolicydNode(lab, this.#second);
    this.files = {
      configurations: `${lab.scratch}/host/net.d`,
      binaries: `${lab.scratch}/host/bin`,
      source: `${lab.scratch}/host/source`,
      state: this.wired.node.runDir,
      socket: this.policyd.socketPath,
    };
    this.#prober = new Prober(lab);
  }

  /** Starts the daemon and attaches the pods. */
  async start(): Promise<void> {
    for (const args of [
      ["link", "add", OTHER_BRIDGE, "address", "02:42:00:00:00:01", "type", "bridge"],
      ["address", "add", "172.17.0.1/16", "dev", OTHER_BRIDGE],
      ["link", "set", OTHER_BRIDGE, "up"],
      ["link", "add", "wg0", "type", "veth", "peer", "name", "wg1"],
      ["address", "add", "10.99.0.2/24", "dev", "wg0"],
      ["link", "set", "wg0", "up"],
      ["link", "set", "wg1", "up"],
      ["route", "add", "10.100.0.0/16", "via", "10.99.0.1"],
    ]) {
      this.wired.node.exec("ip", args);
    }
    this.#installSource();
    const nodes = [this.wired, this.#second].map((wired) => nodeOf(wired));
    const objects = listOf(nodes);
    for (const daemon of [this.policyd, this.#secondDaemon]) daemon.put("nodes.json", objects);
    await this.#secondDaemon.start(["--encapsulation=always"]);
    await this.restart();
    const far = this.#lab.pod("far");
    assert.equal(add(this.#second, far, this.#secondDaemon.overrides).error, undefined);
    this.#far = far;
    this.#pods = ["a", "b", "c"].map((name) => {
      const pod = this.#lab.pod(name);
      assert.equal(add(this.wired, pod, this.policyd.overrides).error, undefined);
      return pod;
    });
    // It comes last. A daemon that is killed before would leave less than the tests expect to find.
    await until(() => existsSync(`${this.files.configurations}/10-drawbridge.conflist`), "the plugin is installed");
  }

  async restart(...args: readonly string[]): Promise<void> {
    this.#daemon = await this.policyd.start([
      ...args,
      "--encapsulation=always",
      `--config=${this.#lab.scratch}/host/policyd.json`,
    ]);
  }

  /** Writes a small file in place of the executable: the tests only check that it is installed. */
  #installSource(): void {
    const { source, binaries, configurations } = this.files;
    for (const directory of [source, binaries, configurations]) mkdirSync(directory, { recursive: true });
    writeFileSync(`${source}/drawbridge`, "#!/bin/false\n", { mode: 0o755 });
    configured(`${this.#lab.scratch}/host`, {
      installCni: true,
      cniSourceDirectory: source,
      cniBinDirectory: binaries,
      cniConfDirectory: configurations,
    });
  }

  get daemon(): DaemonProcess {
    assert.ok(this.#daemon !== undefined);
    return this.#daemon;
  }

  /** Returns the name of the link of one of the pods. */
  portOf(index: number): string {
    const names = this.wired.node.links().flatMap(({ name }) => (name.startsWith("dbv") ? [name] : []));
    return names[index % names.length] ?? "";
  }

  /** Returns the flows that are not answered: between pods, to the node, from it, and to targets outside. */
  async lost(): Promise<readonly string[]> {
    const results = await this.#prober.run(this.#flows(), { timeoutMilliseconds: PROBE_MILLISECONDS });
    return results.flatMap(({ reached, flow, why }) =>
      reached ? [] : [`${flow.from.name} to ${formatAddress(flow.to.address)}: ${why}`],
    );
  }

  #flows(): readonly Flow[] {
    const [a, b, c] = this.#pods;
    const far = this.#far;
    assert.ok(a !== undefined && b !== undefined && c !== undefined && far !== undefined);
    const { node } = this.wired;
    return (
      [
        [a, "10.244.1.3"],
        [a, "fd00:244:1::3"],
        [b, "10.244.1.4"],
        [c, "fd00:244:1::2"],
        [a, "192.0.2.9"],
        [b, "2001:db8:0:1::1"],
        [node, "10.244.1.4"],
        [node, "fd00:244:1::4"],
        [a, "10.244.2.2"],
        [far, "fd00:244:1::3"],
      ] as const
    ).map(([from, address]): Flow => ({ protocol: "icmp", from, to: { address: parseAddress(address), port: 0 } }));
  }

  /** Returns all of our state on the node: the pods' side of it, the routes to other nodes, and files. */
  state(): Readonly<Record<string, unknown>> {
    return this.#look().state;
  }

  /** Returns {@link state} and all state of the node that is not ours. */
  #look(): Readonly<Record<"state" | "others", Readonly<Record<string, unknown>>>> {
    const { own, others } = nodeState(this.wired.node);
    return { state: { ...own, files: fileState(this.files) }, others };
  }

  /**
   * Harms the node, and asserts that all pods work again in under a second, that all of our state is restored, and that
   * no foreign state has changed.
   *
   * @param harm the time counts from its end
   */
  async demandRepair(what: string, harm: () => void | Promise<void>): Promise<void> {
    // Listing all state takes many programs, and each repair ends with the state that the one before ended with.
    this.#whole ??= this.#look();
    const { state: before, others } = this.#whole;
    await harm();
    const since = performance.now();
    let missing = await this.lost();
    while (missing.length > 0 && performance.now() - since < 3 * REPAIR_MILLISECONDS) {
      await pause(5);
      missing = await this.lost();
    }
    const elapsed = performance.now() - since;
    const context = `${what}; log: ${this.daemon.log().slice(-2000)}`;
    assert.deepEqual(missing, [], context);
    let now = this.#look();
    while (!isEqual(now.state, before) && performance.now() - since < 5 * REPAIR_MILLISECONDS) {
      await pause(200);
      now = this.#look();
    }
    const whole = performance.now() - since;
    assert.deepEqual(now.state, before, context);
    this.repairs.push(elapsed);
    const { flows, state } = this.worst;
    this.worst = {
      flows: Math.max(flows, elapsed),
      state: Math.max(state, whole),
      what: whole > state ? what : this.worst.what,
    };
    assert.deepEqual(now.others, others, context);
    assert.ok(elapsed < REPAIR_MILLISECONDS, `${elapsed} ms: ${context}`);
  }
}

function isEqual(one: unknown, other: unknown): boolean {
  return JSON.stringify(one) === JSON.stringify(other);
}
