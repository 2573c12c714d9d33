import assert from "node:assert/strict";
import { setTimeout as pause } from "node:timers/promises";
import { type Address, type Family, formatAddress, FAMILIES } from "../../kernel/ip/address.ts";
import type { PolicyOptions } from "../../policyd/policies/compile/options.ts";
import { createLab, type Lab } from "../lab/lab.ts";
import { type TwoNodes, twoNodes } from "../lab/topology.ts";
import { ProbeSocket, SocketType } from "../lab/probe/socket.ts";
import { WAYS } from "../support/guard/ways.ts";
import { PolicedNode, type PolicedPod } from "../support/policy/cuts/policed_node.ts";
import { type FlowEnds, type FlowProtocol, PROTOCOLS } from "../support/policy/cuts/channel.ts";
import { ALL, CLUSTER_IPS, CUTS_PODS, type CutsPod, cutsWorld, NOTHING } from "../support/policy/cuts/cuts_world.ts";
import { PushFlow } from "../support/policy/cuts/push_flow.ts";
import { requireBridgeNetfilter, requireKernel } from "../support/privilege.ts";
import { SERVICE_PORT, TARGET_PORT } from "../support/services/manifest.ts";
import { until } from "../support/until.ts";

/** Each setting on and off: what a packet meets with one of them does not depend on the other. */
const STATES = WAYS.filter(({ bridgeNetfilter, bypassBridge }) => bridgeNetfilter !== bypassBridge);

for (const { bridgeNetfilter, bypassBridge, title: state, short } of STATES) {
  describe(`live connections follow policies, ${state}`, function () {
    this.timeout(120_000);
    let lab: Lab;
    let nodes: TwoNodes;
    let node: PolicedNode;
    let pods: Readonly<Record<CutsPod, PolicedPod>>;
    let nextPort = 9000;
    const flows: PushFlow[] = [];
    const sockets: ProbeSocket[] = [];

    beforeEach(function () {
      requireKernel(this);
      if (bridgeNetfilter) requireBridgeNetfilter(this);
      lab = createLab(`policy-cuts-${short}`);
      nodes = twoNodes(lab, { mtu: 1420, bridgeNetfilter });
      node = new PolicedNode(lab, nodes.node1);
      const [client, bystander, server] = CUTS_PODS.map((name) => node.pod(name, { bypassBridge }));
      assert.ok(client !== undefined && bystander !== undefined && server !== undefined);
      pods = { client, bystander, server };
    });
    afterEach(() => {
      for (const one of [...flows.splice(0), ...sockets.splice(0)]) one.close();
      node?.[Symbol.dispose]();
      lab?.destroy();
    });

    const addressOfNode = (family: Family): Address => nodes.node1.addresses[family === 4 ? 0 : 1];

    /** Returns the cluster, with policies for what the client sends and the server receives. */
    function world(egress = ALL, ingress = ALL): string {
      return cutsWorld(pods, [nodes.node1], { egress, ingress });
    }

    async function begin(ends: Omit<FlowEnds, "at"> & { readonly at?: FlowEnds["at"] }): Promise<PushFlow> {
      const flow = await PushFlow.begin({ ...ends, at: ends.at ?? ends.to });
      flows.push(flow);
      return flow;
    }

    /** Begins flows from a pod in all protocols and families. */
    async function beginAll(
      make: (
        protocol: FlowProtocol,
        family: Family,
      ) => Omit<FlowEnds, "protocol" | "at"> & { readonly at?: FlowEnds["at"] },
    ): Promise<readonly PushFlow[]> {
      return await Promise.all(
        FAMILIES.flatMap((family) => PROTOCOLS.map((protocol) => begin({ protocol, ...make(protocol, family) }))),
      );
    }

    /**
     * Returns ends that use the cluster IP. The server's port is the Service's target port, so there is one flow of
     * each protocol and family.
     */
    const throughService = (from: CutsPod) => (_protocol: FlowProtocol, family: Family) => ({
      name: `${from} to the Service`,
      client: pods[from].namespace,
      clientAddress: pods[from].addresses[family],
      to: { address: CLUSTER_IPS[family], port: SERVICE_PORT },
      server: pods.server.namespace,
      at: { address: pods.server.addresses[family], port: TARGET_PORT },
    });
    const toPod = (from: CutsPod, to: CutsPod) => (_protocol: FlowProtocol, family: Family) => ({
      name: `${from} to ${to}`,
      client: pods[from].namespace,
      clientAddress: pods[from].addresses[family],
      to: { address: pods[to].addresses[family], port: nextPort++ },
      server: pods[to].namespace,
    });
    const toRouter = (from: CutsPod) => (_protocol: FlowProtocol, family: Family) => ({
      name: `${from} to the outside`,
      client: pods[from].namespace,
      clientAddress: pods[from].addresses[family],
      to: { address: nodes.node1.routerAddresses[family === 4 ? 0 : 1], port: nextPort++ },
      server: nodes.router,
    });
    const fromRouter = (to: CutsPod) => (_protocol: FlowProtocol, family: Family) => ({
      name: `the outside to ${to}`,
      client: nodes.router,
      clientAddress: nodes.node1.routerAddresses[family === 4 ? 0 : 1],
      to: { address: pods[to].addresses[family], port: nextPort++ },
      server: pods[to].namespace,
    });
    const toNode = (from: CutsPod) => (_protocol: FlowProtocol, family: Family) => ({
      name: `${from} to its node`,
      client: pods[from].namespace,
      clientAddress: pods[from].addresses[family],
      to: { address: addressOfNode(family), port: nextPort++ },
      server: nodes.node1.node,
    });
    const fromNode = (to: CutsPod) => (_protocol: FlowProtocol, family: Family) => ({
      name: `the node to ${to}`,
      client: nodes.node1.node,
      clientAddress: addressOfNode(family),
      to: { address: pods[to].addresses[family], port: nextPort++ },
      server: pods[to].namespace,
    });

    async function start(text: string, options: Partial<PolicyOptions> = {}): Promise<void> {
      await node.start(text, options);
    }

    it("POL-81: a change of the egress rules stops flows in both directions, which continue when allowed and the server sends", async () => {
      await start(world(), { policePodToOwnNode: true });
      const cut = [
        ...(await beginAll(throughService("client"))),
        ...(await beginAll(toPod("client", "bystander"))),
        ...(await beginAll(toRouter("client"))),
        ...(await beginAll(toNode("client"))),
      ];
      const kept = [
        ...(await beginAll(toPod("bystander", "server"))),
        ...(await beginAll(toPod("bystander", "client"))),
        ...(await beginAll(fromRouter("client"))),
        ...(await beginAll(fromNode("client"))),
        ...(await beginAll(toNode("bystander"))),
      ];
      await assertLive([...cut, ...kept]);
      node.apply(world(NOTHING));
      await assertStopped(cut);
      await assertLive(kept);
      node.apply(world());
      await assertLive(cut);
      await assertLive(kept);
    });

    it("POL-81: a change of the ingress rules stops flows in both directions, which continue when allowed and the server sends", async () => {
      await start(world());
      const cut = [
        ...(await beginAll(throughService("client"))),
        ...(await beginAll(toPod("bystander", "server"))),
        ...(await beginAll(fromRouter("server"))),
      ];
      const kept = [
        ...(await beginAll(toPod("server", "bystander"))),
        ...(await beginAll(toRouter("server"))),
        ...(await beginAll(fromNode("server"))),
      ];
      await assertLive([...cut, ...kept]);
      node.apply(world(ALL, NOTHING));
      await assertStopped(cut);
      await assertLive(kept);
      node.apply(world());
      await assertLive([...cut, ...kept]);
    });

    it("POL-81: a packet that a stranger sent in a pod's name opens no way for answers to the pod, whatever changes", async () => {
      await start(world());
      for (const [index, family] of FAMILIES.entries()) {
        const [address, at] = [pods.client.addresses[family], { address: addressOfNode(family), port: nextPort++ }];
        const prefixed = `${formatAddress(address)}/${family === 4 ? 32 : 128}`;
        // With duplicate address detection the kernel takes an IPv6 address into use only after a while.
        nodes.router.exec("ip", ["address", "add", prefixed, "dev", "lo", ...(family === 6 ? ["nodad"] : [])]);
        const [stranger, server, pod] = [nodes.router, nodes.node1.node, pods.client.namespace].map((namespace) =>
          ProbeSocket.open(namespace, family, SocketType.DATAGRAM),
        );
        assert.ok(stranger !== undefined && server !== undefined && pod !== undefined);
        sockets.push(stranger, server, pod);
        const forged = { address, port: 4000 + index };
        for (const socket of [stranger, pod]) socket.bind(forged);
        server.bind(at);
        stranger.sendTo(Uint8Array.of(1), at);
        await until(() => server.receive().kind === "data", "the node hears the stranger");
        for (const egress of [NOTHING, ALL]) {
          const { rounds } = node.cuts.status();
          node.apply(world(egress));
          await until(() => node.cuts.status().rounds >= rounds + 2, "two rounds");
        }
        server.sendTo(Uint8Array.of(2), forged);
        await pause(100);
        assert.equal(pod.receive().kind, "nothing", `IPv${family}`);
        // The pod itself may send, and gets an answer.
        pod.sendTo(Uint8Array.of(3), at);
        await until(() => server.receive().kind === "data", "the node hears the pod");
        server.sendTo(Uint8Array.of(4), forged);
        await until(() => pod.receive().kind === "data", "the pod hears the node");
      }
    });

    it("POL-83: with policyReset both ends of a TCP connection get a reset", async () => {
      await start(world(), { policyReset: true, policePodToOwnNode: true });
      const cut = [
        ...(await beginAll(throughService("client"))),
        ...(await beginAll(toRouter("client"))),
        ...(await beginAll(toNode("client"))),
      ];
      const kept = await beginAll(toPod("bystander", "server"));
      node.apply(world(NOTHING));
      await assertStopped(cut);
      for (const flow of cut) {
        if (!flow.name.includes("tcp")) continue;
        assert.deepEqual([flow.name, flow.refusals], [flow.name, { client: 104, server: 104 }]);
      }
      await assertLive(kept);
      node.apply(world());
      await assertLive(await beginAll(toRouter("client")));
    });

    it("POL-82: older connections than the first table continue without a packet of their clients, and denied ones stop", async () => {
      await node.start(world(), undefined);
      const denied = [...(await beginAll(toPod("client", "bystander"))), ...(await beginAll(toRouter("client")))];
      const allowed = [
        ...(await beginAll(throughService("bystander"))),
        ...(await beginAll(toRouter("bystander"))),
        ...(await beginAll(fromRouter("server"))),
        ...(await beginAll(fromNode("client"))),
        ...(await beginAll(toNode("bystander"))),
      ];
      await start(world(NOTHING));
      await assertLive(allowed);
      await assertStopped(denied);
      assert.ok(node.cuts.status().settled > 0);
      const tables = nodes.node1.node.exec("nft", ["list", "tables"]);
      assert.ok(!tables.includes("opening"), tables);
      // A new daemon starts, which uses the numbers of the last one.
      await start(world(NOTHING));
      await assertLive(allowed);
      await assertStopped(denied);
      node.apply(world(NOTHING, NOTHING));
      await assertStopped(allowed.filter(({ name }) => name.includes("Service") || name.includes("to server")));
      node.apply(world());
      await assertLive([...allowed, ...denied]);
    });

    it("POL-82: connections that begin while the first table is loaded continue", async () => {
      await node.start(world(), undefined);
      const begun: PushFlow[] = [];
      await node.start(world(NOTHING), {}, async () => {
        begun.push(...(await beginAll(toRouter("bystander"))));
      });
      assert.equal(begun.length, FAMILIES.length * PROTOCOLS.length);
      await assertLive(begun);
      assert.equal(node.cuts.status().settled, 0);
    });
  });
}

/**
 * Asserts for each flow that messages of the server arrive while the client is silent. @throws AssertionError with the
 * names of the others
 */
async function assertLive(flows: readonly PushFlow[]): Promise<void> {
  const live = await Promise.all(flows.map((flow) => flow.reachesClient()));
  assert.deepEqual(namesOf(flows, live), [], "these flows do not continue");
}

/**
 * Asserts for each flow that nothing arrives in either direction. @throws AssertionError with the names of the others
 */
async function assertStopped(flows: readonly PushFlow[]): Promise<void> {
  // Messages of the client in between set no label.
  for (const sender of ["server", "client", "server"] as const) {
    const stopped = await Promise.all(flows.map((flow) => flow.isStopped(sender)));
    assert.deepEqual(namesOf(flows, stopped), [], `the ${sender} gets through`);
  }
}

/** Returns the names of the flows with a false outcome. */
function namesOf(flows: readonly PushFlow[], outcomes: readonly boolean[]): readonly string[] {
  return flows.filter((_, index) => outcomes[index] !== true).map(({ name }) => name);
}
