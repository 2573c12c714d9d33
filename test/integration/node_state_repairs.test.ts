import assert from "node:assert/strict";
import { setTimeout as pause } from "node:timers/promises";
import { parseAddress } from "../../kernel/ip/address.ts";
import { add } from "../lab/cni.ts";
import type { Lab, LabPod } from "../lab/lab.ts";
import { createLab } from "../lab/lab.ts";
import type { Flow } from "../lab/probe/prober.ts";
import { Prober } from "../lab/probe/prober.ts";
import type { WiredNode } from "../lab/topology.ts";
import { twoNodes } from "../lab/topology.ts";
import type { DaemonProcess } from "../support/policyd.ts";
import { PolicydNode } from "../support/policyd_node.ts";
import { requireKernel } from "../support/privilege.ts";
import { BRIDGE, HARMS, OTHER_BRIDGE } from "../support/node_state/harms.ts";
import { othersState, podState } from "../support/node_state/snapshot.ts";

/** After a harm all pods work again within this. */
const REPAIR_MILLISECONDS = 1000;

describe("the node's network state, harmed by others", function () {
  this.timeout(240_000);
  let lab: Lab;
  let wired: WiredNode;
  let policyd: PolicydNode;
  let daemon: DaemonProcess;
  let pods: readonly LabPod[];
  let prober: Prober;

  before(async function () {
    requireKernel(this);
    lab = createLab("node-state");
    ({ node1: wired } = twoNodes(lab));
    const { node } = wired;
    // Others of the node: a bridge of containers, and a link of a VPN with a route.
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
      node.exec("ip", args);
    }
    policyd = new PolicydNode(lab, wired);
    daemon = await policyd.start();
    pods = ["a", "b", "c"].map((name) => {
      const pod = lab.pod(name);
      assert.equal(add(wired, pod, policyd.overrides).error, undefined);
      return pod;
    });
    prober = new Prober(lab.calls);
  });
  after(async () => {
    prober?.close();
    await policyd?.kill();
    lab?.destroy();
  });

  function flows(): readonly Flow[] {
    const [a, b, c] = pods;
    assert.ok(a !== undefined && b !== undefined && c !== undefined);
    const to = (from: Flow["from"], address: string): Flow => ({
      protocol: "icmp",
      from,
      to: { address: parseAddress(address), port: 0 },
    });
    return [
      to(a, "10.244.1.3"),
      to(a, "fd00:244:1::3"),
      to(b, "10.244.1.4"),
      to(c, "fd00:244:1::2"),
      to(a, "192.0.2.9"),
      to(b, "2001:db8:0:1::1"),
      to(wired.node, "10.244.1.4"),
      to(wired.node, "fd00:244:1::4"),
    ];
  }

  async function lost(): Promise<readonly string[]> {
    const results = await prober.run(flows(), { timeoutMilliseconds: 150 });
    return results.flatMap(({ reached, flow, why }) =>
      reached ? [] : [`${flow.from.name} ${flow.to.address}: ${why}`],
    );
  }

  /** Milliseconds until all is as it was, and every pod works. */
  async function untilRepaired(what: string, before: unknown, since: number): Promise<number> {
    for (;;) {
      const missing = await lost();
      const elapsed = performance.now() - since;
      const isSame = missing.length === 0 && isEqual(podState(wired.node), before);
      if (isSame) return elapsed;
      if (elapsed > 3 * REPAIR_MILLISECONDS) {
        assert.deepEqual(podState(wired.node), before, `${what}; log: ${daemon.log().slice(-3000)}`);
        assert.deepEqual(missing, [], `${what}; log: ${daemon.log().slice(-3000)}`);
      }
      await pause(10);
    }
  }

  function portOf(index: number): string {
    const names = wired.node.links().flatMap(({ name }) => (name.startsWith("dbv") ? [name] : []));
    return names[index % names.length] ?? "";
  }

  it("the lab's pods reach each other, the node and what is outside", async () => {
    assert.deepEqual(await lost(), []);
    assert.deepEqual(daemon.status().problems, []);
  });

  for (const { name, commit } of HARMS) {
    it(`STATE-01: when ${name}, all pods work again within a second and others' links stay as they are`, async () => {
      const before = podState(wired.node);
      const others = othersState(wired.node);
      commit(wired.node, portOf(1));
      const elapsed = await untilRepaired(name, before, performance.now());
      assert.ok(elapsed < REPAIR_MILLISECONDS, `${name}: ${elapsed} ms`);
      assert.deepEqual(othersState(wired.node), others);
      // One harm after another may look like a program that insists.
      assert.deepEqual(
        daemon.status().problems.filter((problem) => !problem.includes("keeps changing")),
        [],
      );
    });
  }

  it(`the bridge is ${BRIDGE}`, () => {
    assert.ok(wired.node.links().some(({ name }) => name === BRIDGE));
  });
});

function isEqual(one: unknown, other: unknown): boolean {
  return JSON.stringify(one) === JSON.stringify(other);
}
