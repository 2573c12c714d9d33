import assert from "node:assert/strict";
import { setTimeout as pause } from "node:timers/promises";
import { parseAddress } from "../../../kernel/ip/address.ts";
import { add } from "../../lab/cni.ts";
import { createLab, type Lab, type LabPod } from "../../lab/lab.ts";
import { Prober } from "../../lab/probe/prober.ts";
import { twoNodes, type WiredNode } from "../../lab/topology.ts";
import { PolicydNode } from "../../support/daemon/policyd_node.ts";
import { requireKernel } from "../../support/privilege.ts";

const SERVICE = `
apiVersion: v1
kind: Service
metadata: {name: web, namespace: default}
spec:
  type: ClusterIP
  clusterIP: 10.96.0.10
  clusterIPs: [10.96.0.10, "fd00:96::10"]
  ipFamilies: [IPv4, IPv6]
  ports: [{name: http, protocol: TCP, port: 80, targetPort: 8080}]
`;

/** Returns a slice of the Service with one endpoint. */
function slice(family: "IPv4" | "IPv6", address: string): string {
  return `---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: web-${family.toLowerCase()}, namespace: default, labels: {kubernetes.io/service-name: web}}
addressType: ${family}
ports: [{name: http, protocol: TCP, port: 8080}]
endpoints: [{addresses: ["${address}"], conditions: {ready: true}, nodeName: node1}]
`;
}

describe("Services of a node with policyd", function () {
  this.timeout(60_000);
  let lab: Lab;
  let wired: WiredNode;
  let policyd: PolicydNode;
  let prober: Prober;
  let client: LabPod;

  beforeEach(async function () {
    requireKernel(this);
    lab = createLab("policyd-services");
    ({ node1: wired } = twoNodes(lab, { mtu: 1420 }));
    policyd = new PolicydNode(lab, wired);
    await policyd.start();
    prober = new Prober(lab.calls);
    client = attach("client");
    for (const [name, number] of [
      ["first", 3],
      ["second", 4],
    ] as const) {
      const namespace = attach(name);
      for (const text of [`10.244.1.${number}`, `fd00:244:1::${number}`]) {
        prober.listen("tcp", { namespace, address: parseAddress(text), port: 8080 });
      }
    }
  });
  afterEach(async () => {
    prober?.close();
    await policyd?.kill();
    lab?.destroy();
  });

  function attach(name: string): LabPod {
    const pod = lab.pod(name);
    assert.equal(add(wired, pod, policyd.overrides).exitCode, 0);
    return pod;
  }

  /** Returns which pods answer at the cluster IPs of both families, or "" for none. */
  async function answers(): Promise<readonly string[]> {
    const flows = ["10.96.0.10", "fd00:96::10"].map((text) => ({
      protocol: "tcp" as const,
      from: client,
      to: { address: parseAddress(text), port: 80 },
    }));
    const results = await prober.run(flows, { timeoutMilliseconds: 300 });
    return results.map(({ reached, seenBy }) => (reached ? (seenBy?.name ?? "") : ""));
  }

  async function until(expected: readonly string[]): Promise<void> {
    for (let left = 100; ; left--) {
      const found = await answers();
      if (String(found) === String(expected)) return;
      assert.ok(left > 0, `${String(found)}; expected ${String(expected)}`);
      await pause(20);
    }
  }

  it("SVC-09: a Service follows its objects, survives a restart of the daemon, and ends with its objects", async () => {
    assert.deepEqual(await answers(), ["", ""]);
    policyd.put("web.yaml", SERVICE + slice("IPv4", "10.244.1.3") + slice("IPv6", "fd00:244:1::3"));
    await until(["first", "first"]);
    policyd.put("web.yaml", SERVICE + slice("IPv4", "10.244.1.4") + slice("IPv6", "fd00:244:1::3"));
    await until(["second", "first"]);
    await policyd.kill();
    assert.deepEqual(await answers(), ["second", "first"], "what is in force stays");
    await policyd.start();
    assert.deepEqual(await answers(), ["second", "first"]);
    policyd.put("web.yaml", "");
    await until(["", ""]);
    assert.doesNotMatch(wired.node.exec("nft", ["list", "ruleset"]), /10\.96\.0\.10/);
  });

  it("NE-02: a Service without endpoints is refused, not left waiting", async () => {
    // Otherwise the kernel answers one client by ICMP once a second at most.
    wired.node.writeSysctl("net/ipv4/icmp_ratelimit", "0");
    policyd.put("web.yaml", SERVICE);
    const flow = { protocol: "tcp" as const, from: client, to: { address: parseAddress("10.96.0.10"), port: 80 } };
    for (let left = 10; ; left--) {
      // Within one machine the first refusal comes back while connect(2) still holds the socket. Only the refusal of
      // the second SYN counts, a second later.
      const [result] = await prober.run([flow], { timeoutMilliseconds: 3000 });
      if (/refused/i.test(result?.why ?? "")) return;
      assert.ok(left > 0, result?.why);
      await pause(20);
    }
  });
});
