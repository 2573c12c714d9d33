import assert from "node:assert/strict";
import { formatAddress, parseAddress, type Address } from "../../../../../kernel/ip/address.ts";
import { DnsServers } from "../../../../../policyd/policies/names/dns_servers.ts";
import { objectOf } from "../../../../support/policy/live/objects.ts";

const PORTS = [
  { name: "dns", protocol: "UDP", port: 53 },
  { name: "dns-tcp", protocol: "TCP", port: 5353 },
  { name: "metrics", protocol: "TCP", port: 9153 },
];

function slice(service: string): ReturnType<typeof objectOf<"EndpointSlice">> {
  return objectOf("EndpointSlice", {
    apiVersion: "discovery.k8s.io/v1",
    metadata: { namespace: "kube-system", name: "s", labels: { "kubernetes.io/service-name": service } },
    addressType: "IPv4",
    ports: PORTS,
    endpoints: [{ addresses: ["10.244.2.5"] }],
  });
}

describe("the DNS servers whose answers count", () => {
  it("NAME-12: answers count from the cluster's DNS, by its Service and its endpoints, and from the servers of the configuration", () => {
    const claims = new Map<string, readonly string[]>();
    const ruleset = {
      claim: (owner: string, elements: readonly { readonly element: { readonly key: readonly unknown[] } }[]): void => {
        const texts = elements.map(({ element: { key } }) =>
          [formatAddress(key[0] as Address), ...key.slice(1)].join(" "),
        );
        claims.set(owner, texts);
      },
    };
    const servers = new DnsServers(ruleset, [parseAddress("fd00::53")]);
    const service = objectOf("Service", {
      metadata: { namespace: "kube-system", name: "kube-dns" },
      spec: { clusterIP: "10.96.0.10", clusterIPs: ["10.96.0.10"], ports: PORTS },
    });
    const set = (object: typeof service | ReturnType<typeof slice>) =>
      ({ type: "set", kind: object.kind, key: object.key, object }) as const;
    servers.apply([set(slice("kube-dns")), set(service)]);
    const [ofSlice, ofService] = [
      `DNS servers of EndpointSlice kube-system/s`,
      `DNS servers of Service kube-system/kube-dns`,
    ];
    assert.deepEqual(claims.get("DNS servers"), ["fd00::53 udp 53", "fd00::53 tcp 53"]);
    assert.deepEqual(claims.get(ofSlice), ["10.244.2.5 udp 53", "10.244.2.5 tcp 5353"]);
    assert.deepEqual(claims.get(ofService), ["10.96.0.10 udp 53", "10.96.0.10 tcp 5353"]);
    servers.apply([set(slice("web")), { type: "delete", kind: "Service", key: service.key }]);
    assert.deepEqual([claims.get(ofSlice), claims.get(ofService)], [[], []]);
  });
});
