import assert from "node:assert/strict";
import { formatAddress, parseAddress } from "../../../../kernel/ip/address.ts";
import { Prober } from "../../../lab/probe/prober.ts";
import { type Expectation, expectOf, expectPackets } from "../../../support/policy/lab/expectation.ts";
import { listenAll, ninePodLab, ninePods } from "../../../support/policy/lab/nine_pods.ts";
import { podManifest, podObject, textsOf } from "../../../support/policy/lab/place.ts";
import type { PolicyLab } from "../../../support/policy/lab/policy_lab.ts";
import { inBoth, type Question, type Traffic } from "../../../support/policy/lab/question.ts";
import { serviceObjects } from "../../../support/services/manifest.ts";
import { clusterNetworkPolicy, labelled, networkPolicy } from "../../../support/policy/manifest.ts";
import { A, B, egressOfA, ingressOfA, ingressOfX, inNamespace, named } from "../../../support/policy/rows/words.ts";
import { BLOCK_ROWS } from "../../../support/policy/rows/block_rows.ts";
import { CLUSTER_POLICY_ROWS } from "../../../support/policy/rows/cluster_policy_rows.ts";
import { PORT_ROWS } from "../../../support/policy/rows/port_rows.ts";
import { assertRow } from "../../../support/policy/rows/row.ts";
import { SELECTION_ROWS } from "../../../support/policy/rows/selection_rows.ts";
import { requireBridgeNetfilter, requireKernel } from "../../../support/privilege.ts";

const IPS = ["10.96.0.10", "fd00:96::10"] as const;
const SERVICE_PORT = 8000;
const NODE_PORT = 30_080;
/** A port at which nothing of the lab listens. */
const OWN_PORT = 7007;
const SERVED: readonly Traffic[] = [`${SERVICE_PORT}/TCP`, `${SERVICE_PORT}/UDP`, `${SERVICE_PORT}/SCTP`];
const NODE_SERVED: readonly Traffic[] = [`${NODE_PORT}/TCP`, `${NODE_PORT}/UDP`, `${NODE_PORT}/SCTP`];
const DENY_X = networkPolicy("x", { podSelector: {}, policyTypes: ["Ingress", "Egress"] }, "deny-all");

/** The ports that pods serve: those of the rows' rules, and those around them. */
const PORTS = [79, 80, 81, 82, 8080] as const;

/**
 * Each row holds for the evaluator, and for packets of both families between and within two nodes, in both states of
 * br_netfilter. For Services only packets are judged: the evaluator of policies does not know these.
 */
describe("policies among nine pods, with packets", function () {
  this.timeout(300_000);
  let lab: PolicyLab;

  before(async function () {
    requireKernel(this);
    requireBridgeNetfilter(this);
    lab = await ninePodLab({ name: "rows", bridgeNetfilter: { node1: true, node2: false } }, PORTS);
  });
  after(() => lab?.close());

  for (const [number, row] of [...SELECTION_ROWS, ...PORT_ROWS, ...BLOCK_ROWS, ...CLUSTER_POLICY_ROWS].entries()) {
    it(row.title, () => assertRow(lab, row, number));
  }

  /** Returns the Service `x/web`: all protocols at port 8000, served by pods at port 80. */
  function web(backends: readonly string[], spec: Readonly<Record<string, unknown>> = {}): readonly object[] {
    const ports = (["TCP", "UDP", "SCTP"] as const).map((protocol) => ({
      protocol,
      port: SERVICE_PORT,
      targetPort: 80,
      nodePort: NODE_PORT,
    }));
    const at = backends.map((key) => ({ addresses: lab.place(key).addresses, nodeName: lab.nodeOf(key) }));
    return serviceObjects("x/web", IPS, ports, at, spec);
  }

  const toService = (from: string, ...traffics: readonly Traffic[]): readonly Question[] =>
    IPS.flatMap((address) => inBoth(from, address, ...(traffics.length === 0 ? SERVED : traffics)));
  const toNodePort = (from: string, node: string): readonly Question[] =>
    textsOf(lab.place(node)).flatMap((address) => inBoth(from, address, ...NODE_SERVED));

  /** Puts objects in force and expects these fates of packets. */
  async function behind(objects: readonly object[], expectation: Expectation): Promise<void> {
    await lab.apply([...ninePods(lab), ...objects]);
    await expectPackets(lab, expectation);
    lab.forgetConnections();
  }

  it("POL-06: a pod reaches itself by its address and its Service whatever policies say, and other pods do not reach it", async () => {
    for (const pod of ["x/a", "x/c"]) {
      await behind([DENY_X, ...web([pod])], {
        allowed: [...toService(pod), ...inBoth(pod, pod, "80/TCP", "81/UDP", "ICMP")],
        denied: [...toService("x/b"), ...toService("y/a"), ...inBoth("x/b", pod, "80/TCP")],
      });
    }
  });

  it("POL-06 CNP-08: an Admin Deny stops a pod that comes back to itself through its Service, not one that uses its own address", async () => {
    const deny = clusterNetworkPolicy("no-hairpin", {
      tier: "Admin",
      priority: 1,
      subject: { pods: { namespaceSelector: {}, podSelector: A } },
      ingress: [{ action: "Deny", from: [{ namespaces: {} }] }],
    });
    for (const pod of ["x/a", "y/a"]) {
      await behind([deny, ...web([pod])], {
        denied: [...toService(pod), ...toService("x/b")],
        allowed: inBoth(pod, pod, "80/TCP", "81/UDP", "ICMP"),
      });
    }
  });

  it("POD-02: under a default deny a pod reaches itself on localhost and on its own addresses", async () => {
    await lab.apply([...ninePods(lab), DENY_X]);
    const { namespace: pod, addresses } = lab.place("x/a");
    using prober = new Prober(lab.lab);
    const localhost = ["127.0.0.1", "::1"].map((text) => parseAddress(text));
    const to = [...localhost, addresses[4], addresses[6]].map((address) => ({ address, port: OWN_PORT }));
    const flows = (["tcp", "udp"] as const).flatMap((protocol) => to.map((end) => ({ protocol, from: pod, to: end })));
    for (const { protocol, to: end } of flows) prober.listen(protocol, { namespace: pod, ...end });
    const unreached = await lab.inBothStates(async (way) =>
      (await prober.run(flows)).flatMap(({ flow, reached, why }) =>
        reached ? [] : [`br_netfilter ${way}: ${flow.protocol} to ${formatAddress(flow.to.address)}: ${why}`],
      ),
    );
    assert.deepEqual(unreached.flat(), []);
  });

  it("POL-07: no policy separates a pod from its own node, as probes need it; other nodes are like any other peer", async () => {
    const everywhere = ["x", "y", "z"].map((name) => networkPolicy(name, { policyTypes: ["Ingress", "Egress"] }));
    const traffics: readonly Traffic[] = ["80/TCP", "81/TCP", "80/UDP", "80/SCTP", "ICMP"];
    const own = lab.pods.flatMap(({ name }) => [
      ...inBoth(lab.nodeOf(name), name, ...traffics),
      ...inBoth(name, lab.nodeOf(name), ...traffics),
    ]);
    const others = lab.pods.flatMap(({ name }) => {
      const other = lab.nodeOf(name) === "node1" ? "node2" : "node1";
      return [...inBoth(other, name, ...traffics), ...inBoth(name, other, ...traffics)];
    });
    await expectOf(lab, [...ninePods(lab), ...everywhere], { allowed: own, denied: others });
  });

  it("POL-07: a node reaches its own pod through a Service, too", async () => {
    for (const [pod, node, other] of [
      ["x/a", "node1", "node2"],
      ["x/c", "node2", "node1"],
    ] as const) {
      await behind([DENY_X, ...web([pod])], { allowed: toService(node), denied: toService(other) });
    }
  });

  it("POL-07: an isolated pod reaches its own node at the gateway's address on the bridge, too", async () => {
    await lab.apply([...ninePods(lab), DENY_X]);
    listenAll(lab.prober, {
      ...lab.place("node1"),
      addresses: { 4: lab.wired("node1").gateways[0], 6: lab.wired("node1").gateways[1] },
    });
    await expectPackets(lab, {
      allowed: inBoth("x/a", "10.244.1.1", "80/TCP", "80/UDP", "ICMP").concat(
        inBoth("x/a", "fd00:244:1::1", "80/TCP", "80/UDP", "ICMP"),
      ),
    });
  });

  it("POL-27 POL-34: policies check egress to a cluster IP by the endpoint's pod and port", async () => {
    const toB = { to: [{ podSelector: B }] };
    for (const backend of ["x/b", "x/c"]) {
      const to = { to: [{ podSelector: labelled({ pod: backend.slice(-1) }) }] };
      await behind(
        [
          egressOfA({
            ...to,
            ports: [80, 80, 80].map((port, index) => ({ port, protocol: ["TCP", "UDP", "SCTP"][index] })),
          }),
          ...web([backend]),
        ],
        {
          allowed: [...toService("x/a"), ...inBoth("x/a", backend, "80/TCP")],
          denied: inBoth("x/a", "y/b", "80/TCP"),
        },
      );
    }
    await behind([egressOfA({ ...toB, ports: [{ port: SERVICE_PORT }] }), ...web(["x/b"])], {
      denied: toService("x/a"),
    });
    const own = IPS.map((address, index) => ({ ipBlock: { cidr: `${address}/${[32, 128][index]}` } }));
    await behind([egressOfA({ to: own }), ...web(["x/b"])], { denied: toService("x/a") });
    await behind([egressOfA({ to: [inNamespace("y")] }), ...web(["x/b"])], { denied: toService("x/a") });
  });

  it("POL-27 POL-34: policies check ingress by way of a cluster IP by the client and the pod's port", async () => {
    const ports = ["TCP", "UDP", "SCTP"].map((protocol) => ({ protocol, port: 80 }));
    await behind([ingressOfA({ from: [inNamespace("y")], ports }), ...web(["x/a"])], {
      allowed: [...toService("y/a"), ...toService("y/b")],
      denied: [...toService("x/b"), ...toService("z/a")],
    });
    await behind([ingressOfA({ ports: [{ port: SERVICE_PORT }] }), ...web(["x/a"])], { denied: toService("y/a") });
  });

  it("POL-27: policies check a node port's client by its own address on the pod's node, masqueraded or not, and via another node by that node's", async () => {
    const only = (name: string): object =>
      ingressOfA({
        from: textsOf(lab.place(name)).map((address, index) => ({
          ipBlock: { cidr: `${address}/${[32, 128][index]}` },
        })),
      });
    // Both keep the client's address up to the policies; policy Cluster replaces it with the node's after them.
    for (const externalTrafficPolicy of ["Local", "Cluster"]) {
      await behind([only("outside"), ...web(["x/a"], { externalTrafficPolicy })], {
        allowed: toNodePort("outside", "node1"),
        denied: [...toNodePort("stranger", "node1"), ...toNodePort("x/c", "node1")],
      });
      await behind([named(ingressOfX(), "deny"), ...web(["x/a"], { externalTrafficPolicy })], {
        denied: [...toNodePort("outside", "node1"), ...toNodePort("node2", "node1")],
      });
    }
    await behind([only("outside"), ...web(["x/a"])], { denied: toNodePort("outside", "node2") });
    await behind([only("node2"), ...web(["x/a"])], {
      allowed: [...toNodePort("outside", "node2"), ...toNodePort("stranger", "node2")],
      denied: toNodePort("outside", "node1"),
    });
  });

  it("POL-27: policies check connections to a host port by the client and the pod's port", async () => {
    const key = "x/host-port";
    const labels = { pod: "host" };
    const mappings = ["tcp", "udp", "sctp"].map((protocol) => ({ hostPort: 7080, containerPort: 80, protocol }));
    // Where policies may select a pod, the plugin waits for its object.
    await lab.apply([...ninePods(lab), podObject(key, "node1", [], { labels })]);
    const place = await lab.wire({ key, node: "node1" }, { runtimeConfig: { portMappings: mappings } });
    listenAll(lab.prober, place);
    try {
      const pod = podManifest(place, "node1", { labels });
      const [v4, v6] = textsOf(lab.place("outside"));
      const blocks = [{ ipBlock: { cidr: `${v4}/32` } }, { ipBlock: { cidr: `${v6}/128` } }];
      const ports = ["TCP", "UDP", "SCTP"].map((protocol) => ({ protocol, port: 80 }));
      const toHostPort = (from: string) =>
        textsOf(lab.place("node1")).flatMap((address) => inBoth(from, address, "7080/TCP", "7080/UDP", "7080/SCTP"));
      await behind([pod], { allowed: [...toHostPort("outside"), ...toHostPort("stranger"), ...toHostPort("y/b")] });
      await behind([pod, networkPolicy("x", { podSelector: labelled(labels), ingress: [{ from: blocks, ports }] })], {
        allowed: toHostPort("outside"),
        denied: [...toHostPort("stranger"), ...toHostPort("y/b"), ...toHostPort("node2")],
      });
    } finally {
      await lab.unwire(key, "node1");
    }
  });
});
