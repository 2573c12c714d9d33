import { FAMILIES } from "../../../../kernel/ip/address.ts";
import assert from "node:assert/strict";
import { EVENTS_PATH } from "../../../apiserver/events.ts";
import { type RawObject, recordOf } from "../../../apiserver/storage.ts";
import { createLab } from "../../../lab/lab.ts";
import type { LabNamespace } from "../../../lab/namespace.ts";
import { ApiNode } from "../../../support/daemon/api_node.ts";
import { type ComingPod, comingPod, startCall, succeed } from "../../../support/policy/first_packet/coming_pod.ts";
import { requireKernel } from "../../../support/privilege.ts";
import { type Scrape, scrapeWhen } from "../../../support/daemon/scrape.ts";
import { until } from "../../../support/until.ts";

const PORT = 8080;
/** Pods of another node that every rule of {@link greedy} selects, with two addresses each. */
const PEERS = 40;
/** Numbers of rules of a policy, with which it has 8,000 pairs of address and port, and 164,000, too many for a set. */
const [FEW, MANY] = [100, 2000];

const PODS = { peer: ["peers", 10], greedy: ["greedy", 11], web: ["shop", 12], stranger: ["other", 13] } as const;
type Name = keyof typeof PODS;

const namespace = (name: string): RawObject => ({ apiVersion: "v1", kind: "Namespace", metadata: { name } });

function podOf(name: string, own: string, nodeName: string, podIPs: readonly string[] = []): RawObject {
  return {
    apiVersion: "v1",
    kind: "Pod",
    metadata: { name, namespace: own, uid: `uid-${name}`, labels: { app: name } },
    spec: { nodeName },
    status: { phase: "Running", podIPs: podIPs.map((ip) => ({ ip })) },
  };
}

function policyOf(own: string, name: string, ingress: readonly object[]): RawObject {
  const metadata = { name, namespace: own, uid: `uid-${name}` };
  return { apiVersion: "networking.k8s.io/v1", kind: "NetworkPolicy", metadata, spec: { podSelector: {}, ingress } };
}

const FROM_PEERS = { namespaceSelector: { matchLabels: { "kubernetes.io/metadata.name": "peers" } } };

/** Returns a policy that allows all peers at one port for each rule, by a selector of its own at each. */
function greedy(rules: number): RawObject {
  const ingress = Array.from({ length: rules }, (_, number) => ({
    from: [{ ...FROM_PEERS, podSelector: { matchExpressions: [{ key: `k${number}`, operator: "DoesNotExist" }] } }],
    ports: [{ protocol: "TCP", port: PORT + number }],
  }));
  return policyOf("greedy", "many", ingress);
}

describe("the size limit of the sets of one tenant's policies, with packets", function () {
  this.timeout(300_000);
  let node: ApiNode;
  const pods = new Map<Name, ComingPod>();

  before(async function () {
    requireKernel(this);
    node = new ApiNode(createLab("set-room"));
    await node.prepare();
    await node.listen();
    const others = Array.from({ length: PEERS }, (_, number) =>
      podOf(`peer${number}`, "peers", "node2", [`10.244.2.${number + 2}`, `fd00:244:2::${(number + 2).toString(16)}`]),
    );
    const own = Object.entries(PODS).map(([name, [where]]) => podOf(name, where, "node1"));
    await node.server.apply(...["peers", "greedy", "shop", "other"].map(namespace), ...others, ...own);
    // Beside the policy that grows: a second one of its namespace, which names no peers, and one of another tenant.
    await node.server.apply(
      greedy(FEW),
      policyOf("greedy", "none", []),
      policyOf("shop", "web", [{ from: [FROM_PEERS] }]),
    );
    node.start();
    await node.untilSynced();
    for (const name of Object.keys(PODS) as Name[]) {
      const [where, host] = PODS[name];
      const pod = comingPod(node.lab, name, host);
      pods.set(name, pod);
      await succeed(startCall("ADD", node.wired, pod, where, node.overrides()));
      for (const family of FAMILIES) {
        node.prober.listen("tcp", { namespace: pod.namespace, address: pod.addresses[family], port: PORT });
      }
    }
  });
  after(() => node?.lab.destroy());

  const of = (name: Name): ComingPod => pods.get(name) ?? assert.fail(name);
  const allFrom = (from: LabNamespace, to: ComingPod) =>
    FAMILIES.map((family) => ({ protocol: "tcp" as const, from, to: { address: to.addresses[family], port: PORT } }));

  /** Returns which senders reach which isolated pods, and asserts that both families have the same result. */
  async function reached(): Promise<readonly string[]> {
    const ways = (["peer", "stranger"] as const).flatMap((from) =>
      (["greedy", "web"] as const).map((to) => ({ from, to, flows: allFrom(of(from).namespace, of(to)) })),
    );
    const results = await node.prober.run(
      ways.flatMap(({ flows }) => flows),
      { timeoutMilliseconds: 1000 },
    );
    return ways.flatMap(({ from, to, flows }) => {
      const some = results.filter(({ flow }) => flows.includes(flow));
      assert.equal(new Set(some.map((one) => one.reached)).size, 1, `${from} to ${to}: the families differ`);
      return some[0]?.reached === true ? [`${from} to ${to}`] : [];
    });
  }

  /** Returns the metrics once all objects are in force and this number of sets is closed. */
  const inForce = (closed: number): Promise<Scrape> =>
    scrapeWhen(
      node.wired.node,
      (all) => all.get("drawbridge_synced") === 1 && all.get("drawbridge_policy_closed_sets") === closed,
      `${closed} sets are closed`,
    );

  async function notices(): Promise<readonly string[]> {
    const { objects = [] } = await node.server.tell({ type: "read", path: EVENTS_PATH });
    return objects.map(({ reason, regarding, note }) => {
      const { kind, namespace: where, name } = recordOf(regarding);
      return `${String(reason)} ${String(kind)} ${String(where)}/${String(name)}: ${String(note)}`;
    });
  }

  it("POL-93 EVENT-07: pods selected by a policy with too large sets are closed, its author gets an Event, and other pods go on", async () => {
    assert.deepEqual(await reached(), ["peer to greedy", "peer to web"]);
    const before = await inForce(0);
    assert.ok((before.get("drawbridge_policy_set_elements") ?? 0) > FEW * PEERS * 2);
    assert.deepEqual(await notices(), []);

    await node.server.apply(greedy(MANY));
    const after = await inForce(1);
    assert.equal(after.get('drawbridge_network_policies{state="restricted"}'), 1);
    assert.deepEqual(await reached(), ["peer to web"]);
    assert.match(node.daemon.status().problems.join(), /^NetworkPolicies greedy\/many: ingress: too many pairs/);
    assert.ok((after.get("drawbridge_policy_set_elements") ?? Infinity) < FEW * PEERS);
    await until(async () => (await notices()).length > 0, "an Event");
    const reported = await notices();
    assert.equal(reported.length, 1);
    assert.match(
      reported[0] ?? "",
      /^PolicyNotInForce NetworkPolicy greedy\/many: NetworkPolicy greedy\/many: too many pairs/,
    );

    await node.server.apply(greedy(FEW));
    await inForce(0);
    assert.deepEqual(await reached(), ["peer to greedy", "peer to web"]);
    assert.deepEqual(node.daemon.status().problems, []);
  });
});
