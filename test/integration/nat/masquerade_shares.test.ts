import assert from "node:assert/strict";
import type { FlowTuples } from "../../../kernel/conntrack/flow_tuples.ts";
import { EVERY_FLOW } from "../../../kernel/conntrack/flow_count.ts";
import { deleteFlows } from "../../../kernel/conntrack/flow_deletion.ts";
import { ConntrackSockets } from "../../../kernel/conntrack/sockets.ts";
import { type Address, familyOf, formatAddress } from "../../../kernel/ip/address.ts";
import { type MacAddress, parseMac } from "../../../kernel/ip/mac.ts";
import { add } from "../../lab/cni.ts";
import { createLab, type Lab, type LabPod } from "../../lab/lab.ts";
import type { LabNamespace } from "../../lab/namespace.ts";
import { Prober } from "../../lab/probe/prober.ts";
import { twoNodes, type WiredNode } from "../../lab/topology.ts";
import { forgetConnections } from "../../support/daemon/connections.ts";
import { Flood, type FloodTurn, HANDSHAKE } from "../../support/daemon/flood.ts";
import { addressesOf } from "../../support/host_ports/localhost_node.ts";
import { PolicydNode } from "../../support/daemon/policyd_node.ts";
import { roundsFor } from "../../support/long_form.ts";
import { nodeOf } from "../../support/routes/route_lab.ts";
import { requireKernel } from "../../support/privilege.ts";
import { serviceManifest, TARGET_PORT } from "../../support/services/manifest.ts";
import { configured } from "../../support/daemon/policyd.ts";

/** The port at which the resolver outside answers. */
const PORT = 5353;
const NODE_PORT = 30_080;
/** A number of flows that is more than twice the share of a pod: 4,096 ports. */
const MORE_THAN_A_SHARE = 10_000;
/** The only ports with which pods leave where there are no shares; to use up more of them would take long. */
const ALL_PORTS = { first: 61_000, last: 65_000 };
const MORE_THAN_ALL = 4500;
const ROUNDS = 2;
/** Of one pod within the cluster, in each family and protocol; many times the share of a pod outside. */
const WITHIN = roundsFor("connections within the cluster", 10_000, 50_000);
const FAMILIES = [0, 1] as const;

/** A node whose pods leave with its address, a resolver outside, and a Service with a node port and that endpoint. */
class LeavingNode {
  readonly lab: Lab;
  readonly wired: WiredNode;
  readonly router: LabNamespace;
  readonly policyd: PolicydNode;
  readonly prober: Prober;
  readonly pods = new Map<string, LabPod>();

  constructor(name: string) {
    this.lab = createLab(name);
    ({ node1: this.wired, router: this.router } = twoNodes(this.lab));
    this.policyd = new PolicydNode(this.lab, this.wired);
    this.prober = new Prober(this.lab);
  }

  async start(): Promise<void> {
    this.policyd.put("node.json", JSON.stringify(nodeOf(this.wired)));
    const fields = { minSyncPeriod: "0s", masquerade: true, connectionLimit: 0 };
    await this.policyd.start([configured(this.lab.scratch, fields)]);
    // A busy machine needs long for all rounds.
    this.wired.node.writeSysctl("net/netfilter/nf_conntrack_udp_timeout", "120");
    for (const name of ["hostile", "other", "server"]) {
      const pod = this.lab.pod(name);
      assert.equal(add(this.wired, pod, this.policyd.overrides).error, undefined);
      this.pods.set(name, pod);
    }
    const endpoints = this.wired.routerAddresses.map((address) => ({ address, nodeName: "" }));
    this.policyd.put(
      "service.yaml",
      serviceManifest("web", ["10.96.0.10", "fd00:96::a"], endpoints, { type: "NodePort" }, NODE_PORT),
    );
    for (const address of this.wired.routerAddresses) {
      for (const protocol of ["udp", "tcp"] as const) {
        this.prober.listen(protocol, { namespace: this.router, address, port: PORT });
      }
      this.prober.listen("udp", { namespace: this.router, address, port: TARGET_PORT });
    }
  }

  pod(name: string): LabPod {
    return this.pods.get(name) ?? assert.fail(name);
  }

  /** Sends datagrams from ports of the hostile pod to one destination. */
  async attack(to: Address, port: number, count = MORE_THAN_A_SHARE): Promise<void> {
    const pod = this.pod("hostile");
    const from = addressesOf(pod).find((own) => familyOf(own) === familyOf(to)) ?? assert.fail();
    using flood = new Flood(pod, "eth0", gatewayMac(pod));
    // A flow that found no port in one round may find one in the next.
    for (let round = 0; round < ROUNDS; round++) await flood.send({ from, to }, turns(port, count));
    await this.#drained(to, port);
  }

  /** Settles when the responder has read all datagrams of the attack: until then its buffer has no room for others. */
  async #drained(to: Address, port: number): Promise<void> {
    const address = this.wired.routerAddresses.find((own) => familyOf(own) === familyOf(to)) ?? assert.fail();
    const [from, at] = [this.router, { address, port: port === NODE_PORT ? TARGET_PORT : port }];
    const [result] = await this.prober.run([{ protocol: "udp", from, to: at }], { timeoutMilliseconds: 20_000 });
    assert.equal(result?.reached, true, result?.why);
  }

  /** Returns the number of answered queries out of `count`, within a short time where not all should be answered. */
  async answered(
    from: LabNamespace,
    address: Address,
    port: number,
    count: number,
    timeoutMilliseconds = 20_000,
  ): Promise<number> {
    const flows = Array.from({ length: count }, () => ({ protocol: "udp" as const, from, to: { address, port } }));
    return (await this.prober.run(flows, { timeoutMilliseconds, repeats: false })).filter(({ reached }) => reached)
      .length;
  }

  /**
   * Lets pods leave with any of {@link ALL_PORTS}, also those that have connections by a share. It kills the daemon, which
   * would restore the shares.
   */
  async withoutShares(): Promise<void> {
    await this.policyd.kill();
    const { node } = this.wired;
    for (const family of [4, 6]) {
      const chain = `inet drawbridge masquerade_cluster${family}`;
      const rules = node.exec("nft", ["list", "chain", ...chain.split(" ")]);
      const unbounded = rules
        .replaceAll(/^.*@port_shares.*\n/gm, "")
        .replaceAll(" to :32768-65535", ` to :${ALL_PORTS.first}-${ALL_PORTS.last}`);
      node.exec("nft", ["-f", "-"], `flush chain ${chain}\n${unbounded}`);
    }
    forgetConnections(node);
  }

  /** Returns the ports of the node with which a pod's connections to a port leave. */
  async portsOf(name: string, destinationPort: number): Promise<readonly number[]> {
    const own = new Set(addressesOf(this.pod(name)));
    const found = new Set<number>();
    const sockets = this.wired.node.inside(() => new ConntrackSockets(this.lab.calls));
    const see = ({ original, reply }: FlowTuples): boolean => {
      const isMeant = own.has(original.source) && original.destinationPort === destinationPort;
      if (isMeant) found.add(reply.destinationPort ?? 0);
      return false;
    };
    await this.wired.node.inside(() => deleteFlows(sockets, EVERY_FLOW, see));
    return [...found].toSorted((a, b) => a - b);
  }
}

function* turns(destinationPort: number, count: number): Generator<FloodTurn> {
  for (let sourcePort = 1; sourcePort <= count; sourcePort++) yield { sourcePort, destinationPort };
}

/** Returns the MAC address to which a pod sends packets that are to be routed. */
function gatewayMac(pod: LabPod): MacAddress {
  const [, text = ""] = /lladdr (\S+)/.exec(pod.exec("ip", ["-4", "neighbour", "show", "dev", "eth0"])) ?? [];
  return parseMac(text);
}

describe("ports of the node with which pods leave", function () {
  this.timeout(300_000);
  let node: LeavingNode;

  before(async function () {
    requireKernel(this);
    node = new LeavingNode("ports");
    await node.start();
  });
  after(() => node?.lab.destroy());

  it("POD-25: with shares one pod keeps neither other pods nor the node from a destination", async () => {
    for (const family of FAMILIES) {
      const resolver = node.wired.routerAddresses[family];
      await node.attack(resolver, PORT);
      assert.equal(await node.answered(node.pod("other"), resolver, PORT, 40), 40);
      assert.equal(await node.answered(node.wired.node, resolver, PORT, 40), 40);
      const hostile = await node.portsOf("hostile", PORT);
      const [first = 0, last = 0] = [hostile[0], hostile.at(-1)];
      assert.ok(hostile.length > 1000 && last - first < 65_536 / 16, `${first}-${last}, ${hostile.length} ports`);
      assert.ok(last < 30_000 || first > 60_999, `${first}-${last} are ports of the node`);
    }
  });

  it("POD-25: a pod that connects by a node port does not use up the ports to the Service's endpoint outside", async () => {
    for (const family of FAMILIES) {
      const address = node.wired.addresses[family];
      for (let left = 100; (await node.answered(node.pod("other"), address, NODE_PORT, 1, 500)) === 0; left--) {
        assert.ok(left > 0, "the node port is not served");
      }
      await node.attack(address, NODE_PORT);
      assert.equal(await node.answered(node.pod("other"), address, NODE_PORT, 40), 40, formatAddress(address));
      assert.equal(await node.answered(node.wired.node, address, NODE_PORT, 20), 20);
      const hostile = await node.portsOf("hostile", NODE_PORT);
      assert.ok(hostile.length > 1000 && (hostile.at(-1) ?? 0) - (hostile[0] ?? 0) < 65_536 / 16);
    }
  });

  it(`POD-25: within the cluster ${2 * WITHIN} connections of one pod and as many datagrams of few sockets all arrive`, async () => {
    const [client, server] = [node.pod("hostile"), node.pod("server")];
    const rules = ["tcp flags syn tcp dport 9000-9001 counter drop", "udp dport 9000 counter drop"].join("\n");
    server.exec(
      "nft",
      ["-f", "-"],
      `table inet seen {\n chain in {\n type filter hook input priority 0;\n ${rules}\n }\n}\n`,
    );
    using flood = new Flood(client, "eth0", gatewayMac(client));
    for (const family of FAMILIES) {
      const [from, to] = [addressesOf(client)[family], addressesOf(server)[family]];
      for (const port of [9000, 9001]) await flood.send({ from, to, tcp: HANDSHAKE.syn }, turns(port, WITHIN / 2));
      for (let round = 0; round < WITHIN / 100; round++) await flood.send({ from, to }, turns(9000, 100));
    }
    const seen = [...server.exec("nft", ["list", "table", "inet", "seen"]).matchAll(/counter packets (\d+)/g)];
    assert.deepEqual(
      seen.map(([, packets]) => Number(packets)),
      [2 * WITHIN, 2 * WITHIN],
    );
  });

  it("POD-25: beside a pod with 1,024 spread host ports a pod leaves with several ranges of ports, and none of those", async () => {
    const hostPorts = Array.from({ length: 1024 }, (_, index) => 1100 + 28 * index);
    const mappings = hostPorts.map((hostPort) => ({ hostPort, containerPort: 80, protocol: "tcp" }));
    const { lab, wired, policyd } = node;
    const overrides = { ...policyd.overrides, runtimeConfig: { portMappings: mappings } };
    assert.equal(add(wired, lab.pod("published"), overrides).error, undefined);
    forgetConnections(wired.node);
    await node.attack(wired.routerAddresses[0], PORT, 1000);
    const hostile = await node.portsOf("hostile", PORT);
    assert.ok(hostile.length > 150, `${hostile.length} ports`);
    assert.ok(!hostile.some((port) => hostPorts.includes(port)));
  });

  // The last test: it kills the daemon.
  it("POD-25: without shares one pod keeps other pods from a resolver outside, in both families", async () => {
    await node.withoutShares();
    for (const family of FAMILIES) {
      const resolver = node.wired.routerAddresses[family];
      assert.equal(await node.answered(node.pod("other"), resolver, PORT, 20), 20);
      await node.attack(resolver, PORT, MORE_THAN_ALL);
      const others = await node.answered(node.pod("other"), resolver, PORT, 40, 1500);
      assert.ok(others < 20, `${others} of 40 queries of another pod were answered`);
    }
  });
});
