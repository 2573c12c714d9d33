import assert from "node:assert/strict";
import { createLab } from "../../../lab/lab.ts";
import { benchService, withFirstReplaced } from "../../../bench/services/cluster.ts";
import { baseText, endpointsText, hashed, LAYOUTS, serviceText } from "../../../bench/services/kube_proxy_layout.ts";
import { requireKernel } from "../../../support/privilege.ts";

describe("kube-proxy's layouts in the benchmark", () => {
  const service = benchService(0, 2);
  const after = withFirstReplaced(service, 1);

  it("chains are named as by kube-proxy", () => {
    // Both names are from pkg/proxy/nftables/proxier_test.go.
    assert.equal(hashed("ns1/svc1/tcp/p80"), "ULMVA6XW-ns1/svc1/tcp/p80");
    assert.equal(hashed("ns1/svc1/tcp/p80__10.180.0.1/80"), "5OJB2KTY-ns1/svc1/tcp/p80__10.180.0.1/80");
  });

  it("the layout up to 1.35 has a chain for a Service and for each endpoint", () => {
    const name = hashed("bench/svc-0/udp/dns");
    const [first, second] = service.endpoints.map((endpoint) => hashed(`bench/svc-0/udp/dns__${endpoint}/53`));
    assert.deepEqual(serviceText("chains", service).trimEnd().split("\n"), [
      `add chain ip kube-proxy endpoint-${first}`,
      `flush chain ip kube-proxy endpoint-${first}`,
      `add chain ip kube-proxy endpoint-${second}`,
      `flush chain ip kube-proxy endpoint-${second}`,
      `add chain ip kube-proxy service-${name}`,
      `flush chain ip kube-proxy service-${name}`,
      "add element ip kube-proxy cluster-ips { 10.96.1.0 }",
      `add element ip kube-proxy service-ips { 10.96.1.0 . udp . 53 : goto service-${name} }`,
      `add rule ip kube-proxy service-${name} ip daddr 10.96.1.0 ip saddr != 10.128.0.0/9 jump mark-for-masquerade`,
      `add rule ip kube-proxy service-${name} numgen random mod 2 vmap { 0 : goto endpoint-${first} , 1 : goto endpoint-${second} }`,
      `add rule ip kube-proxy endpoint-${first} ip saddr 10.128.1.0 jump mark-for-masquerade`,
      `add rule ip kube-proxy endpoint-${first} meta l4proto udp dnat to 10.128.1.0:53`,
      `add rule ip kube-proxy endpoint-${second} ip saddr 10.128.1.1 jump mark-for-masquerade`,
      `add rule ip kube-proxy endpoint-${second} meta l4proto udp dnat to 10.128.1.1:53`,
    ]);
  });

  it("the layout from 1.36 has a chain for a Service, with a map of its endpoints", () => {
    const name = hashed("bench/svc-0/udp/dns");
    const rule = (first: string): string =>
      `add rule ip kube-proxy service-${name} meta l4proto udp dnat ip addr . port to numgen random mod 2 map { 0 : ${first} . 53 , 1 : 10.128.1.1 . 53 }`;
    assert.deepEqual(serviceText("maps", service).trimEnd().split("\n"), [
      `add chain ip kube-proxy service-${name}`,
      `flush chain ip kube-proxy service-${name}`,
      "add element ip kube-proxy cluster-ips { 10.96.1.0 }",
      `add element ip kube-proxy service-ips { 10.96.1.0 . udp . 53 : goto service-${name} }`,
      rule("10.128.1.0"),
    ]);
    assert.deepEqual(endpointsText("maps", service, after).trimEnd().split("\n"), [
      `add chain ip kube-proxy service-${name}`,
      `flush chain ip kube-proxy service-${name}`,
      rule("10.250.0.1"),
    ]);
  });

  describe("in the kernel", () => {
    before(function () {
      requireKernel(this);
    });

    for (const layout of LAYOUTS) {
      it(`nft accepts the layout ${layout}, a further Service and a changed endpoint`, () => {
        using lab = createLab("bench-layout");
        const node = lab.namespace(layout);
        const whole = baseText(layout) + serviceText(layout, service) + serviceText(layout, benchService(1, 3));
        node.exec("nft", ["-c", "-f", "-"], whole);
        for (const text of [whole, serviceText(layout, benchService(2, 1)), endpointsText(layout, service, after)]) {
          node.exec("nft", ["-f", "-"], text);
        }
        const listing = node.exec("nft", ["list", "ruleset"]);
        assert.ok(listing.includes("10.250.0.1") && listing.includes("10.96.1.2"), listing);
        if (layout === "maps") assert.ok(!listing.includes("10.128.1.0"), listing);
      });
    }
  });
});
