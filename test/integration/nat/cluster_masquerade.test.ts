import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { type Address, familyOf } from "../../../kernel/ip/address.ts";
import { parseCidr } from "../../../kernel/ip/cidr.ts";
import { add, type Configuration } from "../../lab/cni.ts";
import type { Lab, LabPod } from "../../lab/lab.ts";
import type { LabNamespace } from "../../lab/namespace.ts";
import { type Flow, Prober } from "../../lab/probe/prober.ts";
import { type TwoNodes, twoNodes, type WiredNode } from "../../lab/topology.ts";
import { leavesUnchanged } from "../../lab/unchanged.ts";
import type { DaemonProcess } from "../../support/daemon/policyd.ts";
import { PolicydNode } from "../../support/daemon/policyd_node.ts";
import { suiteLab } from "../../support/suite_lab.ts";
import { nodeOf } from "../../support/routes/route_lab.ts";
import { listOf, serviceObjects } from "../../support/services/manifest.ts";
import { podResult } from "../../support/cni/add_result.ts";

const PORT = 8080;
const TRANSPORTS = ["tcp", "udp"] as const;

interface Party {
  readonly namespace: LabNamespace;
  readonly addresses: readonly Address[];
}

describe("pods that send to addresses in and outside the cluster", function () {
  this.timeout(300_000);
  let lab: Lab;
  let nodes: TwoNodes;
  let policyd: PolicydNode;
  let daemon: DaemonProcess;
  let prober: Prober;
  let pod: Party & { readonly namespace: LabPod };
  let neighbour: Party;
  let remote: Party;
  let outside: Party;

  before(async function () {
    lab = suiteLab(this, "masquerade");
    nodes = twoNodes(lab);
    policyd = new PolicydNode(lab, nodes.node1);
    for (const wired of [nodes.node1, nodes.node2])
      policyd.put(`${wired.node.name}.json`, JSON.stringify(nodeOf(wired)));
    prober = new Prober(lab);
    outside = { namespace: nodes.router, addresses: nodes.node1.routerAddresses };
    daemon = await startWith("");
    pod = attach("a1", nodes.node1, policyd.overrides);
    neighbour = attach("b1", nodes.node1, policyd.overrides);
    remote = attach("c2", nodes.node2);
    for (const party of [neighbour, remote, outside, own(), other()]) {
      for (const address of party.addresses) {
        for (const protocol of TRANSPORTS) prober.listen(protocol, { namespace: party.namespace, address, port: PORT });
      }
    }
  });
  leavesUnchanged(() => lab);

  /** Starts the daemon with a setting, without encapsulation: the router has routes to the pods of both nodes. */
  async function startWith(setting: string): Promise<DaemonProcess> {
    const file = `${lab.scratch}/policyd.yaml`;
    const head = "apiVersion: drawbridge.dev/v1alpha1\nkind: PolicydConfiguration\nencapsulation: never\n";
    writeFileSync(file, `${head}${setting}\n`);
    return await policyd.start([`--config=${file}`]);
  }

  const own = (): Party => ({ namespace: nodes.node1.node, addresses: nodes.node1.addresses });
  const other = (): Party => ({ namespace: nodes.node2.node, addresses: nodes.node2.addresses });

  function attach(name: string, on: WiredNode, overrides?: Configuration): Party & { readonly namespace: LabPod } {
    const namespace = lab.pod(name);
    const { ips } = podResult(add(on, namespace, overrides));
    return { namespace, addresses: ips.map(({ address }) => parseCidr(address).address) };
  }

  /** Returns what a party sees as the pod's source in each family: the pod itself, its node, or another address. */
  async function seenAs(to: Party): Promise<readonly string[]> {
    const flows = to.addresses.flatMap((address) =>
      TRANSPORTS.map((protocol): Flow => ({ protocol, from: pod.namespace, to: { address, port: PORT } })),
    );
    const results = await prober.run(flows, { timeoutMilliseconds: 20_000 });
    const seen = results.map(({ flow, seenSource, reached, why }) => {
      if (!reached || seenSource === undefined) return why;
      const who = pod.addresses.includes(seenSource)
        ? "pod"
        : nodes.node1.addresses.includes(seenSource)
          ? "node"
          : "?";
      return `IPv${familyOf(flow.to.address)} ${who}`;
    });
    return [...new Set(seen)];
  }

  /** Waits until the rules have a text, or no longer have it. */
  async function rulesHave(text: string, isThere = true): Promise<void> {
    const holds = (): boolean =>
      nodes.node1.node.exec("nft", ["list", "table", "inet", "drawbridge"]).includes(text) === isThere;
    await daemon.statusWhen(holds, `${text} ${isThere ? "in" : "out of"} the rules`);
  }

  it("POD-19: a pod is seen with its node's address outside the cluster, and with its own in the cluster", async () => {
    assert.deepEqual(await seenAs(outside), ["IPv4 node", "IPv6 node"]);
    for (const [name, party] of Object.entries({ neighbour, remote, own: own(), other: other() })) {
      assert.deepEqual(await seenAs(party), ["IPv4 pod", "IPv6 pod"], name);
    }
    for (const family of [4, 6]) {
      const chain = `masquerade_cluster${family}`;
      const rules = nodes.node1.node.exec("nft", ["list", "chain", "inet", "drawbridge", chain]);
      assert.equal(rules.match(/masquerade (to :32768-65535 )?fully-random/g)?.length, 2);
    }
  });

  it("POD-19: the masquerade of pods follows the Nodes, and omits a family whose pod networks are unknown", async () => {
    policyd.put("node2.json", "");
    await rulesHave("10.244.2", false);
    assert.deepEqual(await seenAs(remote), ["IPv4 node", "IPv6 node"]);
    assert.deepEqual(await seenAs(other()), ["IPv4 node", "IPv6 node"]);
    policyd.put("node2.json", JSON.stringify(nodeOf(nodes.node2)));
    await rulesHave("10.244.1.0-10.244.2.255");
    assert.deepEqual(await seenAs(remote), ["IPv4 pod", "IPv6 pod"]);
    for (const wired of [nodes.node1, nodes.node2])
      policyd.put(`${wired.node.name}.json`, JSON.stringify(nodeOf(wired, [4])));
    await rulesHave("fd00:244:1::/64", false);
    assert.deepEqual(await seenAs(outside), ["IPv4 node", "IPv6 pod"]);
    assert.deepEqual(await seenAs(remote), ["IPv4 pod", "IPv6 pod"]);
    for (const wired of [nodes.node1, nodes.node2])
      policyd.put(`${wired.node.name}.json`, JSON.stringify(nodeOf(wired)));
    await rulesHave("fd00:244:1::/64");
  });

  it("POD-19: a pod keeps its own address towards nonMasqueradeCIDRs, and everywhere with masquerade: false", async () => {
    const settings = [
      ['nonMasqueradeCIDRs: ["192.0.2.0/24"]', ["IPv4 pod", "IPv6 node"]],
      ['nonMasqueradeCIDRs: ["::/0"]', ["IPv4 node", "IPv6 pod"]],
      ["masquerade: false", ["IPv4 pod", "IPv6 pod"]],
    ] as const;
    for (const [setting, expected] of settings) {
      await policyd.kill();
      daemon = await startWith(setting);
      await rulesHave("kept_networks4", setting !== "masquerade: false");
      // The rules of the previous daemon are there until then.
      await rulesHave("192.0.2.0/24", setting.includes("192"));
      assert.deepEqual(await seenAs(outside), expected, setting);
    }
    await policyd.kill();
    daemon = await startWith("");
    await rulesHave("kept_networks4");
  });

  it("POD-19 SVC-13: a Service's endpoint in the cluster sees the pod's address, and an endpoint outside sees the node's", async () => {
    const [podAddress, outsideAddress] = [remote.addresses[0], outside.addresses[1]];
    assert.ok(podAddress !== undefined && outsideAddress !== undefined);
    const ports = [{ name: "", protocol: "TCP", port: PORT, targetPort: PORT }] as const;
    const items = [
      ...serviceObjects("default/inside", ["10.96.0.1"], ports, [{ addresses: { 4: podAddress } }]),
      ...serviceObjects("default/outside", ["fd00:96::1"], ports, [{ addresses: { 6: outsideAddress } }]),
    ];
    policyd.put("services.json", listOf(items));
    await rulesHave('comment "default/outside"');
    const services = ["10.96.0.1/32", "fd00:96::1/128"].map((text) => parseCidr(text).address);
    const flows = services.map((address): Flow => ({
      protocol: "tcp",
      from: pod.namespace,
      to: { address, port: PORT },
    }));
    const seen = await prober.run(flows, { timeoutMilliseconds: 20_000 });
    assert.deepEqual(
      seen.map(({ seenSource }) => seenSource),
      [pod.addresses[0], nodes.node1.addresses[1]],
      seen.map(({ why }) => why).join(),
    );
    policyd.put("services.json", "");
  });
});
