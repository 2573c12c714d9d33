import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { type Address, formatAddress, parseAddress } from "../../../kernel/ip/address.ts";
import { parseCidr } from "../../../kernel/ip/cidr.ts";
import { add, del } from "../../lab/cni.ts";
import { createLab, type Lab, type LabPod } from "../../lab/lab.ts";
import type { LabNamespace } from "../../lab/namespace.ts";
import { parseSnmp, parseSnmp6, routeExceptions } from "../../lab/probe/counters.ts";
import { type Flow, Prober, type ProbeResult } from "../../lab/probe/prober.ts";
import { PROTOCOLS } from "../../lab/probe/protocol.ts";
import { setBridgeNetfilter, type TwoNodes, twoNodes, type WiredNode } from "../../lab/topology.ts";
import { requireBridgeNetfilter, requireKernel } from "../../support/privilege.ts";
import { podResult } from "../../support/cni/add_result.ts";

const PORT = 8080;

interface Attached {
  readonly pod: LabPod;
  readonly on: WiredNode;
  readonly addresses: readonly Address[];
}

describe("traffic between pods", function () {
  this.timeout(300_000);
  let lab: Lab;
  let nodes: TwoNodes;
  let pods: readonly Attached[];
  let prober: Prober;

  before(function () {
    requireKernel(this);
    lab = createLab("traffic");
    nodes = twoNodes(lab, { bridgeNetfilter: false });
    pods = [attach("a1", nodes.node1), attach("b1", nodes.node1), attach("c2", nodes.node2), attach("d2", nodes.node2)];
    prober = new Prober(lab.calls);
    for (const { pod, addresses } of pods) {
      for (const address of addresses) {
        for (const protocol of PROTOCOLS) prober.listen(protocol, { namespace: pod, address, port: PORT });
      }
    }
  });

  after(() => {
    prober?.close();
    lab?.destroy();
  });

  const attach = (name: string, on: WiredNode): Attached => {
    const pod = lab.pod(name);
    const { ips } = podResult(add(on, pod));
    return { pod, on, addresses: ips.map(({ address }) => parseCidr(address).address) };
  };

  const flowsBetween = (wanted: (from: Attached, to: Attached) => boolean): readonly Flow[] =>
    pods.flatMap((from) =>
      pods
        .filter((to) => wanted(from, to))
        .flatMap((to) =>
          to.addresses.flatMap((address) =>
            PROTOCOLS.map((protocol): Flow => ({ protocol, from: from.pod, to: { address, port: PORT } })),
          ),
        ),
    );

  /** Measures flows that must arrive. A first packet may be lost on a stalled machine; TCP repeats it after 1 s. */
  const measure = <F extends Flow>(flows: readonly F[]) => prober.run(flows, { timeoutMilliseconds: 8000 });

  const assertReached = (results: readonly ProbeResult[]): void => {
    const lost = results.filter(({ reached }) => !reached);
    assert.deepEqual(
      lost.map(({ flow, why }) => `${flow.protocol} ${flow.from.name} to ${formatAddress(flow.to.address)}: ${why}`),
      [],
    );
  };

  /** Returns the first address of the source pod that has the family of the destination. */
  const ownAddress = ({ flow }: ProbeResult): Address | undefined =>
    pods.find(({ pod }) => pod === flow.from)?.addresses.find((own) => typeof own === typeof flow.to.address);

  it("POD-01: every pod has its own addresses, distinct over both nodes", () => {
    const all = pods.flatMap(({ addresses }) => addresses);
    assert.equal(new Set(all).size, 8);
  });

  it("POD-03 POD-05 POD-10 POD-22: pods of one node reach each other by TCP, UDP, ICMP and SCTP in both families, with their own addresses", async () => {
    const results = await measure(flowsBetween((from, to) => from !== to && from.on === to.on));
    assert.equal(results.length, 4 * 2 * 4);
    assertReached(results);
    for (const result of results) assert.equal(result.seenSource, ownAddress(result));
  });

  it("POD-03 POD-05: across nodes the server sees the address the pod has as its own", async () => {
    const results = await measure(flowsBetween((from, to) => from.on !== to.on));
    assert.equal(results.length, 8 * 2 * 4);
    assertReached(results);
    for (const result of results) assert.equal(result.seenSource, ownAddress(result));
  });

  it("POD-02: a pod reaches itself on localhost and on its own addresses", async () => {
    const [first] = pods;
    assert.ok(first !== undefined);
    const loopback = ["127.0.0.1", "::1"].map((text) => parseAddress(text));
    for (const address of loopback) prober.listen("tcp", { namespace: first.pod, address, port: PORT });
    const to = [...loopback, ...first.addresses];
    assertReached(
      await measure(to.map((address) => ({ protocol: "tcp", from: first.pod, to: { address, port: PORT } }))),
    );
  });

  it("POD-06: all pods of a node listen on the same port; nothing listens on the node and no rule exists for it", () => {
    const { node } = nodes.node1;
    assert.equal(node.exec("ss", ["-Htuln"]).trim(), "");
    assert.equal(node.ruleset(), "");
  });

  it("POD-04: a node reaches its pods and the other node's, and pods reach the nodes", async () => {
    const toPods = [nodes.node1.node, nodes.node2.node].flatMap((from) =>
      pods.flatMap(({ addresses }) =>
        addresses.map((address): Flow => ({ protocol: "tcp", from, to: { address, port: PORT } })),
      ),
    );
    for (const wired of [nodes.node1, nodes.node2]) {
      for (const address of wired.addresses) prober.listen("tcp", { namespace: wired.node, address, port: PORT });
    }
    const toNodes = pods.flatMap(({ pod }) =>
      [...nodes.node1.addresses, ...nodes.node2.addresses].map((address): Flow => ({
        protocol: "tcp",
        from: pod,
        to: { address, port: PORT },
      })),
    );
    assertReached(await measure([...toPods, ...toNodes]));
  });

  it("1,000 same-node packets: no redirect is followed and no shortcut arises on the link", async () => {
    const [a, b] = pods;
    assert.ok(a !== undefined && b !== undefined);
    const forwardedBefore = forwardedBy(nodes.node1.node);
    // Established TCP connections follow a redirect; datagrams of unbound sockets would prove nothing.
    const flows = [a, b].flatMap((from) =>
      (from === a ? b : a).addresses.map((address): Flow => ({
        protocol: "tcp",
        from: from.pod,
        to: { address, port: PORT },
        exchanges: 250,
      })),
    );
    assertReached(await measure(flows));
    for (const { pod } of [a, b]) {
      assert.deepEqual(routeExceptions(pod), []);
      // An address that was resolved on the link itself would be a way around the node.
      const neighbours = pod.exec("ip", ["neigh", "show", "dev", "eth0"]);
      for (const { addresses } of pods) {
        for (const address of addresses)
          assert.doesNotMatch(neighbours, new RegExp(`^${formatAddress(address)} `, "m"));
      }
    }
    assert.equal(count(nodes.node1.node, "Icmp", "OutRedirects", "").v4, 0, "IPv4 redirects are not even sent");
    const forwarded = forwardedBy(nodes.node1.node) - forwardedBefore;
    assert.ok(forwarded >= 2000, `each packet and its answer pass the node's IP layer, not ${forwarded}`);
  });

  it("the first packet after ADD gets through, 20 times in a row", async () => {
    const [, peer] = pods;
    assert.ok(peer !== undefined);
    const late = lab.pod("late");
    for (let i = 0; i < 20; i++) {
      assert.equal(add(nodes.node1, late).exitCode, 0);
      const flows = peer.addresses.map((address): Flow => ({
        protocol: "udp",
        from: late,
        to: { address, port: PORT },
      }));
      assertReached(await prober.run(flows, { timeoutMilliseconds: 5000, repeats: false }));
      assert.equal(del(nodes.node1, late).exitCode, 0);
    }
  });

  it("POD-22: same-node traffic goes on while the br_netfilter switch flips", async function () {
    requireBridgeNetfilter(this);
    const flows = flowsBetween((from, to) => from !== to && from.on === to.on);
    for (const isOn of [true, false]) {
      setBridgeNetfilter(nodes.node1.node, isOn);
      assertReached(await prober.run(flows));
    }
  });

  /** Returns a counter of a namespace's IP layer for each family. */
  const count = (namespace: LabNamespace, section: string, v4: string, v6: string): { v4: number; v6: number } => {
    const read = (file: string): string =>
      namespace.inside(() => readFileSync(`/proc/thread-self/net/${file}`, "latin1"));
    return {
      v4: parseSnmp(read("snmp"), section).get(v4) ?? 0,
      v6: parseSnmp6(read("snmp6")).get(v6) ?? 0,
    };
  };

  const forwardedBy = (namespace: LabNamespace): number => {
    const { v4, v6 } = count(namespace, "Ip", "ForwDatagrams", "Ip6OutForwDatagrams");
    return v4 + v6;
  };
});
