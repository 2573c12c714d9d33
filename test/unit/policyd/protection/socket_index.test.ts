import { type InTurn, inTurn } from "../../../support/node/in_turn.ts";
import assert from "node:assert/strict";
import { parseAddress } from "../../../../kernel/ip/address.ts";
import { parseCidr } from "../../../../kernel/ip/cidr.ts";
import { NodeJudge } from "../../../../objects/nodes/node_judge.ts";
import { readConfiguration } from "../../../../policyd/configuration/configuration.ts";
import { configuredSockets } from "../../../../policyd/protection/configured_sockets.ts";
import { ProtectedSocketIndex } from "../../../../policyd/protection/socket_index.ts";
import type { Frontend } from "../../../../objects/socket_refusal.ts";
import { readScenario } from "../../../support/services/scenario.ts";

const OBJECTS = `
{apiVersion: v1, kind: Node, metadata: {name: n1}, spec: {podCIDRs: [10.244.1.0/24]},
  status: {addresses: [{type: InternalIP, address: 192.0.2.11}, {type: ExternalIP, address: 203.0.113.11}]}}
---
{apiVersion: v1, kind: Node, metadata: {name: n2}, spec: {podCIDRs: [10.244.2.0/24]},
  status: {addresses: [{type: InternalIP, address: 192.0.2.12}, {type: InternalIP, address: "fd00::12"}]}}
---
{apiVersion: networking.k8s.io/v1, kind: ServiceCIDR, metadata: {name: kubernetes}, spec: {cidrs: [10.96.0.0/16]}}
---
{apiVersion: v1, kind: Service, metadata: {name: kubernetes, namespace: default},
  spec: {clusterIP: 10.96.0.1, ports: [{name: https, port: 443}]}}
---
{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice,
  metadata: {name: kubernetes, namespace: default, labels: {kubernetes.io/service-name: kubernetes}},
  addressType: IPv4, ports: [{name: https, port: 6443}], endpoints: [{addresses: [192.0.2.1]}, {addresses: [192.0.2.2]}]}
`;

const API_SERVER_ON_NODE = `
{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice,
  metadata: {name: further, namespace: default, labels: {kubernetes.io/service-name: kubernetes}},
  addressType: IPv4, ports: [{name: https, port: 6444}], endpoints: [{addresses: [192.0.2.11]}]}
`;

function indexWith(settings: object = {}): { readonly index: ProtectedSocketIndex; readonly objects: InTurn } {
  const text = JSON.stringify({
    apiVersion: "drawbridge.dev/v1alpha1",
    kind: "PolicydConfiguration",
    nodeName: "n1",
    ...settings,
  });
  const configuration = readConfiguration({ path: "test", text }, {});
  const judge = new NodeJudge({ nodeName: "n1", ownCidrs: [parseCidr("10.244.0.0/24")] });
  const index = new ProtectedSocketIndex(configuredSockets(configuration), judge);
  return { index, objects: inTurn(judge, index) };
}

function apply(objects: InTurn, text: string): void {
  objects.apply(readScenario(text).map((object) => ({ type: "set", kind: object.kind, key: object.key, object })));
}

function frontend(type: "cluster" | "load balancer" | "external", address: string, port: number): Frontend {
  return { type, address: parseAddress(address), port };
}

describe("policyd/protection: sockets that no Service gets", () => {
  const other = { key: "team/web" };
  const owner = (index: ProtectedSocketIndex, one: Frontend, protocol: "TCP" | "UDP" = "TCP"): string | undefined =>
    index.refusalOf(other, one, protocol)?.owner;

  it("CLAIM-01 the API server's sockets are those of the configuration, the daemon's requests and its Service's endpoints", () => {
    const { index, objects } = indexWith({ apiServer: "https://[fd00::1]" });
    assert.equal(owner(index, frontend("external", "fd00::1", 443)), "the API server");
    assert.equal(owner(index, frontend("external", "fd00::1", 444)), undefined);
    assert.equal(owner(index, frontend("external", "192.0.2.1", 6443)), undefined, "the endpoints are not known yet");
    apply(objects, OBJECTS);
    for (const type of ["external", "load balancer", "cluster"] as const) {
      assert.equal(owner(index, frontend(type, "192.0.2.1", 6443)), "the API server");
      assert.equal(owner(index, frontend(type, "192.0.2.2", 6443)), "the API server");
    }
    assert.equal(owner(index, frontend("external", "192.0.2.1", 6443), "UDP"), undefined);
    const asked = {
      address: parseAddress("198.51.100.7"),
      protocol: "TCP",
      port: 443,
      owner: "the API server",
    } as const;
    let calls = 0;
    index.askedChanged.subscribe(() => calls++);
    index.setAsked([asked]);
    index.setAsked([asked]);
    assert.equal(calls, 1, "the same sockets again change nothing");
    assert.equal(owner(index, frontend("load balancer", "198.51.100.7", 443)), "the API server");
  });

  it("CLAIM-01 no Service gets a protected port of a node's address, also one whose load balancer has that address", () => {
    const { index, objects } = indexWith({
      protectedSockets: ["198.51.100.53:53/UDP"],
      nodeLocalDNS: ["169.254.20.10"],
    });
    apply(objects, OBJECTS);
    for (const address of ["192.0.2.11", "203.0.113.11", "192.0.2.12", "fd00::12"]) {
      for (const type of ["external", "load balancer"] as const) {
        assert.equal(owner(index, frontend(type, address, 10_250)), "the kubelet", address);
        assert.equal(owner(index, frontend(type, address, 9873)), "policyd's metrics", address);
        assert.equal(owner(index, frontend(type, address, 4789), "UDP"), "the tunnel between nodes", address);
        assert.equal(owner(index, frontend(type, address, 4789), "TCP"), undefined, address);
        assert.equal(owner(index, frontend(type, address, 22)), undefined, address);
        assert.equal(owner(index, frontend(type, address, 443)), undefined, address);
      }
    }
    // These ports are free on a load balancer's own address.
    for (const port of [22, 2379, 10_250]) {
      assert.equal(owner(index, frontend("load balancer", "198.51.100.9", port)), undefined);
    }
    assert.equal(owner(index, frontend("external", "198.51.100.53", 53), "UDP"), "protectedSockets");
    assert.equal(owner(index, frontend("external", "198.51.100.53", 53), "TCP"), undefined);
    assert.equal(owner(index, { type: "node port", port: 10_256 }), "the proxy of Services");
    assert.equal(owner(index, { type: "node port", port: 30_256 }), undefined);
  });

  it("CLAIM-01: no Service gets a port of the daemon's own, whatever protectedPorts names", () => {
    for (const protectedPorts of [["10250/TCP"], []]) {
      for (const [own, settings] of [
        [10_256, {}],
        [9874, { services: false }],
        [10_256, { services: false, healthAddress: "0.0.0.0:10256" }],
        [9873, { metricsAddress: "0.0.0.0:9873", healthAddress: "" }],
      ] as const) {
        const { index, objects } = indexWith({ protectedPorts, ...settings });
        apply(objects, OBJECTS);
        for (const type of ["external", "load balancer"] as const) {
          assert.match(owner(index, frontend(type, "192.0.2.11", own)) ?? "", /^policyd's /, JSON.stringify(settings));
        }
      }
    }
  });

  it("CLAIM-01: no Service, not even the API server's, gets the port of a program of nodes for its health checks", () => {
    const { index, objects } = indexWith({
      protectedSockets: ["198.51.100.53:853/TCP", "192.0.2.12:5000/TCP"],
      nodeLocalDNS: ["169.254.20.10"],
    });
    apply(objects, OBJECTS + "---" + API_SERVER_ON_NODE);
    const holders = [10_250, 9873, 53, 5000, 6444, 853, 4789, 30_001].map((port) =>
      [other, { key: "default/kubernetes" }].map(
        (one) => index.refusalOf(one, { type: "health check", port }, "TCP")?.owner,
      ),
    );
    const [kubelet, metrics, dns, registry, apiServer, ...none] = holders.map(([one, own]) =>
      one === own ? one : "two",
    );
    assert.deepEqual(
      [kubelet, metrics, dns, registry, apiServer],
      ["the kubelet", "policyd's metrics", "the node's DNS server", "protectedSockets", "the API server"],
    );
    assert.deepEqual(none, [undefined, undefined, undefined]);
  });

  it("CLAIM-02 addresses of pods, of Services and of a cloud's metadata are refused at every port", () => {
    const { index, objects } = indexWith();
    const configured = frontend("external", "10.244.0.9", 80);
    assert.equal(owner(index, configured), "the pods' networks", "while this node's Node has no pod CIDR");
    apply(objects, OBJECTS);
    assert.equal(owner(index, configured), undefined);
    for (const [address, who] of [
      ["10.244.1.1", "the pods' networks"],
      ["10.244.2.7", "the pods' networks"],
      ["10.96.0.10", "the ranges of Services"],
      ["168.63.129.16", "a cloud's metadata"],
      ["fd00:ec2::254", "a cloud's metadata"],
    ] as const) {
      for (const type of ["external", "load balancer"] as const) {
        assert.equal(owner(index, frontend(type, address, 80)), who, address);
      }
      assert.equal(owner(index, frontend("cluster", address, 80)), undefined, address);
    }
    assert.equal(owner(index, frontend("external", "10.245.0.1", 80)), undefined);
  });

  it("CLAIM-01 the sockets of a Node and an endpoint that are gone lose their protection", () => {
    const { index, objects } = indexWith();
    apply(objects, OBJECTS);
    const before = index.currentVersion();
    apply(objects, OBJECTS.split("---").slice(0, 2).join("---"));
    assert.equal(index.currentVersion(), before, "Nodes that come again change nothing");
    objects.apply([
      { type: "delete", kind: "Node", key: "n2" },
      { type: "delete", kind: "EndpointSlice", key: "default/kubernetes" },
    ]);
    assert.notEqual(index.currentVersion(), before);
    assert.equal(owner(index, frontend("external", "192.0.2.12", 10_250)), undefined);
    assert.equal(owner(index, frontend("external", "10.244.2.7", 80)), undefined);
    assert.equal(owner(index, frontend("external", "192.0.2.1", 6443)), undefined);
    assert.equal(owner(index, frontend("external", "192.0.2.11", 10_250)), "the kubelet");
  });
});
