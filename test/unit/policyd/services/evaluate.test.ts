import assert from "node:assert/strict";
import { checkScenario, readScenarios, type Scenario } from "../../../support/evaluate/scenario.ts";

const scenarios = new Map(
  ["frontends", "endpoints", "dual_stack"].flatMap((name) => [
    ...readScenarios(new URL(`${name}.yaml`, import.meta.url)),
  ]),
);

function scenario(name: string): Scenario {
  const found = scenarios.get(name);
  assert.ok(found, `no scenario ${name}`);
  return found;
}

function check(name: string, families: readonly ("IPv4" | "IPv6")[] = ["IPv4", "IPv6"]): void {
  for (const family of families) checkScenario(scenario(name), family);
}

describe("policyd/services/evaluate: frontends", () => {
  it("SVC-02 SVC-03 SVC-04 SVC-05 SVC-06 SVC-07 SVC-08 SVC-23: a port finds its numbers in the slices by name and protocol", () => {
    check("ports");
  });

  it("HL-01 EN-01: headless, ExternalName and foreign Services are not served, and foreign slices do not count", () => {
    check("not_served");
  });

  it("XIP-01 XIP-02 XIP-03: an external IP is translated and masqueraded for every sender", () =>
    check("external_ips"));

  it("XIP-03: external IPs that are refused by the configuration are not served", () => check("external_ips_refused"));

  it("NODE-01 NODE-02 NODE-03 NODE-06 NODE-07 NODE-10: node ports are served on all own addresses but loopback", () => {
    check("node_ports");
  });

  it("NODE-04 NODE-05: nodePortAddresses select among the node's addresses, and never loopback", () => {
    check("node_port_addresses");
  });

  it("NODE-04: primary is the node's first internal address", () => check("primary_address"));

  it("SVC-18: cluster IPs come before other addresses, addresses before node ports, and the first name before others", () => {
    check("own_addresses_first");
  });

  it("LB-01 LB-03 LB-04 LB-08 LB-09 LB-10 LB-11 LB-12 LB-13: a balancer's own addresses with ipMode VIP are served", () => {
    check("load_balancer");
  });

  it("LB-05 LB-06: source ranges apply only to the balancer's addresses, and before everything else", () =>
    check("source_ranges"));

  it("LB-06 NODE-12: enforced source ranges apply to node ports of this node and of others, also where the other one finds the endpoint", () =>
    check("ranges_of_node_ports"));

  it("LB-06: ranges of which none is valid let no client in", () => check("ranges_of_no_family"));

  it("SVC-13 SVC-14 POD-12: pods keep their source address except towards themselves, and others get the node's", () => {
    check("senders");
  });

  it("DS-02 DS-06 DS-09 XIP-07: each family has its own cluster IP, frontends and endpoints", () => {
    check("families", ["IPv4"]);
  });
});

describe("policyd/services/evaluate: endpoints", () => {
  it("SVC-10 TERM-03 NE-05 EPS-04 EPS-05: ready endpoints are used, and without any those that serve while terminating", () => {
    check("usable");
  });

  it("EPS-04: only the ready condition decides, so endpoints that are published while not ready are used", () =>
    check("published_while_not_ready"));

  it("NOSEL-01 NOSEL-02 NOSEL-03 NOSEL-04 NOSEL-05 NOSEL-06 EPS-03 EPS-07: slices that users write themselves count", () =>
    check("manual"));

  it("EPS-01 EPS-06 EPS-08 EPS-09: slices are merged, and an endpoint in several of them counts once", () => {
    check("duplicates");
  });

  it("SVC-24: an endpoint that is a cluster IP is refused after its translation", () =>
    check("cluster_ip_as_endpoint"));

  it("NE-01 NE-02 NE-03 NE-04: without any endpoint every frontend refuses, whatever the traffic policies", () => {
    check("no_endpoints");
  });

  it("NE-01: TCP may be refused by a reset", () => check("resets"));

  it("ETP-01 ETP-02 ETP-03 ETP-04 ETP-05 ETP-06 ETP-07 ETP-08 LB-15 LB-16 XIP-06: the external policy Local", () => {
    check("external_local");
  });

  it("ITP-01 ITP-02 ITP-03 ITP-04: the internal policy Local applies only to the cluster IP", () =>
    check("internal_local"));

  it("TERM-01: policy Local falls back to the node's own terminating endpoints", () => check("terminating"));

  it("HINT-02 HINT-03 HINT-04 HINT-05 HINT-06: zone hints are used only under their conditions", () =>
    check("zone_hints"));

  it("HINT-04: a node without a zone uses all endpoints", () => check("no_zone"));

  it("TD-01: node hints come before zone hints", () => check("node_hints"));

  it("SA-01 SA-05 SA-07 SA-08: a client keeps its endpoint as long as that is a candidate", () => check("affinity"));
});
