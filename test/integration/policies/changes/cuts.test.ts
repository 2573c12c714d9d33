import assert from "node:assert/strict";
import { FAMILIES, parseAddress } from "../../../../kernel/ip/address.ts";
import { scrape } from "../../../support/daemon/scrape.ts";
import { OPPOSITE_WAYS } from "../../../support/guard/ways.ts";
import { PROTOCOLS } from "../../../support/policy/cuts/channel.ts";
import { PushFlow } from "../../../support/policy/cuts/push_flow.ts";
import { type NamedPods, namedPods } from "../../../support/policy/lab/named_lab.ts";
import { NODE_NAMES, type NodeName } from "../../../support/policy/lab/place.ts";
import { PolicyLab } from "../../../support/policy/lab/policy_lab.ts";
import { labelled, networkPolicy } from "../../../support/policy/manifest.ts";
import { requireBridgeNetfilter, requireKernel } from "../../../support/privilege.ts";
import { serviceObjects } from "../../../support/services/manifest.ts";

const [SERVICE_PORT, TARGET_PORT] = [80, 8080] as const;
/** The rules of a policy that allows everything, or nothing. */
const [ALL, NOTHING] = [[{}], []] as const;

/** The pods of each node, in a namespace of its own; the server has a Service. */
const CLUSTERS = {
  node1: { namespace: "x", serviceIps: ["10.96.0.10", "fd00:96::a"] },
  node2: { namespace: "y", serviceIps: ["10.96.0.11", "fd00:96::b"] },
} as const satisfies Readonly<Record<NodeName, object>>;
const APPS = ["client", "bystander", "server"] as const;
const PODS: NamedPods = Object.fromEntries(
  NODE_NAMES.flatMap((node) =>
    APPS.map((app) => [`${CLUSTERS[node].namespace}/${app}`, { node, labels: { app } }] as const),
  ),
);

type Rules = readonly object[];
/** An end of a flow: a pod of the node, the node itself, the server's Service, a host outside. */
type End = (typeof APPS)[number] | "node" | "Service" | "outside";

describe("live connections follow policies", function () {
  this.timeout(300_000);
  let lab: PolicyLab;
  let nextPort = 9000;
  const flows: PushFlow[] = [];

  before(async function () {
    requireKernel(this);
    requireBridgeNetfilter(this);
    lab = await PolicyLab.create({
      name: "cuts",
      pods: [],
      bridgeNetfilter: { node1: true, node2: false },
      configuration: { masquerade: false, policePodToOwnNode: true },
    });
    for (const [key, { node }] of Object.entries(PODS))
      await lab.wire({ key, node }, { bypassBridge: node === "node2" });
  });
  afterEach(() => {
    for (const flow of flows.splice(0)) flow.close();
    lab?.forgetConnections();
  });
  after(() => lab?.close());

  /** Returns the objects, with policies for what the clients send and the servers receive. */
  function world(egress: Rules = ALL, ingress: Rules = ALL): readonly object[] {
    return [
      ...namedPods(lab, PODS),
      ...NODE_NAMES.flatMap((nodeName) => {
        const { namespace, serviceIps } = CLUSTERS[nodeName];
        const ports = (["TCP", "UDP", "SCTP"] as const).map((protocol) => ({
          protocol,
          port: SERVICE_PORT,
          targetPort: TARGET_PORT,
        }));
        const of = (app: string, spec: object) =>
          networkPolicy(namespace, { podSelector: labelled({ app }), ...spec }, app);
        return [
          ...serviceObjects(`${namespace}/pushing`, serviceIps, ports, [
            { addresses: lab.place(`${namespace}/server`).addresses, nodeName },
          ]),
          of("client", { policyTypes: ["Egress"], egress }),
          of("server", { policyTypes: ["Ingress"], ingress }),
        ];
      }),
    ];
  }

  for (const [index, nodeName] of NODE_NAMES.entries()) {
    describe(OPPOSITE_WAYS[index]?.title ?? nodeName, () => {
      const placeOf = (end: End) => {
        if (end === "node" || end === "outside") return lab.place(end === "node" ? nodeName : end);
        return lab.place(`${CLUSTERS[nodeName].namespace}/${end === "Service" ? "server" : end}`);
      };

      /** Begins flows in all protocols and families. Only one end may have flows to the Service, which has fixed ports. */
      async function begin(from: End, to: End): Promise<readonly PushFlow[]> {
        const [client, server] = [placeOf(from), placeOf(to)];
        const all = FAMILIES.flatMap((family) =>
          PROTOCOLS.map(async (protocol) => {
            const port = to === "Service" ? TARGET_PORT : nextPort++;
            const at = { address: server.addresses[family], port };
            const flow = await PushFlow.begin({
              name: `${from} to ${to}`,
              protocol,
              client: client.namespace,
              clientAddress: client.addresses[family],
              to: to === "Service" ? { address: serviceAddress(nodeName, family), port: SERVICE_PORT } : at,
              server: server.namespace,
              at,
            });
            flows.push(flow);
            return flow;
          }),
        );
        return await Promise.all(all);
      }

      const beginEach = async (...ends: readonly (readonly [End, End])[]): Promise<readonly PushFlow[]> =>
        (await Promise.all(ends.map(([from, to]) => begin(from, to)))).flat();

      it("POL-81: a change of the egress rules stops flows in both directions, which continue when allowed and the server sends", async () => {
        await lab.apply(world());
        const cut = await beginEach(
          ["client", "Service"],
          ["client", "bystander"],
          ["client", "outside"],
          ["client", "node"],
        );
        const kept = await beginEach(
          ["bystander", "server"],
          ["bystander", "client"],
          ["outside", "client"],
          ["node", "client"],
          ["bystander", "node"],
        );
        await assertLive([...cut, ...kept]);
        await lab.apply(world(NOTHING));
        await assertStopped(cut);
        await assertLive(kept);
        await lab.apply(world());
        await assertLive([...cut, ...kept]);
      });

      it("POL-81: a change of the ingress rules stops flows in both directions, which continue when allowed and the server sends", async () => {
        await lab.apply(world());
        const cut = await beginEach(["client", "Service"], ["bystander", "server"], ["outside", "server"]);
        const kept = await beginEach(["server", "bystander"], ["server", "outside"], ["node", "server"]);
        await assertLive([...cut, ...kept]);
        await lab.apply(world(ALL, NOTHING));
        await assertStopped(cut);
        await assertLive(kept);
        await lab.apply(world());
        await assertLive([...cut, ...kept]);
      });

      it("POL-83: with policyReset both ends of a TCP connection get a reset", async () => {
        await lab.restart(nodeName, () => {}, { policyReset: true });
        await lab.apply(world());
        const cut = await beginEach(["client", "Service"], ["client", "outside"], ["client", "node"]);
        const kept = await begin("bystander", "server");
        await lab.apply(world(NOTHING));
        await assertStopped(cut);
        for (const { name, refusals } of cut) {
          if (name.includes("tcp")) assert.deepEqual([name, refusals], [name, { client: 104, server: 104 }]);
        }
        await assertLive(kept);
        await lab.apply(world());
        await assertLive(await begin("client", "outside"));
        await lab.restart(nodeName, () => {});
      });

      it("POL-82: older connections than the first table continue without a packet of their clients, and denied ones stop", async () => {
        const restart = async (configuration: object): Promise<void> => {
          await lab.restart(nodeName, () => lab.tell(world(NOTHING)), { ...configuration });
          await lab.apply(world(NOTHING));
        };
        await restart({ policies: false });
        const denied = await beginEach(["client", "bystander"], ["client", "outside"]);
        const allowed = await beginEach(
          ["bystander", "Service"],
          ["bystander", "outside"],
          ["outside", "server"],
          ["node", "client"],
          ["bystander", "node"],
        );
        // The second daemon uses the numbers of the first.
        for (let daemons = 0; daemons < 2; daemons++) {
          await restart({});
          await assertLive(allowed);
          await assertStopped(denied);
          const { node } = lab.wired(nodeName);
          assert.ok((scrape(node).get('drawbridge_policy_numbered_connections{state="settled"}') ?? 0) > 0);
          assert.doesNotMatch(node.exec("nft", ["list", "tables"]), /opening/);
        }
        await lab.apply(world(NOTHING, NOTHING));
        await assertStopped(allowed.filter(({ name }) => / to (?:Service|server)/.test(name)));
        await lab.apply(world());
        await assertLive([...allowed, ...denied]);
      });
    });
  }
});

function serviceAddress(node: NodeName, family: 4 | 6): ReturnType<typeof parseAddress> {
  return parseAddress(CLUSTERS[node].serviceIps[family === 4 ? 0 : 1]);
}

/** Asserts that messages of the server arrive while the client is silent. @throws AssertionError with the other flows */
async function assertLive(flows: readonly PushFlow[]): Promise<void> {
  const live = await Promise.all(flows.map((flow) => flow.reachesClient()));
  assert.deepEqual(namesOf(flows, live), [], "these flows do not continue");
}

/** Asserts that nothing arrives in either direction. @throws AssertionError with the names of the other flows */
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
