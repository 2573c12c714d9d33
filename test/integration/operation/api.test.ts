import assert from "node:assert/strict";
import { renameSync, writeFileSync } from "node:fs";
import { setTimeout as pause } from "node:timers/promises";
import type { RawObject } from "../../apiserver/storage.ts";
import { ApiNode, PORT, SERVICE, slice, VIP } from "../../support/daemon/api_node.ts";
import { makeCertificate } from "../../support/certificate.ts";
import { testLab } from "../../support/suite_lab.ts";
import { scrapeWhen } from "../../support/daemon/scrape.ts";
import { until } from "../../support/until.ts";
import { configured } from "../../support/daemon/policyd.ts";
import { labelled, networkPolicy } from "../../support/policy/manifest.ts";

const EVIL_IP = "10.96.255.66";
const POLICY = networkPolicy("default", {
  podSelector: labelled({ app: "web" }),
  ingress: [{ from: [{ podSelector: labelled({ app: "client" }) }] }],
});

describe("a node whose objects come from an API server", function () {
  this.timeout(180_000);
  let node: ApiNode;

  beforeEach(async function () {
    node = new ApiNode(testLab(this, "policyd-api"));
    await node.prepare();
  });
  it("API-04 SVC-26: a daemon waits for an API server that is away, reports it, and programs nothing until it has everything", async () => {
    await node.server.apply(SERVICE, slice("10.244.1.3"));
    await node.server.tell({
      type: "plan",
      faults: [{ on: "any", path: "/api/v1/services", count: 2, fault: { type: "status", status: 503 } }],
    });
    node.start();
    const away = await node.daemon.statusWhen(({ problemCount }) => problemCount > 0, "a problem");
    assert.equal(away.isSynced, false);
    assert.match(away.problems.join("\n"), /^https:\/\/192\.0\.2\.9:6443: connect ECONNREFUSED .*it is tried again/m);
    const empty = node.wired.node.ruleset();
    await node.listen();
    await node.daemon.statusWhen(
      ({ problems }) => problems.some((text) => /services: 503/.test(text)),
      "services are missing",
    );
    assert.equal(node.wired.node.ruleset(), empty);
    const synced = await node.daemon.statusWhen(({ isSynced }) => isSynced, "synced");
    assert.deepEqual([synced.objects["Service"], synced.objects["EndpointSlice"]], [1, 1]);
    await until(() => node.wired.node.ruleset().includes(VIP), "the Service is programmed");
  });

  it("CLAIM-01 CLAIM-04: a daemon reads everything where rules of an earlier one lead the API server's address to a pod", async () => {
    await node.listen();
    node.start();
    await node.untilSynced();
    await node.attachPods();
    await node.untilAnswered("first");
    const evil = { ...SERVICE, metadata: { name: "evil", namespace: "shop" } };
    const spec = { clusterIP: EVIL_IP, clusterIPs: [EVIL_IP], externalIPs: [node.serverAddress] };
    const object = { ...evil, spec: { ...spec, ports: [{ name: "http", protocol: "TCP", port: PORT }] } };
    const endpoints = slice("10.244.1.3");
    const labels = { "kubernetes.io/service-name": "evil" };
    const of = { ...endpoints, metadata: { name: "evil-1", namespace: "shop", labels } };
    await node.server.apply(object, of);
    const refused = 'drawbridge_refused_sockets{claimed_by="Service"}';
    await scrapeWhen(node.wired.node, (values) => values.get(refused) === 1, "the claim is refused");
    // The rest of the Service is served.
    await until(() => node.ruleset().includes(EVIL_IP), "its own address is programmed");
    const reported = /evil: spec\.externalIPs: 192\.0\.2\.9 TCP 6443 is protected for the API server/;
    await until(() => reported.test(node.daemon.log()), "the claim is in the log");
    assert.equal(await node.asksAPod(), false);
    await node.daemon.kill("SIGKILL");
    // A daemon without protection has a rule that translates the address, and none that keeps it.
    for (const hook of ["output", "prerouting"]) {
      const rule = `ip daddr ${node.serverAddress} tcp dport ${PORT} dnat ip to 10.244.1.3:8080`;
      node.wired.node.exec("nft", ["flush", "chain", "inet", "drawbridge", `kept_${hook}`]);
      node.wired.node.exec("nft", ["insert", "rule", "inet", "drawbridge", `nat_${hook}`, ...rule.split(" ")]);
    }
    assert.equal(await node.asksAPod(), true, "without our defence the attack works");
    // The Service is deleted, and no daemon can learn of it.
    await node.server.apply({ ...object, isGone: true }, { ...of, isGone: true });
    assert.equal(await node.asksAPod(), true);
    node.start();
    await node.untilSynced();
    await node.daemon.statusWhen(({ objects }) => objects["Service"] === 1, "the Service is gone");
    for (let left = 500; /drawbridge-kept|dnat ip to 10\.244/.test(node.ruleset()); left--) {
      if (left === 0) assert.fail(`neither the earlier rule nor the early table is left: ${node.ruleset()}`);
      await pause(20);
    }
    assert.equal(await node.asksAPod(), false);
    await until(
      () => node.daemon.log().includes("led elsewhere and are forgotten"),
      "earlier connections are forgotten",
    );
  });

  it("API-04: a Service and a policy follow the API server, stay while it is away, also over a restart, and catch up", async () => {
    await node.listen();
    node.start();
    await node.untilSynced();
    await node.attachPods();
    await node.untilAnswered("first");
    await node.server.apply({
      ...POLICY,
      spec: { podSelector: { matchLabels: { app: "first" } }, policyTypes: ["Ingress"] },
    });
    await node.untilAnswered("");
    await node.server.apply(slice("10.244.1.4"));
    await node.untilAnswered("second");
    await node.server.tell({ type: "down" });
    await node.daemon.statusWhen(({ problems }) => problems.some((text) => /ECONNREFUSED/.test(text)), "away");
    const { objects } = node.daemon.status();
    await node.server.apply(slice("10.244.1.3"), { ...POLICY, isGone: true });
    assert.equal(await node.answer(), "second");
    assert.deepEqual(node.daemon.status().objects, objects);
    const stale = 'drawbridge_api_staleness_seconds{resource="endpointslices.discovery.k8s.io"}';
    await scrapeWhen(node.wired.node, (values) => (values.get(stale) ?? 0) > 0, "the metric says how old it is");
    await node.daemon.kill("SIGKILL");
    node.start();
    await node.daemon.statusWhen(({ problemCount }) => problemCount > 0, "away");
    assert.equal(await node.answer(), "second");
    await node.listen();
    await node.untilAnswered("first");
  });

  it("POL-58: a daemon that starts after a namespace has gone closes the pods that it had there, and says so (CVE-2024-7598)", async () => {
    await node.listen();
    node.start();
    await node.untilSynced();
    await node.attachPods();
    await node.untilAnswered("first");
    await node.daemon.kill("SIGKILL");
    await node.server.apply({ apiVersion: "v1", kind: "Namespace", metadata: { name: "default" }, isGone: true });
    node.start();
    const closed = /pod default\/\w+ sends and receives nothing: the namespace of default\/\w+ was being deleted/;
    await node.daemon.statusWhen(({ problems }) => problems.filter((one) => closed.test(one)).length === 3, "closed");
    await node.untilAnswered("");
  });

  it("API-15: a daemon gives up a connection whose other end has silently gone, and catches up with what it missed", async () => {
    await node.listen();
    node.start();
    await node.untilSynced();
    await node.attachPods();
    await node.untilAnswered("first");
    const drop = `table inet cut { chain input { type filter hook input priority 0; tcp dport ${PORT} drop; }; }`;
    node.router.exec("nft", ["-f", "-"], drop);
    await node.server.apply(slice("10.244.1.4"));
    await until(
      () => /ETIMEDOUT|no answer in time/.test(node.daemon.status().problems.join("\n")),
      () => `given up: ${node.daemon.log()}`,
      120000,
    );
    assert.equal(node.daemon.status().objects["EndpointSlice"], 1);
    node.router.exec("nft", ["delete", "table", "inet", "cut"]);
    await node.untilAnswered("second");
    await node.daemon.statusWhen(({ problemCount }) => problemCount === 0, "no problem");
  });

  it("API-21 SVC-25: without rules of Services the daemon finds the API server by the kubelet's kubeconfig, reads its token from files, and follows the address in a file that replaces it", async () => {
    const replace = (port: number): void => {
      const config = { clusters: [{ name: "k", cluster: { server: `https://${node.serverAddress}:${port}` } }] };
      writeFileSync(`${node.directory}/.new`, JSON.stringify({ apiVersion: "v1", kind: "Config", ...config }));
      renameSync(`${node.directory}/.new`, `${node.directory}/kubelet.conf`);
    };
    await node.listen();
    replace(PORT);
    const fields = {
      kubeletKubeconfig: `${node.directory}/kubelet.conf`,
      serviceAccountDirectory: `${node.directory}/account`,
    };
    assert.doesNotMatch(node.wired.node.ruleset(), /table/);
    node.start([configured(node.directory, fields)]);
    await node.untilSynced();
    await node.attachPods();
    await node.untilAnswered("first");
    assert.deepEqual(node.daemon.status().problems, []);
    await node.server.tell({ type: "down" });
    await node.daemon.statusWhen(({ problems }) => problems.some((text) => /ECONNREFUSED/.test(text)), "away");
    const certificate = makeCertificate("server", node.authority, node.serverAddress);
    await node.server.tell({ type: "listen", address: node.serverAddress, port: PORT + 1, certificate });
    await node.server.apply(slice("10.244.1.4"));
    replace(PORT + 1);
    await node.untilAnswered("second");
    const reports = node.daemon.log().match(/https:\S+, read from \S+kubelet\.conf/g) ?? [];
    const of = (port: number): string =>
      `https://${node.serverAddress}:${port}, read from ${node.directory}/kubelet.conf`;
    assert.deepEqual(reports, [of(PORT), of(PORT + 1)]);
  });

  it("CNP-13 CNP-17: a ClusterNetworkPolicy denies within 5 s of its CRD, through changes of the version, until its CRD is gone", async () => {
    const policy = (version: string): RawObject => ({
      apiVersion: `policy.networking.k8s.io/${version}`,
      kind: "ClusterNetworkPolicy",
      metadata: { name: "closed" },
      spec: {
        tier: "Admin",
        priority: 1,
        subject: { pods: { namespaceSelector: {}, podSelector: { matchLabels: { app: "first" } } } },
        ingress: [{ action: "Deny", from: [{ namespaces: {} }] }],
      },
    });
    const define = (versions: readonly string[], lag?: number): Promise<unknown> =>
      node.server.tell({ type: "define", definition: { versions, ...(lag === undefined ? {} : { lag }) } });
    await define([]);
    await node.listen();
    await node.server.apply({ apiVersion: "v1", kind: "Namespace", metadata: { name: "default" } });
    node.start();
    await node.untilSynced();
    await node.attachPods();
    await node.untilAnswered("first");
    await define(["v1alpha2"], 1000);
    await node.server.apply(policy("v1alpha2"));
    const installed = performance.now();
    await node.untilAnswered("");
    const took = performance.now() - installed;
    assert.ok(took < 5000, `${took.toFixed(0)} ms`);
    for (const versions of [["v1beta1", "v1alpha2"], ["v1beta1"], ["v1alpha2"], ["v1"]]) {
      await define(versions, 200);
      for (const end = performance.now() + 1500; performance.now() < end;) {
        assert.equal(await node.answer(), "", `denied while ${versions.join(" and ")} are served`);
      }
    }
    await define([]);
    await node.untilAnswered("first");
    const lines = node.daemon.log().match(/ClusterNetworkPolicy: the API server \S+ \S+/g) ?? [];
    assert.deepEqual(
      lines.map((line) => line.split(" ").slice(-2).join(" ")),
      ["serves it", "serves it", "serves it", "does not"],
    );
  });
});
