import assert from "node:assert/strict";
import { parseAddress } from "../../../../kernel/ip/address.ts";
import { parseCidr } from "../../../../kernel/ip/cidr.ts";
import { judge } from "../../../../objects/gate/gate.ts";
import { accepted, manifest, refusal } from "./objects.ts";

describe("objects/gate", () => {
  it("DAEMON-01: a Namespace has its name as a label, and says whether it is terminating", () => {
    const { object } = accepted(
      manifest(
        "Namespace",
        {},
        { name: "shop", uid: "7", labels: { tier: "front" }, deletionTimestamp: "2026-05-04T03:02:01Z" },
      ),
    );
    assert.deepEqual(object, {
      kind: "Namespace",
      key: "shop",
      name: "shop",
      uid: "7",
      labels: { "kubernetes.io/metadata.name": "shop", tier: "front" },
      isTerminating: true,
    });
  });

  it("DAEMON-01: a Node keeps its valid addresses and its pod CIDRs", () => {
    const addresses = [
      { type: "Hostname", address: "node-a" },
      { type: "InternalIP", address: "192.0.2.1" },
      { type: "InternalIP", address: "2001:db8::1" },
      { type: "ExternalIP", address: "010.0.0.1" },
    ];
    const { object, problems } = accepted(
      manifest("Node", { spec: { podCIDRs: ["10.244.1.0/24", "fd00:244:1::/64"] }, status: { addresses } }),
    );
    assert.deepEqual(object["addresses"], [
      { type: "InternalIP", address: parseAddress("192.0.2.1") },
      { type: "InternalIP", address: parseAddress("2001:db8::1") },
    ]);
    assert.deepEqual(object["podCidrs"], [parseCidr("10.244.1.0/24"), parseCidr("fd00:244:1::/64")]);
    assert.equal(problems.length, 1);
    assert.match(problems[0] ?? "", /^Node web: status\.addresses\[3\]\.address: "010\.0\.0\.1" is not an IP address/);
  });

  it("D1: a Node keeps its first 16 addresses, and none of more than two pod CIDRs; both are reported", () => {
    const addresses = Array.from({ length: 200 }, (_, i) => ({ type: "InternalIP", address: `192.0.2.${i}` }));
    const podCIDRs = ["10.244.1.0/24", "10.244.2.0/24", "10.244.3.0/24"];
    const { object, problems } = accepted(manifest("Node", { spec: { podCIDRs }, status: { addresses } }));
    assert.deepEqual(
      object["addresses"],
      addresses.slice(0, 16).map(({ type, address }) => ({ type, address: parseAddress(address) })),
    );
    assert.deepEqual(object["podCidrs"], []);
    assert.deepEqual(problems.length, 2);
    assert.match(problems.join("\n"), /status\.addresses: 200 addresses; expected at most 16/);
    assert.match(problems.join("\n"), /spec\.podCIDRs: "3 elements"; expected at most 2/);
  });

  it("COND-01: a Node's network is unavailable unless NetworkUnavailable is False or missing; invalid conditions are reported", () => {
    const read = (conditions: unknown) => accepted(manifest("Node", { status: { conditions } }));
    const other = { type: "Ready", status: "True", lastHeartbeatTime: "2026-11-22T04:30:19Z" };
    for (const [status, isUnavailable] of [
      ["True", true],
      ["Unknown", true],
      ["False", false],
    ] as const) {
      const { object, problems } = read([other, { type: "NetworkUnavailable", status }]);
      assert.deepEqual([object["isNetworkUnavailable"], problems], [isUnavailable, []], status);
    }
    for (const conditions of [undefined, null, [], [other], [{ type: "networkunavailable", status: "True" }]]) {
      const { object, problems } = read(conditions);
      assert.deepEqual([object["isNetworkUnavailable"], problems], [false, []]);
    }
    for (const conditions of [
      "none",
      [7],
      [{ type: "NetworkUnavailable" }],
      [{ type: "NetworkUnavailable", status: 1 }],
    ]) {
      const { object, problems } = read(conditions);
      assert.deepEqual([object["isNetworkUnavailable"], problems.length], [false, 1]);
    }
  });

  it("ALLOC-03: a ServiceCIDR keeps its valid ranges, and an invalid one is omitted and reported", () => {
    const { object, problems } = accepted(
      manifest("ServiceCIDR", { spec: { cidrs: ["10.96.0.0/16", "fd00:10:96::/129"] } }),
    );
    assert.deepEqual(object, {
      kind: "ServiceCIDR",
      key: "web",
      name: "web",
      cidrs: [parseCidr("10.96.0.0/16")],
    });
    assert.equal(problems.length, 1);
    assert.match(problems[0] ?? "", /^ServiceCIDR web: spec\.cidrs\[1\]: "fd00:10:96::\/129"/);
    assert.deepEqual(accepted(manifest("ServiceCIDR")).object["cidrs"], []);
    assert.match(
      refusal(manifest("ServiceCIDR", { apiVersion: "networking.k8s.io/v1beta1" })),
      /^ServiceCIDR: apiVersion .*expected networking\.k8s\.io\/v1$/,
    );
  });

  it("DAEMON-01: a Pod's named ports are those of its containers and of sidecars that stay", () => {
    const port = (name: string, containerPort: number) => ({ name, containerPort, hostPort: 1 });
    const { object, problems } = accepted(
      manifest(
        "Pod",
        {
          spec: {
            nodeName: "node-a",
            containers: [
              { ports: [port("http", 8080), { containerPort: 9 }, { ...port("dns", 53), protocol: "UDP" }] },
            ],
            initContainers: [{ ports: [port("never", 1)] }, { restartPolicy: "Always", ports: [port("mesh", 15001)] }],
          },
          status: { phase: "Running", podIP: "10.1.1.1", podIPs: [{ ip: "10.1.1.1" }, { ip: "fd00::1" }] },
        },
        {
          ownerReferences: [
            { kind: "Crew", name: "other" },
            { kind: "ReplicaSet", name: "web-5d4f", controller: true },
          ],
        },
      ),
    );
    assert.deepEqual(problems, []);
    assert.deepEqual(object, {
      kind: "Pod",
      key: "default/web",
      name: "web",
      namespace: "default",
      uid: "",
      staticUid: undefined,
      labels: {},
      annotations: {},
      controller: { kind: "ReplicaSet", name: "web-5d4f" },
      addresses: [parseAddress("10.1.1.1"), parseAddress("fd00::1")],
      nodeName: "node-a",
      hostNetwork: false,
      phase: "Running",
      isTerminating: false,
      ports: [
        { name: "http", protocol: "TCP", port: 8080 },
        { name: "dns", protocol: "UDP", port: 53 },
        { name: "mesh", protocol: "TCP", port: 15001 },
      ],
    });
  });

  it("BAD-01: an annotation with an invalid value is ignored and reported", () => {
    const name = "drawbridge.dev/enforce-source-ranges";
    for (const value of ["yes", "True", ""]) {
      const { object, problems } = accepted(manifest("Service", { spec: {} }, { annotations: { [name]: value } }));
      assert.deepEqual(object["annotations"], {});
      const reported = `metadata.annotations["${name}"]: ${JSON.stringify(value)}; expected "true" or "false" (ignored)`;
      assert.deepEqual(problems, [`Service default/web: ${reported}`]);
    }
    const { object } = accepted(manifest("Service", { spec: {} }, { annotations: { [name]: "true" } }));
    assert.deepEqual(object["annotations"], { [name]: "true" });
  });

  it("EVENT-07: a Service or policy keeps its uid for Events, and is used in spite of an invalid one", () => {
    for (const kind of ["Service", "NetworkPolicy"]) {
      const spec = kind === "Service" ? { clusterIP: "10.96.0.10", ports: [{ port: 80 }] } : { podSelector: {} };
      const ofUid = (uid: unknown): object => ({ ...manifest(kind, { spec }), metadata: { name: "web", uid } });
      assert.equal(accepted(ofUid("u-1")).object["uid"], "u-1");
      const { object, problems } = accepted(ofUid(7));
      assert.equal(object["uid"], "");
      assert.match(problems.join(), /metadata\.uid/);
    }
  });

  it("DAEMON-01: a Service from a file gets the API server's defaults", () => {
    const { object, problems } = accepted(
      manifest("Service", { spec: { clusterIP: "10.96.0.10", ports: [{ port: 80 }] } }),
    );
    assert.deepEqual(problems, []);
    assert.deepEqual(object, {
      kind: "Service",
      key: "default/web",
      name: "web",
      namespace: "default",
      uid: "",
      proxyName: undefined,
      hasHeadlessLabel: false,
      createdAt: Number.POSITIVE_INFINITY,
      annotations: {},
      type: "ClusterIP",
      clusterIps: [parseAddress("10.96.0.10")],
      isHeadless: false,
      ports: [{ name: "", protocol: "TCP", port: 80, targetPort: 80, nodePort: undefined }],
      externalIps: [],
      loadBalancerIngress: [],
      loadBalancerSourceRanges: undefined,
      externalTrafficPolicy: "Cluster",
      internalTrafficPolicy: "Cluster",
      healthCheckNodePort: undefined,
      affinitySeconds: undefined,
      publishNotReadyAddresses: false,
      trafficDistribution: undefined,
    });
  });

  it("DAEMON-01: a Service keeps all its valid fields and loses only the invalid ones", () => {
    const { object, problems } = accepted(
      manifest(
        "Service",
        {
          spec: {
            type: "LoadBalancer",
            clusterIPs: ["10.96.0.10", "fd00:96::a"],
            ports: [
              { name: "http", port: 80, targetPort: "web", nodePort: 30080, appProtocol: "kubernetes.io/h2c" },
              { name: "same", port: 81, targetPort: "" },
              { name: "bad", port: 70_000 },
            ],
            externalIPs: ["198.51.100.7", "127.1"],
            loadBalancerSourceRanges: [" 203.0.113.9/24", "10.0.0.0/8"],
            externalTrafficPolicy: "Local",
            healthCheckNodePort: 31000,
            sessionAffinity: "ClientIP",
            publishNotReadyAddresses: true,
            trafficDistribution: "PreferClose",
          },
          status: {
            loadBalancer: { ingress: [{ ip: "203.0.113.1" }, { hostname: "lb" }, { ip: "::1", ipMode: "Proxy" }] },
          },
        },
        { labels: { "service.kubernetes.io/service-proxy-name": "other", "service.kubernetes.io/headless": "" } },
      ),
    );
    assert.deepEqual(object["ports"], [
      { name: "http", protocol: "TCP", port: 80, targetPort: "web", nodePort: 30080 },
      { name: "same", protocol: "TCP", port: 81, targetPort: 81, nodePort: undefined },
    ]);
    assert.deepEqual(object["externalIps"], [parseAddress("198.51.100.7")]);
    assert.deepEqual(object["loadBalancerSourceRanges"], [parseCidr("203.0.113.0/24"), parseCidr("10.0.0.0/8")]);
    assert.deepEqual(object["loadBalancerIngress"], [
      { address: parseAddress("203.0.113.1"), ipMode: "VIP" },
      { address: parseAddress("::1"), ipMode: "Proxy" },
    ]);
    assert.deepEqual([object["proxyName"], object["hasHeadlessLabel"]], ["other", true]);
    assert.deepEqual([object["affinitySeconds"], object["healthCheckNodePort"]], [10_800, 31_000]);
    assert.deepEqual(problems.length, 2, problems.join("\n"));
    assert.match(problems[0] ?? "", /spec\.ports\[2\]\.port: 70000; expected an integer from 1 to 65535/);
    assert.match(problems[1] ?? "", /spec\.externalIPs\[1\]: "127\.1" is not an IP address/);
  });

  it("DAEMON-01: source ranges that are all invalid let no client in, and no source ranges let every client in", () => {
    const ranges = (loadBalancerSourceRanges: unknown) =>
      accepted(manifest("Service", { spec: { loadBalancerSourceRanges } })).object["loadBalancerSourceRanges"];
    assert.deepEqual(ranges(["10.0/16"]), []);
    assert.equal(ranges([]), undefined);
    assert.equal(ranges(null), undefined);
  });

  it("DAEMON-01: a Service is headless only if its cluster IP is None", () => {
    const of = (spec: object) => accepted(manifest("Service", { spec })).object;
    assert.equal(of({ clusterIP: "None" })["isHeadless"], true);
    assert.equal(of({ clusterIPs: ["None"] })["isHeadless"], true);
    const unset = of({ clusterIP: "" });
    assert.deepEqual([unset["isHeadless"], unset["clusterIps"]], [false, []]);
  });

  it("DAEMON-01 EPS-02: an endpoint without conditions is ready, serving and not terminating", () => {
    const { object, problems } = accepted(
      manifest(
        "EndpointSlice",
        {
          addressType: "IPv4",
          ports: [
            { name: "http", port: 8080 },
            { name: null, protocol: "UDP" },
          ],
          endpoints: [
            { addresses: ["10.1.1.1", "10.1.1.9"] },
            {
              addresses: ["10.1.1.2"],
              conditions: { ready: false, serving: true, terminating: true },
              nodeName: "node-a",
              zone: "zone-a",
              hints: { forZones: [{ name: "zone-b" }], forNodes: [{ name: "node-b" }] },
              targetRef: { kind: "Pod", namespace: "shop", name: "web-0" },
            },
            { addresses: ["fd00::1"] },
          ],
        },
        { labels: { "kubernetes.io/service-name": "web" } },
      ),
    );
    const absent = {
      nodeName: undefined,
      zoneHints: undefined,
      nodeHints: undefined,
      podKey: undefined,
    };
    assert.deepEqual(object["endpoints"], [
      { address: parseAddress("10.1.1.1"), isReady: true, isServing: true, isTerminating: false, ...absent },
      {
        address: parseAddress("10.1.1.2"),
        isReady: false,
        isServing: true,
        isTerminating: true,
        nodeName: "node-a",
        zoneHints: ["zone-b"],
        nodeHints: ["node-b"],
        podKey: "shop/web-0",
      },
    ]);
    assert.deepEqual(object["ports"], [
      { name: "http", protocol: "TCP", port: 8080 },
      { name: "", protocol: "UDP", port: undefined },
    ]);
    assert.equal(object["serviceName"], "web");
    assert.equal(problems.length, 1);
    assert.match(problems[0] ?? "", /endpoints\[2\]\.addresses\[0\]: "fd00::1"; expected an IPv4 address/);
  });

  it("DAEMON-01: an FQDN slice has no endpoints for us, and a slice of 1001 endpoints is refused", () => {
    const slice = (addressType: string, endpoints: unknown) => manifest("EndpointSlice", { addressType, endpoints });
    assert.deepEqual(accepted(slice("FQDN", [{ addresses: ["example.org"] }])).object["endpoints"], []);
    const many = Array.from({ length: 1001 }, () => ({ addresses: ["10.0.0.1"] }));
    assert.match(refusal(slice("IPv4", many)), /endpoints: "1001 elements"; expected at most 1000/);
  });

  const refused: readonly (readonly [string, unknown, RegExp])[] = [
    ["a value that is not an object", "x", /object: "x"; expected an object/],
    ["no kind", { apiVersion: "v1" }, /kind: missing; expected a string/],
    [
      "another version of a kind",
      { ...manifest("NetworkPolicy"), apiVersion: "networking.k8s.io/v1beta1" },
      /expected networking\.k8s\.io\/v1$/,
    ],
    [
      "an unknown kind of policy",
      { ...manifest("AdminNetworkPolicy"), apiVersion: "policy.networking.k8s.io/v1alpha1" },
      /does not enforce it; use ClusterNetworkPolicy of policy\.networking\.k8s\.io\/v1beta1/,
    ],
    ["no name", { apiVersion: "v1", kind: "Pod" }, /^Pod: metadata\.name: missing/],
    [
      "a hostile name",
      manifest("Pod", {}, { name: 'x"; add table inet pwned; #' }),
      /metadata\.name: .*expected 1 to 253/,
    ],
    ["a name with a line end", manifest("Pod", {}, { name: "web\n" }), /metadata\.name/],
    ["a hostile namespace", manifest("Pod", {}, { namespace: "../../x" }), /metadata\.namespace/],
    [
      "a label that is a boolean",
      manifest("Pod", {}, { labels: { app: true } }),
      /metadata\.labels\["app"\]: true; expected a string/,
    ],
    ["a label of 64 characters", manifest("Pod", {}, { labels: { app: "x".repeat(64) } }), /at most 63/],
    ["a label with a hostile key", manifest("Pod", {}, { labels: { "a b": "x" } }), /label key/],
    [
      "an invalid phase",
      manifest("Pod", { status: { phase: "Ready" } }),
      /status\.phase: "Ready"; expected one of Pending/,
    ],
    [
      "an unknown traffic policy",
      manifest("Service", { spec: { internalTrafficPolicy: "Node" } }),
      /expected one of Cluster, Local/,
    ],
    ["a slice without a type", manifest("EndpointSlice"), /addressType: missing/],
  ];
  for (const [what, value, message] of refused) {
    it(`DAEMON-01: the gate refuses ${what}, naming object, field, value and expectation`, () => {
      assert.match(refusal(value), message);
    });
  }

  it("DAEMON-01: objects of other groups and kinds are ignored, also if a kind has a known name", () => {
    assert.equal(judge({ ...manifest("Service"), apiVersion: "serving.example.org/v1" }).type, "ignored");
    assert.equal(judge(manifest("ConfigMap", { data: { "": "" } })).type, "ignored");
  });

  it("DAEMON-01: a key of the object prototype does not become a label", () => {
    const value: unknown = JSON.parse(
      '{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web","labels":{"constructor":"x"}},"__proto__":{"spec":1}}',
    );
    const verdict = judge(value);
    assert.ok(verdict.type === "accepted" && verdict.object.kind === "Pod");
    assert.equal(verdict.object.labels["constructor"], "x");
    assert.equal(verdict.object.labels["toString"], undefined);
  });
});
