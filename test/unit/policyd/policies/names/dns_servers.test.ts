import assert from "node:assert/strict";
import { parseAddress } from "../../../../../kernel/ip/address.ts";
import type { DesiredElement } from "../../../../../policyd/ruleset/desired/desired_element.ts";
import { DnsServers } from "../../../../../policyd/policies/names/dns_servers.ts";
import { objectOf } from "../../../../support/policy/live/objects.ts";

const IPS = ["10.96.0.10", "fd00:96::a"] as const;
const METRICS = { name: "metrics", protocol: "TCP", port: 9153 };

function setUp(...configured: readonly string[]) {
  const claims = new Map<string, readonly (readonly unknown[])[]>();
  const claim = (owner: string, elements: readonly DesiredElement[]): void => {
    claims.set(
      owner,
      elements.map(({ set, element: { key } }) => [set, ...key]),
    );
  };
  const servers = new DnsServers({
    ruleset: { claim },
    configured: configured.map((text) => parseAddress(text)),
    areNeeded: () => true,
  });
  return { claims, servers };
}

/** @param port the number of the Service's port of UDP */
function service(key: string, [udp, tcp]: readonly [string, string], port = 53) {
  const [namespace, name] = key.split("/");
  const ports = [{ name: udp, protocol: "UDP", port }, { name: tcp, protocol: "TCP", port }, METRICS];
  const object = objectOf("Service", {
    metadata: { namespace, name },
    spec: { clusterIP: IPS[0], clusterIPs: IPS, ports },
  });
  return { type: "set", kind: "Service", key, object } as const;
}

describe("the DNS servers whose answers count", () => {
  for (const [key, names, ...configured] of [
    ["kube-system/kube-dns", ["dns", "dns-tcp"]],
    ["kube-system/kube-dns", ["udp-53", "tcp-53"]],
    ["kube-system/rke2-coredns-rke2-coredns", ["udp-53", "tcp-53"]],
    ["openshift-dns/dns-default", ["dns", "dns-tcp"]],
    ["dns/coredns", ["udp-53", "tcp-53"], IPS[1]],
  ] as const) {
    it(`NAME-12: answers count from ${key} with the ports ${names.join(" and ")}${configured.length > 0 ? ", which the configuration names," : ""} until it has gone`, () => {
      const { claims, servers } = setUp(...configured);
      servers.apply([service(key, names)]);
      const own = `DNS servers of Service ${key}`;
      const both = (address: string, family: number) => [
        [`dnsservices${family}`, parseAddress(address)],
        ...["udp", "tcp"].map((protocol) => [`dnsservers${family}`, parseAddress(address), protocol, 53]),
      ];
      assert.deepEqual(claims.get(own), [...both(IPS[0], 4), ...both(IPS[1], 6)]);
      assert.deepEqual(servers.problems(), []);
      servers.apply([{ type: "delete", kind: "Service", key }]);
      assert.deepEqual(claims.get(own), []);
    });
  }

  it("NAME-12: answers from no other Service count, and it is reported that no DNS server is known", () => {
    const { claims, servers } = setUp();
    servers.apply([
      service("shop/kube-dns", ["dns", "dns-tcp"]),
      service("kube-system/metrics-server", ["udp", "tcp"], 443),
    ]);
    assert.deepEqual([...claims], [["DNS servers", []]]);
    assert.equal(servers.problems().length, 1);
  });

  it("NAME-12: answers from the servers of the configuration count at the usual port", () => {
    const { claims, servers } = setUp("fd00::53");
    const address = parseAddress("fd00::53");
    assert.deepEqual(claims.get("DNS servers"), [
      ["dnsservers6", address, "udp", 53],
      ["dnsservers6", address, "tcp", 53],
    ]);
    assert.deepEqual(servers.problems(), []);
  });
});
