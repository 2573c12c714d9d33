import assert from "node:assert/strict";
import { formatAddress, parseAddress, FAMILIES } from "../../../kernel/ip/address.ts";
import { add } from "../../lab/cni.ts";
import type { Lab, LabPod } from "../../lab/lab.ts";
import type { LabNamespace } from "../../lab/namespace.ts";
import { Prober } from "../../lab/probe/prober.ts";
import { type TwoNodes, twoNodes } from "../../lab/topology.ts";
import { askHttp, type HttpAnswer } from "../../support/http.ts";
import { PolicydNode } from "../../support/daemon/policyd_node.ts";
import { testLab } from "../../support/suite_lab.ts";
import { type ManifestEndpoint, serviceManifest, TARGET_PORT } from "../../support/services/manifest.ts";
import { valueWhen } from "../../support/until.ts";

const HEALTH_PORT = 31_999;
const NODE_PORT = 30_588;
const CLUSTER_IPS = ["10.96.0.20", "fd00:96::20"];
const INGRESS = [{ ip: "203.0.113.20" }, { ip: "2001:db8:5::20" }];
const TERMINATING = { ready: false, serving: true, terminating: true };

describe("health checks of Services", function () {
  this.timeout(300_000);
  let lab: Lab;
  let nodes: TwoNodes;
  let policyd: PolicydNode;
  let prober: Prober;
  let pod: LabPod;

  beforeEach(async function () {
    lab = testLab(this, "health-check");
    nodes = twoNodes(lab, { mtu: 1420 });
    policyd = new PolicydNode(lab, nodes.node1);
    prober = new Prober(lab);
    await policyd.start();
    pod = lab.pod("backend");
    assert.equal(add(nodes.node1, pod, policyd.overrides).exitCode, 0);
  });
  const PODS = ["10.244.1.2", "fd00:244:1::2"].map((text) => parseAddress(text));

  function manifest(conditions: ManifestEndpoint["conditions"] | "none", spec = {}): string {
    const endpoints = PODS.map((address) => ({
      address,
      nodeName: "node1",
      ...(conditions === undefined || conditions === "none" ? {} : { conditions }),
    }));
    return serviceManifest(
      "vote",
      CLUSTER_IPS,
      conditions === "none" ? [] : endpoints,
      {
        type: "LoadBalancer",
        externalTrafficPolicy: "Local",
        healthCheckNodePort: HEALTH_PORT,
        status: { loadBalancer: { ingress: INGRESS } },
        ...spec,
      },
      NODE_PORT,
    );
  }

  function ask(from: LabNamespace, family: 4 | 6, path = "/"): HttpAnswer {
    return askHttp(from, formatAddress(nodes.node1.addresses[family === 4 ? 0 : 1]), HEALTH_PORT, path);
  }

  /** Waits until the health check answers with a status in the families; 0 means no answer. */
  async function until(status: number, families: readonly (4 | 6)[] = [4, 6]): Promise<void> {
    await valueWhen(
      () => families.map((family) => ask(nodes.router, family).status),
      (seen) => seen.every((one) => one === status),
      (seen) => `${seen.join(", ")}; expected ${status}`,
    );
  }

  it("LB-14: a load balancer, a pod and the node learn whether the node has a ready pod, as long as the Service has a check", async () => {
    assert.equal(ask(nodes.router, 4).body, "ECONNREFUSED");
    policyd.put("vote.yaml", manifest(undefined));
    await until(200);
    for (const family of FAMILIES) {
      for (const from of [nodes.router, pod, nodes.node1.node]) {
        const { status, headers, body } = ask(from, family, "/any/path?at=all");
        assert.equal(status, 200);
        assert.equal(
          body,
          '{\n\t"service": {\n\t\t"namespace": "default",\n\t\t"name": "vote"\n\t},\n\t"localEndpoints": 1,\n\t"serviceProxyHealthy": true\n}',
        );
        assert.deepEqual(
          ["content-type", "x-content-type-options", "x-load-balancing-endpoint-weight"].map((name) => headers[name]),
          ["application/json", "nosniff", "1"],
        );
      }
    }
    policyd.put("vote.yaml", manifest("none"));
    await until(503);
    assert.deepEqual(JSON.parse(ask(nodes.router, 4).body), {
      service: { namespace: "default", name: "vote" },
      localEndpoints: 0,
      serviceProxyHealthy: true,
    });
    policyd.put("vote.yaml", manifest(undefined, { externalTrafficPolicy: "Cluster" }));
    await until(0);
    policyd.put("vote.yaml", manifest(undefined));
    await until(200);
    policyd.put("vote.yaml", "");
    await until(0);
  });

  it("LB-14 TERM-02: the health check fails while the node's last pod terminates, and the pod's clients are still served", async () => {
    for (const address of PODS) prober.listen("tcp", { namespace: pod, address, port: TARGET_PORT });
    const flows = nodes.node1.addresses.map((address) => ({
      protocol: "tcp" as const,
      from: nodes.router,
      to: { address, port: NODE_PORT },
    }));
    policyd.put("vote.yaml", manifest(undefined));
    await until(200);
    policyd.put("vote.yaml", manifest(TERMINATING));
    await until(503);
    for (const { reached, why } of await prober.run(flows)) assert.ok(reached, why);
  });

  it("LB-14: the daemon reports a health check port that another program has, and takes it as soon as it is free", async () => {
    await policyd.kill();
    const daemon = await policyd.start();
    const other = new Prober(lab);
    const [address] = nodes.node1.addresses;
    other.listen("tcp", { namespace: nodes.node1.node, address, port: HEALTH_PORT });
    policyd.put("vote.yaml", manifest(undefined));
    const { problems } = await daemon.statusWhen(({ problemCount }) => problemCount > 0, "a problem");
    assert.match(problems.join(), /Service default\/vote: healthCheckNodePort 31999: .*EADDRINUSE/);
    await until(200, [6]);
    assert.equal(ask(nodes.router, 4).status, 0);
    other.close();
    await until(200);
    await daemon.statusWhen(({ problemCount }) => problemCount === 0, "no problem");
  });
});
