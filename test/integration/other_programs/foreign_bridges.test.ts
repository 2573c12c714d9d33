import assert from "node:assert/strict";
import { type Address, parseAddress } from "../../../kernel/ip/address.ts";
import { formatCidr } from "../../../kernel/ip/cidr.ts";
import { add, del } from "../../lab/cni.ts";
import { createLab, type Lab, type LabPod } from "../../lab/lab.ts";
import type { LabNamespace } from "../../lab/namespace.ts";
import { Prober } from "../../lab/probe/prober.ts";
import { setBridgeNetfilter, type TwoNodes, twoNodes, type WiredNode } from "../../lab/topology.ts";
import { type FormerPlugin, formerPlugins } from "../../support/cni/former_plugin.ts";
import { askHttp } from "../../support/http.ts";
import { requirePeer } from "../../support/cni/peer.ts";
import { PolicydNode } from "../../support/daemon/policyd_node.ts";
import { requireKernel } from "../../support/privilege.ts";
import { podObject } from "../../support/policy/lab/place.ts";
import { listOf, serviceObjects } from "../../support/services/manifest.ts";
import { until } from "../../support/until.ts";

const OURS = "drawbridge0";
const NODE = JSON.stringify({
  apiVersion: "v1",
  kind: "Node",
  metadata: { name: "node1" },
  spec: { podCIDRs: ["10.244.1.0/24", "fd00:244:1::/64"] },
});

/** How long a probe waits: the kernel delays its answers as a proxy by up to 0.8 s (proxy_delay). */
const PATIENCE = 3000;

describe("a node with pods of another network plugin", function () {
  this.timeout(180_000);
  let peers = "";
  let lab: Lab;
  let nodes: TwoNodes;
  let wired: WiredNode;
  let policyd: PolicydNode;

  before(function () {
    requireKernel(this);
    peers = requirePeer(this);
  });
  beforeEach(() => {
    lab = createLab("foreign");
    nodes = twoNodes(lab, { reversePathFilter: 1 });
    wired = nodes.node1;
    policyd = new PolicydNode(lab, wired);
    policyd.put("node.json", NODE);
  });
  afterEach(() => lab?.destroy());

  /** Attaches a pod with the plugin that was on the node before ours. */
  function old(plugin: FormerPlugin, name: string, number: number): LabPod {
    const pod = lab.pod(name);
    plugin.attach(wired, pod, number);
    return pod;
  }

  /** Attaches a pod of ours to a bridge. */
  function attach(name: string, bridge = OURS): LabPod {
    const pod = lab.pod(name);
    assert.equal(add(wired, pod, { ...policyd.overrides, bridge }).error, undefined);
    return pod;
  }

  /** Returns the ways on which no packet gets through, in both families, as `old to ours, IPv4`. */
  async function broken(
    ways: readonly (readonly [from: LabNamespace, to: LabNamespace | readonly Address[]])[],
    timeoutMilliseconds = PATIENCE,
  ): Promise<readonly string[]> {
    using prober = new Prober(lab);
    const flows = ways.flatMap(([from, to]) =>
      (isList(to) ? to : addressesIn(to)).map((address) => ({
        protocol: "icmp" as const,
        from,
        to: { address, port: 0 },
        name: `${from.name} to ${isList(to) ? "node" : to.name}, ${typeof address === "number" ? "IPv4" : "IPv6"}`,
      })),
    );
    const results = await prober.run(flows, { timeoutMilliseconds });
    return results.filter(({ reached }) => !reached).map(({ flow }) => flow.name);
  }

  /** Returns the broken ways between pods of both plugins, their node, another node and the outside. */
  async function brokenWays(before: LabPod, ours: LabPod): Promise<readonly string[]> {
    const { node2, router } = nodes;
    return await broken([
      [before, wired.gateways],
      [before, wired.addresses],
      [before, nodes.node1.routerAddresses],
      [before, node2.addresses],
      [before, ours],
      [ours, before],
      [ours, wired.addresses],
      [ours, nodes.node1.routerAddresses],
      [wired.node, before],
      [wired.node, ours],
      [node2.node, before],
      [node2.node, ours],
      [router, before],
      [router, ours],
    ]);
  }

  for (const [index, name] of (["flannel", "kubenet", "kindnet"] as const).entries()) {
    it(`FOREIGN-03 FOREIGN-04: pods of ${name} keep their network beside pods of ours on one pod CIDR, which do not get their addresses`, async () => {
      const plugin = formerPlugins(peers)[index] ?? assert.fail();
      // Our IP hooks then also see the frames of the other bridge.
      setBridgeNetfilter(wired.node, true);
      const [before, after] = [old(plugin, "old", 2), old(plugin, "old2", 3)];
      const taken = new Set([before, after, old(plugin, "old3", 4)].flatMap(addressesIn));
      assert.equal(taken.size, 6);
      if (plugin.bridge !== undefined) {
        // Without the daemon only one bridge may have the network.
        const { error } = add(wired, lab.pod("lost"), { bridge: OURS });
        assert.match(error?.msg ?? "", /link c(ni|br)0 has a route to it/);
      }
      await policyd.start([`--bridge=${OURS}`]);
      const ours = attach("ours");
      assert.deepEqual(await brokenWays(before, ours), []);
      const second = attach("second");
      const given = [ours, second].flatMap(addressesIn);
      assert.deepEqual(
        given.filter((address) => taken.has(address)),
        [],
      );
      const { error: refusal } = add(wired, lab.pod("asked"), { bridge: OURS }, { arguments: "IP=10.244.1.3" });
      assert.match(refusal?.msg ?? "", /10\.244\.1\.3 is not available/);
      assert.deepEqual(
        await broken([
          [ours, second],
          [second, ours],
          [before, after],
          [after, second],
        ]),
        [],
      );
      await policyd.kill();
      await policyd.start([`--bridge=${OURS}`]);
      assert.deepEqual(await brokenWays(before, ours), [], "after a restart");
      const addresses = addressesIn(second);
      assert.equal(del(wired, second, { ...policyd.overrides, bridge: OURS }).error, undefined);
      assert.deepEqual(
        entriesOf(wired.node).filter((line) => addresses.some((one) => line.includes(textOf(one)))),
        [],
      );
      if (plugin.bridge === undefined) return;
      assert.equal(
        entriesOf(wired.node).length,
        8,
        "a route and a proxy for each address of the pod that is left, and four halves",
      );
      if (name === "kubenet") {
        await policyd.kill();
        wired.node.exec("ip", ["address", "add", "198.51.100.1/24", "dev", plugin.bridge]);
        for (const cidr of wired.podCidrs.map(formatCidr)) {
          wired.node.exec("ip", ["address", "flush", "dev", plugin.bridge, "to", cidr]);
        }
        assert.equal(entriesOf(wired.node).length, 8);
        await policyd.start([`--bridge=${OURS}`]);
      } else {
        wired.node.exec("ip", ["link", "delete", plugin.bridge]);
      }
      await until(
        () => entriesOf(wired.node).length === 0,
        "no route and no proxy is left once the other bridge has gone, or its addresses while no daemon ran",
      );
      assert.deepEqual(
        await broken([
          [wired.node, ours],
          [nodes.node2.node, ours],
        ]),
        [],
      );
    });
  }

  it("FOREIGN-03: a node reaches a former plugin's pod by a Service once the Pod object has the address, and not before", async () => {
    const plugin = formerPlugins(peers)[0] ?? assert.fail();
    const before = old(plugin, "old", 2);
    const [backend] = addressesIn(before);
    assert.ok(typeof backend === "number");
    const ports = [{ protocol: "TCP", port: 80, targetPort: 80 }] as const;
    const endpoint = { addresses: { 4: backend }, nodeName: "node1" };
    policyd.put("service.json", listOf(serviceObjects("default/web", ["10.96.0.7"], ports, [endpoint])));
    await policyd.start([`--bridge=${OURS}`]);
    const isReached = async (): Promise<boolean> => {
      using prober = new Prober(lab);
      prober.listen("tcp", { namespace: before, address: backend, port: 80 });
      const to = { address: parseAddress("10.96.0.7"), port: 80 };
      const [result] = await prober.run([{ protocol: "tcp" as const, from: wired.node, to }], {
        timeoutMilliseconds: 500,
      });
      return result?.reached === true;
    };
    assert.equal(await isReached(), false, "without its Pod");
    policyd.put("pod.json", JSON.stringify(podObject("default/old", "node1", [textOf(backend)])));
    await until(isReached, "with its Pod");
  });

  it("FOREIGN-02: the daemon takes over a bridge with pods of another plugin only when they are gone, and leaves their network until then", async () => {
    const plugin = formerPlugins(peers)[0] ?? assert.fail();
    const before = old(plugin, "old", 2);
    const ways = [
      [before, wired.addresses],
      [wired.node, before],
      [nodes.router, before],
    ] as const;
    const daemon = await policyd.start();
    await daemon.statusWhen(
      ({ problems }) =>
        problems.some((problem) =>
          /^former-plugin: "cni0" has 1 port that is not of Drawbridge .*drawbridge0/.test(problem),
        ),
      "the status says why, and the way out",
    );
    const { status, body } = askHttp(wired.node, "127.0.0.1", 10_256, "/readyz");
    assert.equal(status, 503);
    assert.match(body, /^\[-\]bridge: /m);
    assert.equal(wired.node.ruleset(), "");
    assert.deepEqual(await broken(ways), []);
    // The plugin that owns the bridge may have set this.
    wired.node.writeSysctl("net/ipv6/conf/cni0/accept_ra", "2");
    const refused = add(wired, lab.pod("refused"), policyd.overridesWith({ wait: "2s" }));
    assert.match(refused.error?.msg ?? "", /not of Drawbridge/);
    assert.equal(wired.node.readSysctl("net/ipv6/conf/cni0/accept_ra"), "2");
    assert.deepEqual(await broken(ways), []);
    assert.equal(wired.node.ruleset(), "");

    wired.node.exec("ip", ["link", "delete", portOf(wired.node)]);
    // The daemon may have seen the refused ADD by now, which is a problem until one succeeds (STATUS-05).
    await daemon.statusWhen(
      ({ problems }) => !problems.some((problem) => problem.startsWith("former-plugin: ")),
      "taken over",
    );
    const ours = attach("ours", "cni0");
    await daemon.statusWhen(({ problemCount }) => problemCount === 0, "no problem is left");
    assert.deepEqual(
      await broken([
        [wired.node, ours],
        [ours, wired.addresses],
      ]),
      [],
    );
  });

  it("FOREIGN-02: on a bridge under our rules, which cut off a foreign port, the daemon only reports the port, also after a restart", async () => {
    await policyd.start();
    const plugin = formerPlugins(peers)[0] ?? assert.fail();
    const late = old(plugin, "late", 2);
    assert.notDeepEqual(await broken([[wired.node, late]], 400), [], "our rules cut off a port that they do not know");
    await policyd.kill();
    for (const withPods of [false, true]) {
      if (withPods) attach("ours", "cni0");
      await policyd.kill();
      const daemon = await policyd.start();
      await daemon.statusWhen(({ problems }) => /take them off the bridge/.test(problems.join()), "reported");
      if (!withPods) continue;
      const [next] = [attach("next", "cni0")];
      assert.deepEqual(await broken([[wired.node, next]]), []);
      assert.equal(askHttp(wired.node, "127.0.0.1", 10_256, "/readyz").status, 200);
    }
  });
});

function isList(to: LabNamespace | readonly Address[]): to is readonly Address[] {
  return Array.isArray(to);
}

/** Returns the global addresses of a pod's interface. */
function addressesIn(pod: LabNamespace): readonly Address[] {
  const text = pod.exec("ip", ["-o", "address", "show", "dev", "eth0", "scope", "global"]);
  return [...text.matchAll(/inet6? (\S+)\//g)].map(([, address = ""]) => parseAddress(address));
}

function textOf(address: Address): string {
  return typeof address === "number"
    ? [24, 16, 8, 0].map((bits) => (address >>> bits) & 255).join(".")
    : `::${(address & 0xffffn).toString(16)}`;
}

/** Returns our routes to single pods, and our proxy entries. */
function entriesOf(node: LabNamespace): readonly string[] {
  return [
    ["-4", "route", "show"],
    ["-6", "route", "show"],
    ["-4", "neighbour", "show", "proxy"],
    ["-6", "neighbour", "show", "proxy"],
  ]
    .flatMap((args) => node.exec("ip", args).split("\n"))
    .filter((line) => line.includes("metric 106") || / proxy/.test(line));
}

function portOf(node: LabNamespace): string {
  const bridge = node.link("cni0").index;
  return node.links().find(({ master }) => master === bridge)?.name ?? assert.fail("no port");
}
