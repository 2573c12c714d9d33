import assert from "node:assert/strict";
import { type Address, familyOf, formatAddress, FAMILIES } from "../../../kernel/ip/address.ts";
import type { LabNamespace } from "../../lab/namespace.ts";
import { Poller } from "../../lab/probe/poller.ts";
import { UPLINK } from "../../lab/topology.ts";
import { bulkServer, exchangeBulk } from "../../support/services/bulk.ts";
import { requireKernel } from "../../support/privilege.ts";
import { SERVICE_PORT, serviceManifest } from "../../support/services/manifest.ts";
import type { ServicedPod } from "../../support/services/serviced_node.ts";
import { CLUSTER_IPS, type Pair, pairOf, textsOf, TrafficLab } from "../../support/services/traffic_lab.ts";

const BALANCER = pairOf("203.0.113.5", "2001:db8:5::5");
const NODE_PORT = 40_080;
const BULK_PORT = 8090;
/** The MTU of the link between the router and node2, in the middle of all paths to it; other links have 1500. */
const SMALL_MTU = 1300;
const BYTES = 60_000;

describe("a small MTU on the way", function () {
  this.timeout(300_000);
  let on: TrafficLab;
  let poller: Poller;

  before(function () {
    requireKernel(this);
    on = new TrafficLab("mtu", false);
    const { router, node2 } = on.nodes;
    router.exec("ip", ["link", "set", "to-node2", "mtu", String(SMALL_MTU)]);
    node2.node.exec("ip", ["link", "set", UPLINK, "mtu", String(SMALL_MTU)]);
    on.route([CLUSTER_IPS, BALANCER]);
    poller = new Poller(on.lab.calls);
    for (const { namespace, addresses } of [on.near, on.far]) {
      for (const family of FAMILIES) bulkServer(poller, { namespace, address: addresses[family], port: BULK_PORT });
    }
  });

  after(() => {
    poller?.close();
    on?.[Symbol.dispose]();
  });

  const bulk = (endpoint: ServicedPod, spec: Readonly<Record<string, unknown>> = {}): string => {
    const ingress = FAMILIES.map((family) => ({ ip: formatAddress(BALANCER[family]) }));
    const fields = { type: "LoadBalancer", status: { loadBalancer: { ingress } }, ...spec };
    const text = serviceManifest("bulk", textsOf(CLUSTER_IPS), on.at(endpoint), fields, NODE_PORT);
    return text.replaceAll(`"port":8080`, `"port":${BULK_PORT}`);
  };

  /** Returns the routing caches of a namespace for a destination, with the MTU that it has learned. */
  const reported = (namespace: LabNamespace, destination: Address): string => {
    const family = familyOf(destination) === 4 ? "-4" : "-6";
    return namespace.exec("ip", [family, "route", "get", formatAddress(destination)]);
  };

  /** Sends many bytes there and back, for which both ends must learn the small MTU. */
  const exchange = async (from: LabNamespace, to: Pair, port: number): Promise<void> => {
    for (const family of FAMILIES) {
      const received = await exchangeBulk(poller, from, { address: to[family], port }, BYTES);
      assert.equal(received, BYTES, `IPv${family} from ${from.name}`);
    }
  };

  it("LB-07 DS-12: a pod and its endpoint learn a path's small MTU through a cluster IP", async () => {
    on.here.apply(bulk(on.far));
    await exchange(on.client.namespace, CLUSTER_IPS, SERVICE_PORT);
    for (const family of FAMILIES) {
      assert.match(reported(on.client.namespace, CLUSTER_IPS[family]), /mtu 1300/);
      assert.match(reported(on.far.namespace, on.client.addresses[family]), /mtu 1300/);
    }
  });

  it("LB-07 DS-12: a client outside learns a path's small MTU through a balancer's address, though it is masqueraded", async () => {
    on.here.apply(bulk(on.far));
    const outside = on.stranger("stranger", pairOf("198.51.100.1", "2001:db8:c::1"));
    await exchange(outside, BALANCER, SERVICE_PORT);
    for (const family of FAMILIES) assert.match(reported(outside, BALANCER[family]), /mtu 1300/);
  });

  it("LB-07 DS-12: an endpoint learns a path's small MTU, whether it sees the node's or the client's address", async () => {
    on.here.apply(bulk(on.near));
    await exchange(on.far.namespace, on.addressesOf("node1"), NODE_PORT);
    on.here.apply(bulk(on.near, { externalTrafficPolicy: "Local" }));
    await exchange(on.far.namespace, BALANCER, SERVICE_PORT);
    for (const family of FAMILIES) {
      assert.match(reported(on.near.namespace, on.far.addresses[family]), /mtu 1300/);
      assert.match(reported(on.far.namespace, BALANCER[family]), /mtu 1300/);
    }
  });
});
