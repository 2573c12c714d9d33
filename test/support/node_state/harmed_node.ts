import assert from "node:assert/strict";
import { setTimeout as pause } from "node:timers/promises";
import { formatAddress, parseAddress } from "../../../kernel/ip/address.ts";
import { add } from "../../lab/cni.ts";
import type { Lab, LabPod } from "../../lab/lab.ts";
import type { Flow } from "../../lab/probe/prober.ts";
import { Prober } from "../../lab/probe/prober.ts";
import type { WiredNode } from "../../lab/topology.ts";
import { twoNodes } from "../../lab/topology.ts";
import type { DaemonProcess } from "../policyd.ts";
import { PolicydNode } from "../policyd_node.ts";
import { OTHER_BRIDGE } from "./harms.ts";
import { othersState, podState } from "./snapshot.ts";

/** After a harm all pods work again within this. */
export const REPAIR_MILLISECONDS = 1000;
const PROBE_MILLISECONDS = 150;

/** A node with three pods and a daemon, beside a bridge of containers and the link of a VPN, which other programs have made. */
export class HarmedNode {
  readonly policyd: PolicydNode;
  readonly wired: WiredNode;
  readonly #lab: Lab;
  readonly #prober: Prober;
  #pods: readonly LabPod[] = [];
  #daemon: DaemonProcess | undefined;

  constructor(lab: Lab) {
    this.#lab = lab;
    ({ node1: this.wired } = twoNodes(lab));
    this.policyd = new PolicydNode(lab, this.wired);
    this.#prober = new Prober(lab.calls);
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
    await this.restart();
    this.#pods = ["a", "b", "c"].map((name) => {
      const pod = this.#lab.pod(name);
      assert.equal(add(this.wired, pod, this.policyd.overrides).error, undefined);
      return pod;
    });
  }

  async restart(): Promise<void> {
    this.#daemon = await this.policyd.start();
  }

  get daemon(): DaemonProcess {
    assert.ok(this.#daemon !== undefined);
    return this.#daemon;
  }

  async end(): Promise<void> {
    this.#prober.close();
    await this.policyd.kill();
  }

  /** The link of one of the pods. */
  portOf(index: number): string {
    const names = this.wired.node.links().flatMap(({ name }) => (name.startsWith("dbv") ? [name] : []));
    return names[index % names.length] ?? "";
  }

  /** The flows that do not get through and back: between pods, to the node, from it, and to what is outside. */
  async lost(): Promise<readonly string[]> {
    const results = await this.#prober.run(this.#flows(), { timeoutMilliseconds: PROBE_MILLISECONDS });
    return results.flatMap(({ reached, flow, why }) =>
      reached ? [] : [`${flow.from.name} to ${formatAddress(flow.to.address)}: ${why}`],
    );
  }

  #flows(): readonly Flow[] {
    const [a, b, c] = this.#pods;
    assert.ok(a !== undefined && b !== undefined && c !== undefined);
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
      ] as const
    ).map(([from, address]): Flow => ({ protocol: "icmp", from, to: { address: parseAddress(address), port: 0 } }));
  }

  /**
   * Does something to the node, and demands that all pods work again in under a second, that all of their state is as it was, and that
   * nothing of others' has changed.
   *
   * @param harm the time counts from its end
   */
  async demandRepair(what: string, harm: () => void | Promise<void>): Promise<void> {
    const { node } = this.wired;
    const before = podState(node);
    const others = othersState(node);
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
    while (!isEqual(podState(node), before) && performance.now() - since < 5 * REPAIR_MILLISECONDS) await pause(20);
    assert.deepEqual(podState(node), before, context);
    assert.deepEqual(othersState(node), others, context);
    assert.ok(elapsed < REPAIR_MILLISECONDS, `${elapsed} ms: ${context}`);
  }
}

function isEqual(one: unknown, other: unknown): boolean {
  return JSON.stringify(one) === JSON.stringify(other);
}
