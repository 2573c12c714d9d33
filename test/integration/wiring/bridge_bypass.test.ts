import { closeSync, openSync } from "node:fs";
import assert from "node:assert/strict";
import { setTimeout as pause } from "node:timers/promises";
import { hasOwnProgram, removeOwnProgram } from "../../../kernel/bpf/own_program.ts";
import { PORT_PROGRAM } from "../../../kernel/bpf/port_table.ts";
import { type Address, formatAddress } from "../../../kernel/ip/address.ts";
import { parseCidr } from "../../../kernel/ip/cidr.ts";
import { add, type CallOptions, type Configuration, del, podCall, startPlugin } from "../../lab/cni.ts";
import type { Lab, LabPod } from "../../lab/lab.ts";
import type { LabNamespace } from "../../lab/namespace.ts";
import { type Flow, Prober } from "../../lab/probe/prober.ts";
import { PROTOCOLS } from "../../lab/probe/protocol.ts";
import { type TwoNodes, twoNodes, type WiredNode } from "../../lab/topology.ts";
import { suiteLab } from "../../support/suite_lab.ts";
import { podResult } from "../../support/cni/add_result.ts";

const PORT = 8080;
/** A time in which an ADD would have ended: it takes a twentieth of it. */
const SEVERAL_ADDS_MILLISECONDS = 400;

/**
 * Counts unicast IP frames that the bridge receives from pods' ports and sends by them. The rules tell unicast from
 * multicast by the address, because frames to groups that the node itself sends (MLD, seconds after it has joined) are
 * not marked as multicast.
 */
const COUNTERS = `table bridge seen {
  chain from_pods {
    type filter hook prerouting priority -400
    iifname "dbv*" ether type { ip, ip6 } ether daddr & 01:00:00:00:00:00 == 00:00:00:00:00:00 counter
  }
  chain to_pods {
    type filter hook postrouting priority 0
    oifname "dbv*" ether type { ip, ip6 } ether daddr & 01:00:00:00:00:00 == 00:00:00:00:00:00 counter
  }
}`;

interface Attached {
  readonly pod: LabPod;
  readonly mac: string;
  readonly addresses: readonly Address[];
}

/** flock(2) */
const LOCK_EX = 2;

describe("packets around the bridge, br_netfilter off", function () {
  this.timeout(300_000);
  let lab: Lab;
  let nodes: TwoNodes;
  let prober: Prober;
  let first: Attached;
  let second: Attached;
  let bridged: Attached;
  let remote: Attached;

  before(function () {
    lab = suiteLab(this, "bypass");
    // rp_filter is strict: for the kernel, the bridge also receives and sends packets that go around it.
    nodes = twoNodes(lab, { bridgeNetfilter: false, reversePathFilter: 1 });
    prober = new Prober(lab);
    first = attach("first", nodes.node1);
    second = attach("second", nodes.node1);
    bridged = attach("bridged", nodes.node1, { bypassBridge: false });
    remote = attach("remote", nodes.node2);
  });

  beforeEach(() => {
    nodes.node1.node.exec("nft", ["-f", "-"], `table bridge seen\ndelete table bridge seen\n${COUNTERS}`);
  });

  function attach(name: string, on: WiredNode, overrides?: Configuration, options?: CallOptions): Attached {
    const pod = lab.pod(name);
    const { ips, interfaces } = podResult(add(on, pod, overrides, options));
    const addresses = ips.map(({ address }) => parseCidr(address).address);
    for (const address of addresses) {
      for (const protocol of PROTOCOLS) prober.listen(protocol, { namespace: pod, address, port: PORT });
    }
    return { pod, addresses, mac: interfaces[2]?.mac ?? "" };
  }

  /** Asserts that all protocols reach a pod, in both families. */
  async function reach(from: LabNamespace, { addresses }: Attached): Promise<void> {
    const flows = addresses.flatMap((address) =>
      PROTOCOLS.map((protocol): Flow => ({ protocol, from, to: { address, port: PORT } })),
    );
    const lost = (await prober.run(flows, { timeoutMilliseconds: 8000 })).filter(({ reached }) => !reached);
    assert.deepEqual(
      lost.map(({ flow, why }) => `${flow.protocol} to ${formatAddress(flow.to.address)}: ${why}`),
      [],
    );
  }

  function seen(): { readonly fromPods: number; readonly toPods: number } {
    const text = nodes.node1.node.exec("nft", ["list", "table", "bridge", "seen"]);
    const [fromPods = NaN, toPods = NaN] = [...text.matchAll(/packets (\d+)/g)].map(([, count]) => Number(count));
    return { fromPods, toPods };
  }

  it("BYPASS-01: the bridge sees no packet between pods of one node, or between a pod and its node", async () => {
    await reach(first.pod, second);
    await reach(second.pod, first);
    await reach(nodes.node1.node, first);
    assert.deepEqual(seen(), { fromPods: 0, toPods: 0 });
  });

  it("BYPASS-01: the bridge forwards packets that come from other nodes to their port, and sees no answer", async () => {
    await reach(first.pod, remote);
    await reach(remote.pod, first);
    const { fromPods, toPods } = seen();
    assert.equal(fromPods, 0);
    assert.ok(toPods > 0);
  });

  it("BYPASS-01: with bypassBridge false the bridge sees the pod's packets in both directions, and others reach the pod", async () => {
    await reach(bridged.pod, first);
    const from = seen();
    assert.ok(from.fromPods > 0 && from.toPods > 0, JSON.stringify(from));
    await reach(first.pod, bridged);
    assert.ok(seen().toPods > from.toPods);
  });

  for (const feature of ["bpf", "newPrograms"] as const) {
    it(`BYPASS-01: a pod is reached through the bridge where the kernel takes no programs (${feature})`, async () => {
      const { node } = nodes.node2;
      const bridge = node.link("cni0").index;
      removeOwnProgram(node.programs, PORT_PROGRAM, bridge);
      const other = attach(`without-${feature.toLowerCase()}`, nodes.node2, {}, { without: [feature] });
      assert.ok(!hasOwnProgram(node.programs, PORT_PROGRAM, bridge));
      await reach(remote.pod, other);
      await reach(other.pod, remote);
      await reach(first.pod, other);
    });
  }

  it("BYPASS-03: a pod that asks for the MAC address of another pod or of the bridge takes no packet from it", async () => {
    const { node1 } = nodes;
    const entries = (): readonly string[] =>
      node1.node
        .exec("bridge", ["fdb", "show", "br", "cni0"])
        .split("\n")
        .filter((line) => line.startsWith(first.mac) || line.includes("dev cni0"));
    const before = entries();
    const bridgeMac = node1.node.link("cni0").mac ?? "";
    for (const [name, mac] of Object.entries({ thief: first.mac, bridge: bridgeMac })) {
      const other = attach(`${name}-mac`, node1, { args: { cni: { mac } } });
      assert.equal(other.mac, mac);
      assert.deepEqual(entries(), before, name);
      for (const from of [second.pod, node1.node, remote.pod]) await reach(from, first);
      assert.equal(del(node1, other.pod).exitCode, 0);
      assert.deepEqual(entries(), before, name);
      for (const from of [second.pod, node1.node, remote.pod]) await reach(from, first);
    }
  });

  for (const [number, bypassBridge] of [
    [100, true],
    [150, false],
  ] as const) {
    it(`BYPASS-03: a pod gets the MAC address of its own address though another pod asked for it before, bypassBridge ${bypassBridge}`, async () => {
      const { node1 } = nodes;
      const mac = `0a:58:0a:f4:01:${number.toString(16)}`;
      const squatter = attach(`squatter-${number}`, node1, { args: { cni: { mac } } });
      await reach(first.pod, squatter);
      const args = { cni: { ips: [`10.244.1.${number}`, `fd00:244:1::${number.toString(16)}`] } };
      const owner = attach(`owner-${number}`, node1, { args, bypassBridge });
      assert.equal(owner.mac, mac);
      for (const from of [first.pod, node1.node, remote.pod]) await reach(from, owner);
    });
  }

  it("BYPASS-03: one plugin at a time writes a table of ports", async () => {
    const { node1 } = nodes;
    const directory = openSync(node1.node.runDir, "r");
    assert.equal(node1.node.calls.flock(directory, LOCK_EX), 0);
    const pod = lab.pod("waiting");
    let hasEnded = false;
    const { outcome } = startPlugin(node1.node, podCall("ADD", node1, pod));
    const ended = outcome.finally(() => (hasEnded = true));
    await pause(SEVERAL_ADDS_MILLISECONDS);
    assert.equal(hasEnded, false);
    closeSync(directory);
    assert.equal((await ended).exitCode, 0);
  });

  it("BYPASS-03: a pod that gets the addresses of a deleted pod is reached, around the bridge and through it", async () => {
    const { node1 } = nodes;
    const former = attach("former", node1);
    await reach(first.pod, former);
    const args = { cni: { ips: former.addresses.map(formatAddress) } };
    assert.equal(del(node1, former.pod).exitCode, 0);
    const heir = attach("heir", node1, { args, bypassBridge: false });
    assert.deepEqual(heir.addresses, former.addresses);
    await reach(first.pod, heir);
    assert.equal(del(node1, heir.pod).exitCode, 0);
    const next = attach("next", node1, { args });
    await reach(first.pod, next);
    await reach(next.pod, first);
  });
});
