import assert from "node:assert/strict";
import { NodeJudge } from "../../../../../objects/nodes/node_judge.ts";
import { ProtectedSocketIndex } from "../../../../../policyd/protection/socket_index.ts";
import { serviceProxy } from "../../../../support/services/proxy.ts";
import { inTurn } from "../../../../support/node/in_turn.ts";
import { parseAddress } from "../../../../../kernel/ip/address.ts";
import { parseCidr } from "../../../../../kernel/ip/cidr.ts";
import {
  healthAnswer,
  type HealthCheck,
  healthCheckOf,
  isProxyHealthy,
} from "../../../../../policyd/services/health_check/health_check.ts";
import { answeringAddresses } from "../../../../../policyd/services/health_check/listening_addresses.ts";
import { indexed, readScenario } from "../../../../support/services/scenario.ts";

const LOCAL = { type: "LoadBalancer", externalTrafficPolicy: "Local", healthCheckNodePort: 30_999 };

interface EndpointSpec {
  readonly address: string;
  readonly nodeName?: string;
  readonly conditions?: Readonly<Record<string, boolean>>;
}

/** The health check of a dual-stack Service with two ports on node1. */
function checkOf(endpoints: readonly EndpointSpec[], spec: object = {}): HealthCheck | undefined {
  const ports = [
    { name: "web", port: 80 },
    { name: "dns", port: 53, protocol: "UDP" },
  ];
  const service = {
    apiVersion: "v1",
    kind: "Service",
    metadata: { name: "s", namespace: "n" },
    spec: { clusterIPs: ["10.96.0.1", "fd00:96::1"], ports, ...LOCAL, ...spec },
  };
  const slices = (["IPv4", "IPv6"] as const).map((addressType) => ({
    apiVersion: "discovery.k8s.io/v1",
    kind: "EndpointSlice",
    metadata: { name: addressType.toLowerCase(), namespace: "n", labels: { "kubernetes.io/service-name": "s" } },
    addressType,
    ports: ports.map((port) => ({ ...port, port: port.port + 8000 })),
    endpoints: endpoints
      .filter(({ address }) => address.includes(":") === (addressType === "IPv6"))
      .map(({ address, nodeName = "node1", ...rest }) => ({ addresses: [address], nodeName, ...rest })),
  }));
  const objects = readScenario([service, ...slices].map((object) => `---\n${JSON.stringify(object)}\n`).join(""));
  const { index, context } = indexed(objects, "node1");
  const read = index.service("n/s");
  return read === undefined ? assert.fail() : healthCheckOf(read, index.slicesOf("n/s"), context);
}

function manifestOf(kind: string, metadata: object, rest: object): string {
  const apiVersion = kind === "Node" ? "v1" : "discovery.k8s.io/v1";
  return JSON.stringify({ apiVersion, kind, metadata, ...rest });
}

function counts(endpoints: readonly EndpointSpec[]): readonly (number | undefined)[] {
  const { localEndpoints } = checkOf(endpoints) ?? assert.fail();
  return [localEndpoints.get(4), localEndpoints.get(6)];
}

describe("services/health_check: ports, addresses and answers", () => {
  it("LB-14: ready endpoints of this node count, each address once, separately in each family", () => {
    assert.deepEqual(
      counts([
        { address: "10.244.1.2" },
        { address: "10.244.1.3" },
        { address: "10.244.2.4", nodeName: "node2" },
        { address: "fd00:244:1::2" },
      ]),
      [2, 1],
    );
  });

  it("CLAIM-01 LB-14: a Service has no check at a protected port, which is reported, and loses one where an API server comes", () => {
    const judge = new NodeJudge({ nodeName: "node1" });
    const ports = [{ protocol: "TCP", port: 10_250, owner: "the kubelet" }] as const;
    const protection = new ProtectedSocketIndex({ ports, sockets: [] }, judge);
    const checks = new Map<string, number | undefined>();
    const proxy = serviceProxy({
      nodeName: "node1",
      protection,
      followers: [
        {
          replace: (key, served) =>
            void checks.set(key, served && healthCheckOf(served.service, served.slices, served.context)?.port),
        },
      ],
    });
    const { apply } = inTurn(judge, protection, proxy);
    const set = (text: string): void =>
      apply(readScenario(text).map((object) => ({ type: "set", kind: object.kind, key: object.key, object })));
    const service = (name: string, address: string, port: number): string =>
      JSON.stringify({
        apiVersion: "v1",
        kind: "Service",
        metadata: { name, namespace: "n" },
        spec: { clusterIPs: [address], ports: [{ port: 80 }], ...LOCAL, healthCheckNodePort: port },
      });
    set(
      manifestOf("Node", { name: "node1" }, { status: { addresses: [{ type: "InternalIP", address: "192.0.2.1" }] } }),
    );
    set(service("evil", "10.96.0.1", 10_250));
    set(service("good", "10.96.0.2", 30_001));
    assert.deepEqual(
      [...checks],
      [
        ["n/evil", undefined],
        ["n/good", 30_001],
      ],
    );
    const refused = "is protected for the kubelet: it is not served there; all else of the Service is";
    assert.deepEqual(proxy.problems(), [`Service n/evil: spec.healthCheckNodePort: TCP 10250 ${refused}`]);
    const labels = { "kubernetes.io/service-name": "kubernetes" };
    const endpoints = [{ addresses: ["192.0.2.1"] }];
    set(
      manifestOf(
        "EndpointSlice",
        { name: "kubernetes", labels },
        { addressType: "IPv4", ports: [{ port: 30_001 }], endpoints },
      ),
    );
    assert.equal(checks.get("n/good"), undefined);
    assert.equal(proxy.problems().length, 2);
  });

  it("LB-14 TERM-02: endpoints that are terminating or not ready do not count, even if they still serve", () => {
    assert.deepEqual(
      counts([
        { address: "10.244.1.2", conditions: { ready: false, serving: true, terminating: true } },
        { address: "10.244.1.3", conditions: { ready: false, serving: false, terminating: false } },
        { address: "fd00:244:1::2", conditions: { ready: true } },
      ]),
      [0, 1],
    );
  });

  it("LB-14: only a LoadBalancer Service with policy Local and a number has a check, in its own families", () => {
    assert.equal(checkOf([])?.port, 30_999);
    for (const spec of [
      { type: "NodePort" },
      { externalTrafficPolicy: "Cluster" },
      { healthCheckNodePort: 0 },
      { clusterIPs: ["None"] },
    ]) {
      assert.equal(checkOf([], spec), undefined, JSON.stringify(spec));
    }
    assert.deepEqual([...(checkOf([], { clusterIPs: ["fd00:96::1"] })?.localEndpoints.keys() ?? [])], [6]);
  });

  it("LB-14: the answer is kube-proxy's, and 200 requires an endpoint and a healthy proxy", () => {
    const name = { namespace: "n", name: "s" };
    const statuses = [
      healthAnswer(name, 1, true),
      healthAnswer(name, 0, true),
      healthAnswer(name, 1, false),
      healthAnswer(name, 0, false),
    ].map(({ status }) => status);
    assert.deepEqual(statuses, [200, 503, 503, 503]);
    assert.deepEqual(healthAnswer(name, 3, false), {
      status: 503,
      headers: {
        "Content-Type": "application/json",
        "X-Content-Type-Options": "nosniff",
        "X-Load-Balancing-Endpoint-Weight": "3",
      },
      body: `{\n\t"service": {\n\t\t"namespace": "n",\n\t\t"name": "s"\n\t},\n\t"localEndpoints": 3,\n\t"serviceProxyHealthy": false\n}`,
    });
  });

  it("LB-14: the proxy is healthy while the kernel has all rules, or lacks some for less than two periods", () => {
    assert.ok(isProxyHealthy({ isReconciled: true, pendingSince: undefined }, 100_000, 30_000));
    assert.ok(isProxyHealthy({ isReconciled: false, pendingSince: 100_000 }, 159_999, 30_000));
    assert.ok(!isProxyHealthy({ isReconciled: false, pendingSince: 100_000 }, 160_000, 30_000));
    assert.ok(
      !isProxyHealthy({ isReconciled: false, pendingSince: undefined }, 0, 30_000),
      "not before the first write",
    );
  });

  it("LB-14 NODE-04: checks are answered on all addresses, or on those of the node that serve NodePorts", () => {
    const present = ["127.0.0.1", "192.0.2.1", "198.51.100.1", "::1", "2001:db8::1", "fe80::1"].map((text) =>
      parseAddress(text),
    );
    const [, first, , , second] = present;
    assert.ok(first !== undefined && second !== undefined);
    const any = ["0.0.0.0", "::"].map((text) => parseAddress(text));
    assert.deepEqual(answeringAddresses([], [], present), any);
    assert.deepEqual(answeringAddresses([parseCidr("192.0.2.0/24")], [], present), [first]);
    assert.deepEqual(answeringAddresses(["primary"], [second], present), [second]);
    const everything = ["0.0.0.0/0", "::/0"].map((text) => parseCidr(text));
    assert.deepEqual(
      answeringAddresses(everything, [], present).length,
      3,
      "without loopback and link-local addresses",
    );
  });
});
