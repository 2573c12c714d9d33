import assert from "node:assert/strict";
import { type Family, parseAddress, FAMILIES } from "../../../../kernel/ip/address.ts";
import { add } from "../../../lab/cni.ts";
import { createLab, type Lab, type LabPod } from "../../../lab/lab.ts";
import { type TwoNodes, twoNodes } from "../../../lab/topology.ts";
import {
  ALL,
  CLUSTER_IPS,
  CUTS_PODS,
  type CutsPod,
  cutsWorld,
  NOTHING,
} from "../../../support/policy/cuts/cuts_world.ts";
import { type FlowProtocol, PROTOCOLS } from "../../../support/policy/cuts/channel.ts";
import { assertLive, assertStopped } from "../../../support/policy/cuts/flow_assertions.ts";
import { PushFlow } from "../../../support/policy/cuts/push_flow.ts";
import { clusterNetworkPolicy, labelled } from "../../../support/policy/manifest.ts";
import { PolicydNode } from "../../../support/daemon/policyd_node.ts";
import { requireKernel } from "../../../support/privilege.ts";
import { SERVICE_PORT, TARGET_PORT } from "../../../support/services/manifest.ts";

describe("live connections and the daemon", function () {
  this.timeout(300_000);
  let lab: Lab;
  let nodes: TwoNodes;
  let policyd: PolicydNode;
  const pods = new Map<CutsPod, LabPod>();
  const flows: PushFlow[] = [];

  before(async function () {
    requireKernel(this);
    lab = createLab("policyd-cuts");
    nodes = twoNodes(lab, { mtu: 1420 });
    policyd = new PolicydNode(lab, nodes.node1);
    tell(ALL);
    await policyd.start();
    for (const name of CUTS_PODS) {
      const pod = lab.pod(name);
      assert.equal(add(nodes.node1, pod, policyd.overrides).exitCode, 0);
      pods.set(name, pod);
    }
  });
  afterEach(() => {
    for (const flow of flows.splice(0)) flow.close();
  });
  after(async () => {
    await policyd?.kill();
    lab?.destroy();
  });

  /** Returns a pod's addresses, which are allocated in the order of the pods. */
  const addressesOf = (name: CutsPod) => {
    const host = CUTS_PODS.indexOf(name) + 2;
    return { 4: parseAddress(`10.244.1.${host}`), 6: parseAddress(`fd00:244:1::${host}`) };
  };

  function worldOf(egress: readonly object[], ingress: readonly object[] = ALL): string {
    const [client, bystander, server] = CUTS_PODS.map((name) => ({ addresses: addressesOf(name) }));
    assert.ok(client !== undefined && bystander !== undefined && server !== undefined);
    return cutsWorld({ client, bystander, server }, [nodes.node1], { egress, ingress });
  }

  /** Gives the daemon a cluster whose policies have these egress rules for the client. */
  function tell(egress: readonly object[]): void {
    policyd.put("world.yaml", worldOf(egress));
  }

  async function begin(name: CutsPod, protocol: FlowProtocol, family: Family, isOutside: boolean): Promise<PushFlow> {
    const [client, server] = [pods.get(name), pods.get("server")];
    assert.ok(client !== undefined && server !== undefined);
    const router = nodes.node1.routerAddresses[family === 4 ? 0 : 1];
    const outside = { address: router, port: name === "client" ? 9001 : 9002 };
    const service = { address: CLUSTER_IPS[family], port: SERVICE_PORT };
    const flow = await PushFlow.begin({
      name: `${name} to ${isOutside ? "the outside" : "the Service"}`,
      protocol,
      client,
      clientAddress: addressesOf(name)[family],
      to: isOutside ? outside : service,
      server: isOutside ? nodes.router : server,
      at: isOutside ? outside : { address: addressesOf("server")[family], port: TARGET_PORT },
    });
    flows.push(flow);
    return flow;
  }

  async function beginAll(name: CutsPod, isOutside: boolean): Promise<readonly PushFlow[]> {
    return await Promise.all(
      FAMILIES.flatMap((family) => PROTOCOLS.map((protocol) => begin(name, protocol, family, isOutside))),
    );
  }

  it("POL-81 POL-82: live connections go on while the daemon is away, and follow the changes made meanwhile and later", async () => {
    const cut = [...(await beginAll("client", false)), ...(await beginAll("client", true))];
    const kept = await beginAll("bystander", true);
    await assertLive([...cut, ...kept]);
    await policyd.kill();
    await assertLive([...cut, ...kept]);
    await policyd.start();
    await assertLive([...cut, ...kept]);
    await policyd.kill();
    tell(NOTHING);
    await policyd.start();
    await assertStopped(cut);
    await assertLive(kept);
    await policyd.kill();
    await policyd.start();
    await assertStopped(cut);
    tell(ALL);
    await assertLive([...cut, ...kept]);
    tell(NOTHING);
    await assertStopped(cut);
    await assertLive(kept);
  });

  const withoutRole = [{ from: [{ podSelector: { matchExpressions: [{ key: "role", operator: "DoesNotExist" }] } }] }];
  const atPort = (port: number): readonly object[] => [
    { ports: ["TCP", "UDP", "SCTP"].map((protocol) => ({ protocol, port })) },
  ];
  const deny = document(
    clusterNetworkPolicy("apart", {
      tier: "Admin",
      priority: 1,
      subject: { pods: { namespaceSelector: {}, podSelector: labelled({ app: "server" }) } },
      ingress: [
        { action: "Deny", from: [{ pods: { namespaceSelector: {}, podSelector: labelled({ app: "client" }) } }] },
      ],
    }),
  );
  const changes: readonly (readonly [what: string, open: () => string, closed: () => string])[] = [
    ["a Deny of a ClusterNetworkPolicy", () => worldOf(ALL), () => worldOf(ALL) + deny],
    [
      "another label of the pod",
      () => worldOf(ALL, withoutRole),
      () => worldOf(ALL, withoutRole).replace('"labels":{"app":"client"}', '"labels":{"app":"client","role":"off"}'),
    ],
    ["another port", () => worldOf(ALL, atPort(TARGET_PORT)), () => worldOf(ALL, atPort(TARGET_PORT + 1))],
  ];
  for (const [what, open, closed] of changes) {
    it(`POL-81: ${what} stops live connections, and they go on when it is taken back`, async () => {
      assert.notEqual(open(), closed());
      policyd.put("world.yaml", open());
      const live = await beginAll("client", false);
      await assertLive(live);
      policyd.put("world.yaml", closed());
      await assertStopped(live);
      policyd.put("world.yaml", open());
      await assertLive(live);
    });
  }
});

function document(object: object): string {
  return `---\n${JSON.stringify(object)}\n`;
}
