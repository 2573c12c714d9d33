import { withoutDynamicSets } from "../../support/nftables/listing.ts";
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { type Address, formatAddress, parseAddress, FAMILIES } from "../../../kernel/ip/address.ts";
import { cidrContains, parseCidr } from "../../../kernel/ip/cidr.ts";
import { TUNNEL } from "../../../policyd/routes/tunnel.ts";
import type { RawObject } from "../../apiserver/storage.ts";
import { Cluster, type ClusterPod, namespaceObject } from "../../lab/cluster/cluster.ts";
import type { ClusterNode } from "../../lab/cluster/cluster_node.ts";
import { addressOf, ClusterProbes, flowTo, PORT } from "../../support/cluster/probes.ts";
import type { LabNamespace } from "../../lab/namespace.ts";
import type { Flow } from "../../lab/probe/prober.ts";
import { requireKernel } from "../../support/privilege.ts";
import { ours } from "../../support/routes/route_lab.ts";
import { until } from "../../support/until.ts";
import { labelled, networkPolicy } from "../../support/policy/manifest.ts";
import { serviceObjects } from "../../support/services/manifest.ts";

const VIPS = { 4: parseAddress("10.96.0.10"), 6: parseAddress("fd00:96::10") };
const SERVICE_PORT = 80;
const NODE_PORT = 30_080;
/** Ports of DNS, etcd, the API server and the kubelet, and a node port that no Service of this test has. */
const CLUSTER_PORTS = [53, 2379, 2380, 6443, 10_250, 30_999];

describe("three nodes, each with a policyd that has only the rights of the DaemonSet", function () {
  this.timeout(300_000);
  let cluster: Cluster;
  let probes: ClusterProbes;
  let nodes: readonly ClusterNode[] = [];
  /** The pods of the Service, one on each node. */
  let web: readonly ClusterPod[] = [];

  before(async function () {
    requireKernel(this);
    cluster = await Cluster.start("cluster");
    probes = new ClusterProbes(cluster);
    nodes = [await cluster.addNode("node1"), await cluster.addNode("node2"), await cluster.addNode("node3", "behind")];
    await cluster.untilReady();
    web = await Promise.all(nodes.map(({ name }) => startPod(`web-${name}`, name, { app: "web" })));
    await cluster.apply(serviceObject());
    for (const node of nodes) probes.listen(node);
  });
  after(() => cluster?.stop());

  async function startPod(
    name: string,
    node: string,
    labels: Readonly<Record<string, string>>,
    namespace = "default",
  ): Promise<ClusterPod> {
    const pod = await cluster.createPod({ name, node, labels, namespace });
    probes.listen(pod);
    return pod;
  }

  function vip(family: 4 | 6): { readonly address: Address; readonly port: number } {
    return { address: VIPS[family], port: SERVICE_PORT };
  }

  it("FLEET-01 DEPLOY-05 SVC-25: each daemon has only NET_ADMIN, a read-only root and the profile, and finds the API server without Services", () => {
    for (const { daemon } of nodes) {
      const status = readFileSync(`/proc/${daemon.child.pid}/status`, "utf8");
      const field = (name: string): string | undefined => new RegExp(`^${name}:\\s*(\\S+)$`, "m").exec(status)?.[1];
      assert.deepEqual(
        [field("CapEff"), field("CapBnd"), field("NoNewPrivs"), field("Seccomp")],
        ["0000000000001000", "0000000000001000", "1", "2"],
      );
      const root = readFileSync(`/proc/${daemon.child.pid}/mountinfo`, "utf8")
        .split("\n")
        .find((line) => line.split(" ")[4] === "/");
      assert.match(root ?? "", / \/ ro,/);
    }
  });

  it("POD-03 POD-04 POD-17 POD-21: pods have addresses of their node's CIDRs, and pods and nodes see each other's own addresses", async () => {
    const all = [...web, ...nodes];
    const pairs = all.flatMap((from) => all.filter((to) => to !== from).map((to) => [from, to] as const));
    const local = pairs.filter(([from, to]) => nodeName(from) === nodeName(to));
    const remote = pairs.filter((pair) => !local.includes(pair));
    for (const [index, pod] of web.entries()) {
      for (const [i, family] of FAMILIES.entries()) {
        assert.ok(cidrContains(parseCidr(nodes[index]?.podCidrs[i] ?? ""), addressOf(pod, family)));
      }
    }
    // Pods see their own node with their gateway's address.
    for (const family of FAMILIES) {
      await probes.untilReached(local.map(([from, to]) => flowTo(from, to, family)));
      const results = await probes.untilReached(remote.map(([from, to]) => flowTo(from, to, family)));
      for (const [index, [from, to]] of remote.entries()) {
        const { seenSource } = results[index] ?? {};
        assert.equal(seenSource, addressOf(from, family), `${from.name} to ${to.name}`);
      }
    }
    const dropped = cluster.fabric.droppedPackets();
    await probes.untilReached(remote.map(([from, to]) => flowTo(from, to, 4)));
    assert.equal(cluster.fabric.droppedPackets(), dropped, "the router sees no packet with a pod's address");
  });

  it("FLEET-01 SVC-19: a Service's pods on all nodes answer every pod and node at its addresses, and the outside at node ports", async () => {
    for (const family of FAMILIES) {
      for (const from of [...web.map(({ pod }) => pod), ...nodes.map(({ namespace }) => namespace)]) {
        await probes.untilAnsweredBy(from, vip(family), web);
      }
      for (const node of nodes) {
        const to = { address: addressOf(node, family), port: NODE_PORT };
        await probes.untilAnsweredBy(cluster.fabric.router, to, web);
      }
    }
  });

  it("FLEET-01 SVC-01: when pods of a Service come and go, every node sends to exactly the pods that are there", async () => {
    const [first, , last] = web;
    assert.ok(first !== undefined && last !== undefined);
    const another = await startPod("web-another", "node2", { app: "web" });
    await probes.untilAnsweredBy(last.pod, vip(4), [...web, another]);
    await cluster.deletePod(another);
    for (const { pod } of web) await probes.untilAnsweredBy(pod, vip(4), web);
    const [node] = nodes;
    await until(
      () => node?.daemon.status().objects["Pod"] === web.length,
      () => JSON.stringify(node?.daemon.status()),
    );
  });

  it("FLEET-01 POL-02 POL-22 POL-28: isolation and peers by namespaces and labels hold for pods of all nodes, and follow every change", async () => {
    await cluster.apply(namespaceObject("shop", { team: "shop" }), namespaceObject("guest"));
    const at = (index: number): string => nodes[index]?.name ?? "";
    const db = await startPod("db", at(0), { app: "db" }, "shop");
    const shop = await Promise.all(
      nodes.map(({ name }) => startPod(`client-${name}`, name, { app: "client" }, "shop")),
    );
    const guest = await startPod("guest", at(2), {}, "guest");
    const toDb = (pods: readonly ClusterPod[]) =>
      pods.flatMap((pod) => FAMILIES.map((family) => flowTo(pod, db, family)));
    await probes.untilReached(toDb([...shop, guest, ...web]));
    await cluster.apply(policy("deny", { policyTypes: ["Ingress"] }));
    await probes.untilRefused(toDb([...shop, guest, ...web]));
    await cluster.apply(
      policy("team", { ingress: [{ from: [{ namespaceSelector: { matchLabels: { team: "shop" } } }] }] }),
    );
    await probes.untilReached(toDb(shop));
    await probes.untilRefused(toDb([guest, ...web]));
    // This does the same as `kubectl label namespace guest team=shop` and its reverse.
    await cluster.apply(namespaceObject("guest", { team: "shop" }));
    await probes.untilReached(toDb([...shop, guest]));
    await cluster.apply(namespaceObject("guest"));
    await probes.untilRefused(toDb([guest, ...web]));
    await cluster.deletePod(guest);
    await cluster.delete(policy("deny", {}), policy("team", {}));
    await probes.untilReached(toDb([...shop, ...web]));
    for (const pod of [db, ...shop]) await cluster.deletePod(pod);
  });

  it("PORT-01: with everything denied to every pod, the nodes' own ports stay open to nodes and to the outside", async () => {
    const denial = { spec: { podSelector: {}, policyTypes: ["Ingress", "Egress"] } };
    await cluster.apply({ ...policy("nothing", {}), metadata: { name: "nothing", namespace: "default" }, ...denial });
    const [first, second] = web;
    assert.ok(first !== undefined && second !== undefined);
    await probes.untilRefused(FAMILIES.map((family) => flowTo(first, second, family)));
    const flows = nodes.flatMap((node) =>
      FAMILIES.flatMap((family) =>
        CLUSTER_PORTS.flatMap((port) => {
          const address = addressOf(node, family);
          probes.prober.listen("tcp", { namespace: node.namespace, address, port });
          const others = nodes.filter((one) => one !== node).map(({ namespace }) => namespace);
          return [cluster.fabric.router, ...others].map((from): Flow => ({
            protocol: "tcp",
            from,
            to: { address, port },
          }));
        }),
      ),
    );
    await probes.untilReached(flows);
    await cluster.delete({ ...policy("nothing", {}), metadata: { name: "nothing", namespace: "default" } });
    await probes.untilReached(FAMILIES.map((family) => flowTo(first, second, family)));
  });

  it("PORT-02: the daemon listens only on its documented ports, which are neither the cluster's ports nor node ports", () => {
    const documented = readFileSync("docs/configuration.md", "utf8");
    for (const { namespace, daemon } of nodes) {
      const lines = namespace.exec("ss", ["-Hltnp"]).split("\n");
      const ports = lines
        .filter((line) => line.includes(`pid=${daemon.child.pid},`))
        .map((line) => Number(/:(\d+)\s/.exec(line)?.[1]));
      assert.ok(ports.includes(9873), lines.join("\n"));
      for (const port of ports) {
        assert.ok(documented.includes(`:${port}\``), `${port} is documented`);
        assert.ok(!CLUSTER_PORTS.includes(port) && (port < 30_000 || port > 32_767), `${port}`);
      }
    }
  });

  it("FLEET-02 D1 POD-17 D5: a node joins, takes pods once its daemon is ready, is drained and leaves without a trace on the others", async () => {
    const others = nodes;
    const before = others.map(({ namespace }) => ours(namespace));
    const node = await cluster.addNode("node4", "behind");
    await assert.rejects(cluster.createPod({ name: "early", node: "node4" }), /node4: cni plugin not initialized/);
    await cluster.delete({ apiVersion: "v1", kind: "Pod", metadata: { name: "early", namespace: "default" } });
    await cluster.untilReady("node4");
    probes.listen(node);
    const pod = await startPod("web-node4", "node4", { app: "web" });
    for (const family of FAMILIES) {
      await probes.untilReached(
        [...web, ...others].flatMap((one) => [flowTo(one, pod, family), flowTo(pod, one, family)]),
      );
    }
    for (const one of web) await probes.untilAnsweredBy(one.pod, vip(6), [...web, pod]);
    await probes.untilAnsweredBy(pod.pod, vip(4), [...web, pod]);
    const own = new RegExp(
      `10\\.244\\.4\\.|fd00:244:4::|${formatAddress(addressOf(node, 4)).replaceAll(".", "\\.")}\\b`,
    );
    for (const { namespace } of others) assert.match(ours(namespace), own);

    await cluster.drain("node4");
    for (const one of web) await probes.untilAnsweredBy(one.pod, vip(4), web);
    assert.deepEqual(
      cluster.pods.filter(({ nodeName: name }) => name === "node4"),
      [],
    );
    await until(
      () => node.daemon.status().attachments === 0,
      () => JSON.stringify(node.daemon.status()),
    );
    await cluster.removeNode("node4");
    for (const [index, { namespace }] of others.entries()) {
      await until(
        () => ours(namespace) === before[index],
        () => `${namespace.name}:\n${ours(namespace)}\nexpected\n${before[index]}`,
      );
      assert.doesNotMatch(namespace.exec("bridge", ["fdb", "show", "dev", TUNNEL.name]), own);
      await until(
        () => !own.test(claimedRules(namespace)),
        () => `${namespace.name}: rules of a node that has left:\n${claimedRules(namespace)}`,
      );
    }
    await probes.untilReached(web.flatMap((from) => web.filter((to) => to !== from).map((to) => flowTo(from, to, 4))));
  });

  it("FLEET-01 DEPLOY-03: the rights of the manifest cover every request of the daemons, and no daemon reports a problem", async () => {
    assert.deepEqual(await cluster.refused(), []);
    for (const { daemon, name } of nodes) {
      assert.deepEqual(daemon.status().problems, [], name);
      assert.doesNotMatch(daemon.log(), /"level":"error"|unexpected error/, name);
    }
  });
});

/** Returns the ruleset without what packets have written, such as counts of connections, which end after a day. */
function claimedRules(namespace: LabNamespace): string {
  return withoutDynamicSets(namespace.ruleset());
}

function nodeName(of: ClusterPod | ClusterNode): string {
  return "nodeName" in of ? of.nodeName : of.name;
}

function serviceObject(): RawObject {
  const clusterIps = FAMILIES.map((family) => formatAddress(VIPS[family]));
  const ports = [{ name: "http", protocol: "TCP", port: SERVICE_PORT, targetPort: PORT, nodePort: NODE_PORT }] as const;
  return serviceObjects("default/web", clusterIps, ports, [], { selector: { app: "web" } })[0];
}

/** Returns a policy for the pods with app=db in the namespace shop. */
function policy(name: string, spec: Readonly<Record<string, unknown>>): RawObject {
  return networkPolicy("shop", { podSelector: labelled({ app: "db" }), policyTypes: ["Ingress"], ...spec }, name);
}
