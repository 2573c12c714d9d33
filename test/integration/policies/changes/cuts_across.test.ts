import assert from "node:assert/strict";
import { type Family, parseAddress } from "../../../../kernel/ip/address.ts";
import { add } from "../../../lab/cni.ts";
import { createLab, type Lab, type LabPod } from "../../../lab/lab.ts";
import type { Endpoint } from "../../../lab/probe/endpoint.ts";
import { type TwoNodes, twoNodes } from "../../../lab/topology.ts";
import { PROTOCOLS } from "../../../support/policy/cuts/channel.ts";
import { ALL, CLUSTER_IPS, cutsWorld, NOTHING } from "../../../support/policy/cuts/cuts_world.ts";
import { assertLive, assertStopped } from "../../../support/policy/cuts/flow_assertions.ts";
import { PushFlow } from "../../../support/policy/cuts/push_flow.ts";
import { PolicydNode } from "../../../support/daemon/policyd_node.ts";
import { requireBridgeNetfilter, requireKernel } from "../../../support/privilege.ts";
import { SERVICE_PORT, TARGET_PORT } from "../../../support/services/manifest.ts";

const FAMILIES = [4, 6] as const;
const CLIENT = { 4: parseAddress("10.244.1.2"), 6: parseAddress("fd00:244:1::2") } as const;
const SERVER = { 4: parseAddress("10.244.2.2"), 6: parseAddress("fd00:244:2::2") } as const;

for (const state of ["on", "off"] as const) {
  describe(`live connections between two policed nodes, br_netfilter ${state}`, function () {
    this.timeout(120_000);
    let lab: Lab;
    let nodes: TwoNodes;
    /** The daemons of the client's node and of the server's. */
    let atClient: PolicydNode;
    let atServer: PolicydNode;
    let client: LabPod;
    let server: LabPod;
    const flows: PushFlow[] = [];

    before(async function () {
      requireKernel(this);
      if (state === "on") requireBridgeNetfilter(this);
      lab = createLab(`cuts-across-${state}`);
      nodes = twoNodes(lab, { bridgeNetfilter: state === "on" });
      atClient = new PolicydNode(lab, nodes.node1);
      atServer = new PolicydNode(lab, nodes.node2);
      client = lab.pod("client");
      server = lab.pod("server");
      for (const [policyd, wired, pod] of [
        [atClient, nodes.node1, client],
        [atServer, nodes.node2, server],
      ] as const) {
        policyd.put("world.yaml", world(ALL, ALL));
        await policyd.start();
        assert.equal(add(wired, pod, policyd.overrides).exitCode, 0);
      }
    });
    after(async () => {
      for (const flow of flows) flow.close();
      await atClient?.kill();
      await atServer?.kill();
      lab?.destroy();
    });

    /** Returns the objects that both daemons know. */
    function world(egress: readonly object[], ingress: readonly object[]): string {
      const pods = { client: { addresses: CLIENT }, server: { addresses: SERVER, nodeName: "node2" } };
      return cutsWorld(pods, [nodes.node1, nodes.node2], { egress, ingress });
    }

    /** Begins flows of all protocols and families. */
    async function beginAll(
      name: string,
      from: { readonly pod: LabPod; readonly addresses: typeof CLIENT | typeof SERVER },
      to: LabPod,
      reached: (family: Family) => { readonly to: Endpoint; readonly at: Endpoint },
    ): Promise<readonly PushFlow[]> {
      const begun = await Promise.all(
        FAMILIES.flatMap((family) =>
          PROTOCOLS.map((protocol) =>
            PushFlow.begin({
              name,
              protocol,
              client: from.pod,
              clientAddress: from.addresses[family],
              server: to,
              ...reached(family),
            }),
          ),
        ),
      );
      flows.push(...begun);
      return begun;
    }

    it("POL-81: either node by itself stops live connections in both directions, and they go on when it allows them", async () => {
      const cut = [
        ...(await beginAll("client to the Service", { pod: client, addresses: CLIENT }, server, (family) => ({
          to: { address: CLUSTER_IPS[family], port: SERVICE_PORT },
          at: { address: SERVER[family], port: TARGET_PORT },
        }))),
        ...(await beginAll("client to the server", { pod: client, addresses: CLIENT }, server, (family) => ({
          to: { address: SERVER[family], port: 9001 },
          at: { address: SERVER[family], port: 9001 },
        }))),
      ];
      const kept = await beginAll("server to the client", { pod: server, addresses: SERVER }, client, (family) => ({
        to: { address: CLIENT[family], port: 9002 },
        at: { address: CLIENT[family], port: 9002 },
      }));
      await assertLive([...cut, ...kept]);
      for (const [policyd, closed] of [
        [atClient, world(NOTHING, ALL)],
        [atServer, world(ALL, NOTHING)],
      ] as const) {
        policyd.put("world.yaml", closed);
        await assertStopped(cut);
        await assertLive(kept);
        policyd.put("world.yaml", world(ALL, ALL));
        await assertLive([...cut, ...kept]);
      }
    });
  });
}
