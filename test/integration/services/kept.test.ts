import assert from "node:assert/strict";
import { setTimeout as pause } from "node:timers/promises";
import { familyOf, parseAddress } from "../../../kernel/ip/address.ts";
import { services as servicesParts } from "../../../policyd/services/rules/services_part.ts";
import { add } from "../../lab/cni.ts";
import type { Lab, LabPod } from "../../lab/lab.ts";
import { twoNodes, type WiredNode } from "../../lab/topology.ts";
import { brokenOf, PushFlow } from "../../support/policy/cuts/push_flow.ts";
import { configured, type DaemonProcess } from "../../support/daemon/policyd.ts";
import { PolicydNode } from "../../support/daemon/policyd_node.ts";
import { expectPackets } from "../../support/policy/lab/expectation.ts";
import { namedLab, type NamedPods, namedPods } from "../../support/policy/lab/named_lab.ts";
import type { PolicyLab } from "../../support/policy/lab/policy_lab.ts";
import { inBoth, type Question, type Traffic } from "../../support/policy/lab/question.ts";
import { listOf, serviceObjects } from "../../support/services/manifest.ts";
import { labelled, networkPolicy } from "../../support/policy/manifest.ts";
import { requireBridgeNetfilter, requireKernel } from "../../support/privilege.ts";
import { kubeProxyRules } from "../../support/services/kube_proxy.ts";
import { pod as apiPod } from "../../support/daemon/api_node.ts";
import { testLab } from "../../support/suite_lab.ts";

const CLUSTER_IPS = ["10.96.0.10", "fd00:96::10"] as const;
const PORT = 8000;
const SERVED: readonly Traffic[] = [`${PORT}/TCP`, `${PORT}/UDP`, `${PORT}/SCTP`];
const PODS: NamedPods = {
  "x/a": { node: "node1", labels: { app: "web" } },
  "x/b": { node: "node1", labels: { app: "db" } },
  "x/c": { node: "node2", labels: { app: "other" } },
};

describe("policies where kube-proxy serves Services", function () {
  this.timeout(300_000);
  let lab: PolicyLab;

  before(async function () {
    requireKernel(this);
    requireBridgeNetfilter(this);
    lab = await namedLab("kube-proxy-kept", PODS, [80], { services: false });
  });
  after(() => lab?.close());

  const toService = (from: string): readonly Question[] =>
    CLUSTER_IPS.flatMap((address) => inBoth(from, address, ...SERVED));

  /** Gives the daemons a Service with one endpoint, which kube-proxy serves on both nodes. */
  async function served(backend: string, ...policies: readonly object[]): Promise<void> {
    const place = lab.place(backend);
    const rules = kubeProxyRules({ clusterIps: CLUSTER_IPS, port: PORT, endpoint: place, targetPort: 80 });
    for (const name of ["node1", "node2"] as const) lab.wired(name).node.exec("nft", ["-f", "-"], rules);
    const ports = (["TCP", "UDP", "SCTP"] as const).map((protocol) => ({ protocol, port: PORT, targetPort: 80 }));
    const objects = serviceObjects("x/web", CLUSTER_IPS, ports, [
      { addresses: place.addresses, nodeName: lab.nodeOf(backend) },
    ]);
    await lab.apply([...namedPods(lab, PODS), ...objects, ...policies]);
  }

  const denyAll = networkPolicy("x", { podSelector: {}, policyTypes: ["Ingress", "Egress"] }, "deny-all");

  it("KEPT-01: all clients reach kube-proxy's Service without a policy, and under a default deny only the pod itself and its node", async () => {
    await served("x/b");
    await expectPackets(lab, { allowed: ["x/a", "x/b", "x/c", "node1"].flatMap(toService) });
    await served("x/b", denyAll);
    await expectPackets(lab, {
      allowed: [...toService("x/b"), ...toService("node1")],
      denied: [...toService("x/a"), ...toService("x/c")],
    });
  });

  it("KEPT-01: policies match clients and endpoints of kube-proxy's Service by their own labels, on one node and across two", async () => {
    for (const [backend, app] of [
      ["x/b", "db"],
      ["x/c", "other"],
    ] as const) {
      const policies = [
        denyAll,
        networkPolicy("x", {
          podSelector: labelled({ app }),
          ingress: [{ from: [{ podSelector: labelled({ app: "web" }) }] }],
        }),
        networkPolicy(
          "x",
          {
            podSelector: labelled({ app: "web" }),
            policyTypes: ["Egress"],
            egress: [
              {
                to: [{ podSelector: labelled({ app }) }],
                ports: ["TCP", "UDP", "SCTP"].map((protocol) => ({ protocol, port: 80 })),
              },
            ],
          },
          "web-egress",
        ),
      ];
      await served(backend, ...policies);
      const stranger = backend === "x/b" ? "x/c" : "x/b";
      await expectPackets(lab, {
        allowed: [...toService("x/a"), ...inBoth("x/a", backend, "80/TCP")],
        denied: [...toService(stranger), ...inBoth("x/a", stranger, "80/TCP")],
      });
    }
  });

  it("KEPT-02: our tables have nothing of Services", () => {
    const parts = servicesParts({ masqueradeBit: 0x1000_0000, tcpReset: false, dropInvalid: true });
    const ofServices = new Set(parts.flatMap(({ sets, chains }) => [...sets, ...chains]).map(({ name }) => name));
    assert.ok(ofServices.size > 10);
    for (const name of ["node1", "node2"] as const) {
      const rules = lab.wired(name).node.exec("nft", ["list", "table", "inet", "drawbridge"]);
      assert.match(rules, /chain masquerade_cluster4 \{/);
      const present = [...rules.matchAll(/^\t(?:set|map|chain) (\S+) \{/gm)].map(([, found]) => found ?? "");
      assert.deepEqual(
        present.filter((found) => ofServices.has(found)),
        [],
      );
      assert.doesNotMatch(rules, /10\.96\.0\.10|fd00:96::10/);
    }
  });
});

describe("a node that changes over from kube-proxy and back", function () {
  this.timeout(300_000);
  let lab: Lab;
  let wired: WiredNode;
  let policyd: PolicydNode;

  beforeEach(function () {
    lab = testLab(this, "kube-proxy-over");
    ({ node1: wired } = twoNodes(lab));
    policyd = new PolicydNode(lab, wired);
  });
  async function start(services: boolean): Promise<DaemonProcess> {
    const fields = { services, minSyncPeriod: "100ms", syncPeriod: "250ms" };
    return await policyd.start([configured(lab.scratch, fields)]);
  }

  function attach(name: string, app: string): LabPod {
    policyd.put(`${name}.json`, JSON.stringify(apiPod(name, app)));
    const pod = lab.pod(name);
    assert.equal(add(wired, pod, policyd.overrides).error, undefined);
    return pod;
  }

  it("KEPT-02: connections that policies allow go on while Services are turned off and on again", async () => {
    const flows: PushFlow[] = [];
    try {
      let daemon = await start(true);
      const [client, server] = [attach("client", "web"), attach("server", "db")];
      const addresses = { 4: parseAddress("10.244.1.3"), 6: parseAddress("fd00:244:1::3") };
      const ports = [{ protocol: "TCP", port: PORT, targetPort: 8080 }] as const;
      const from = { podSelector: labelled({ app: "web" }) };
      const policy = networkPolicy("default", { podSelector: labelled({ app: "db" }), ingress: [{ from: [from] }] });
      const items = [...serviceObjects("default/web", CLUSTER_IPS, ports, [{ addresses, nodeName: "node1" }]), policy];
      policyd.put("web.json", listOf(items));
      await daemon.statusWhen(() => rules().includes("10.96.0.10") && rules("drawbridge-policy").length > 0, "served");
      for (const [to, own] of [
        ...CLUSTER_IPS.map((ip) => [{ address: parseAddress(ip), port: PORT }, 8080] as const),
        [{ address: addresses[4], port: 8081 }, 8081] as const,
      ]) {
        const family = familyOf(to.address);
        flows.push(
          await PushFlow.begin({
            name: `to port ${to.port}`,
            protocol: "tcp",
            client,
            clientAddress: parseAddress(family === 4 ? "10.244.1.2" : "fd00:244:1::2"),
            to,
            server,
            at: { address: addresses[family], port: own },
          }),
        );
      }
      for (const services of [false, true]) {
        await daemon.kill("SIGTERM");
        assert.deepEqual(await brokenOf(flows), []);
        daemon = await start(services);
        await daemon.statusWhen(() => rules().includes("10.96.0.10") === services, `services: ${services}`);
        assert.deepEqual(await brokenOf(flows), []);
      }
    } finally {
      for (const flow of flows) flow.close();
    }
  });

  function rules(table = "drawbridge"): string {
    return wired.node.exec("nft", ["list", "table", "inet", table]);
  }

  it("KEPT-04: rules of kube-proxy beside ours are reported once with the way out, until they are gone, in each of its modes", async () => {
    const places = [
      ["table ip kube-proxy {}", "ip kube-proxy"],
      ["table ip6 kube-proxy {}", "ip6 kube-proxy"],
      ["table ip nat { chain KUBE-SERVICES {}; }", "ip nat KUBE-SERVICES"],
    ] as const;
    wired.node.exec("nft", ["-f", "-"], "table ip nat { chain DOCKER {}; }");
    let daemon = await start(true);
    await pause(500);
    assert.deepEqual(daemon.status().problems, []);
    wired.node.exec("nft", ["-f", "-"], places.map(([text]) => text).join("\n"));
    const { problems } = await daemon.statusWhen(({ problemCount }) => problemCount > 0, "reported");
    assert.match(
      problems.join(),
      /^kube-proxy: rules of kube-proxy are in ip kube-proxy, ip nat KUBE-SERVICES, ip6 kube-proxy: .*kube-proxy --cleanup.*services: false$/,
    );
    await pause(500);
    assert.equal(daemon.log().match(/rules of kube-proxy are in/g)?.length, 1, daemon.log());
    for (const family of ["ip", "ip6"]) wired.node.exec("nft", ["delete", "table", family, "kube-proxy"]);
    await daemon.statusWhen((status) => /are in ip nat KUBE-SERVICES:/.test(status.problems.join()), "one is left");
    wired.node.exec("nft", ["delete", "chain", "ip", "nat", "KUBE-SERVICES"]);
    await daemon.statusWhen(({ problemCount }) => problemCount === 0, "none is left");
    wired.node.exec("nft", ["-f", "-"], "table ip kube-proxy {}");
    await policyd.kill();
    daemon = await start(false);
    await pause(500);
    assert.deepEqual(daemon.status().problems, [], "kube-proxy's rules are wanted there");
  });
});
