import assert from "node:assert/strict";
import { formatAddress } from "../../../kernel/ip/address.ts";
import { ServiceDropReason } from "../../../policyd/services/rules/check_part.ts";
import { requireBridgeNetfilter, requireKernel } from "../../support/privilege.ts";
import { type ManifestEndpoint, SERVICE_PORT, serviceManifest } from "../../support/services/manifest.ts";
import {
  CLUSTER_IPS,
  FAMILIES,
  type Pair,
  pairOf,
  textsOf,
  TrafficLab,
  TRANSPORTS,
} from "../../support/services/traffic_lab.ts";

const BALANCER = pairOf("203.0.113.5", "2001:db8:5::5");
const OTHER = pairOf("203.0.113.6", "2001:db8:5::6");
/** Addresses that the router itself has. */
const PROXY = pairOf("203.0.113.7", "2001:db8:5::7");
const NODE_PORT = 40_080;
/** Source ranges that contain no client of the lab. */
const ELSEWHERE = { loadBalancerSourceRanges: ["198.51.100.0/24", "2001:db8:ffff::/48"] };

function ingressOf(addresses: Pair, fields: Readonly<Record<string, unknown>> = {}): readonly object[] {
  return FAMILIES.map((family) => ({ ip: formatAddress(addresses[family]), ...fields }));
}

function balanced(
  endpoints: readonly ManifestEndpoint[],
  ingress: readonly object[] | undefined,
  spec: Readonly<Record<string, unknown>> = {},
): string {
  const status = ingress === undefined ? {} : { status: { loadBalancer: { ingress } } };
  return serviceManifest(
    "lb",
    textsOf(CLUSTER_IPS),
    endpoints,
    { type: "LoadBalancer", ...status, ...spec },
    NODE_PORT,
  );
}

for (const bridgeNetfilter of [true, false]) {
  describe(`load balancers in packets, br_netfilter ${bridgeNetfilter ? "on" : "off"}`, function () {
    this.timeout(60_000);
    let on: TrafficLab;

    before(function () {
      requireKernel(this);
      if (bridgeNetfilter) requireBridgeNetfilter(this);
      on = new TrafficLab("balancer", bridgeNetfilter);
      const { router } = on.nodes;
      on.route([CLUSTER_IPS, BALANCER, OTHER]);
      for (const family of FAMILIES) {
        router.exec("ip", ["address", "add", formatAddress(PROXY[family]), "dev", "lo", "nodad"]);
        for (const transport of TRANSPORTS) {
          on.prober.listen(transport, { namespace: router, address: PROXY[family], port: SERVICE_PORT });
        }
      }
    });

    after(() => on?.[Symbol.dispose]());

    it("LB-02: the balancer's addresses come with the Service's status, change with it and go with it", async () => {
      const { router } = on.nodes;
      const [first, second] = [on.flows(router, BALANCER), on.flows(router, OTHER)];
      on.here.apply(balanced(on.at(on.near), undefined));
      await on.fail([...first, ...second]);
      on.here.apply(balanced(on.at(on.near), ingressOf(BALANCER)));
      await on.reach(first, [on.near]);
      on.here.apply(balanced(on.at(on.near), ingressOf(OTHER)));
      await on.reach(second, [on.near]);
      await on.fail(first);
      on.here.apply(balanced(on.at(on.near), []));
      await on.fail([...first, ...second]);
    });

    it("LB-05 LB-06: a client outside the source ranges is dropped before everything else, also without endpoints", async () => {
      const { router } = on.nodes;
      on.here.apply(balanced(on.at(on.near), ingressOf(BALANCER), ELSEWHERE));
      await on.silent(on.flows(router, BALANCER), ServiceDropReason.SOURCE);
      // The sender's address is checked, not the one with which the packet would leave: the node's is in these ranges.
      const nodes = { loadBalancerSourceRanges: ["192.0.2.10/32", "10.244.1.1/32", "2001:db8:0:1::2/128"] };
      on.here.apply(balanced(on.at(on.near), ingressOf(BALANCER), nodes));
      await on.silent(on.flows(router, BALANCER), ServiceDropReason.SOURCE);
      on.here.apply(balanced([], ingressOf(BALANCER), ELSEWHERE));
      await on.silent(on.flows(router, BALANCER), ServiceDropReason.SOURCE);
      await on.refused(on.flows(router, CLUSTER_IPS));
    });

    it("LB-12: with ipMode Proxy pods and the node go to the balancer itself", async () => {
      on.here.apply(balanced(on.at(on.near), ingressOf(PROXY, { ipMode: "Proxy" })));
      const balancer = { namespace: on.nodes.router };
      await on.reach(on.flows(on.client.namespace, PROXY), [balancer], on.client.addresses);
      await on.reach(on.flows(on.nodes.node1.node, PROXY), [balancer], on.addressesOf("node1"));
      // This is the way by which the balancer sends connections back.
      await on.reach(on.flows(on.nodes.router, on.addressesOf("node1"), { port: NODE_PORT }), [on.near]);
      on.here.apply(balanced(on.at(on.near), ingressOf(PROXY, { ipMode: "VIP" })));
      await on.reach(on.flows(on.client.namespace, PROXY), [on.near]);
    });

    it("LB-13: a balancer with only a host name adds nothing to the node", async () => {
      const list = (): string => on.here.elements();
      on.here.apply(balanced(on.at(on.near), undefined));
      const without = list();
      assert.match(without, /service4_1 \{[^}]*10\.96\.0\.10/);
      on.here.apply(balanced(on.at(on.near), [{ hostname: "balancer.example.org" }]));
      assert.equal(list(), without);
      await on.reach(on.flows(on.nodes.router, on.addressesOf("node1"), { port: NODE_PORT }), [on.near]);
    });

    it("LB-15 LB-16 ITP-04: policy Local keeps the address of clients outside, and leaves all endpoints to pods and the node", async () => {
      const local = { externalTrafficPolicy: "Local", internalTrafficPolicy: "Local" };
      on.here.apply(balanced(on.at(on.near, on.far), ingressOf(BALANCER), local));
      await on.reach(on.flows(on.nodes.router, BALANCER), [on.near], on.outside);
      await on.reachAll(on.flows(on.client.namespace, BALANCER), [on.near, on.far], on.client.addresses);
      await on.reachAll(on.flows(on.nodes.node1.node, BALANCER), [on.near, on.far]);
      await on.reach(on.flows(on.client.namespace, CLUSTER_IPS), [on.near]);
      on.here.apply(balanced(on.at(on.far), ingressOf(BALANCER), local));
      await on.silent(on.flows(on.nodes.router, BALANCER), ServiceDropReason.NO_LOCAL);
      await on.reach(on.flows(on.client.namespace, BALANCER), [on.far], on.client.addresses);
    });
  });
}
