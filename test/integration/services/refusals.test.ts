import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { ServiceDropReason } from "../../../policyd/services/rules/check_part.ts";
import type { LabNamespace } from "../../lab/namespace.ts";
import { parseSnmp, parseSnmp6 } from "../../lab/probe/counters.ts";
import { requireKernel } from "../../support/privilege.ts";
import { SERVICE_PORT, serviceManifest } from "../../support/services/manifest.ts";
import { CLUSTER_IPS, textsOf, TrafficLab } from "../../support/services/traffic_lab.ts";

const NODE_PORT = 40_080;
const LOCAL = { externalTrafficPolicy: "Local", internalTrafficPolicy: "Local" };
/** The number of connections for which five standard deviations around a share of a half are 0.29 to 0.71. */
const CONNECTIONS = 144;

/** Returns the number of ICMP errors of both families that a namespace has received. */
function unreachables(namespace: LabNamespace): number {
  const [v4 = "", v6 = ""] = namespace.inside(() =>
    ["snmp", "snmp6"].map((file) => readFileSync(`/proc/thread-self/net/${file}`, "latin1")),
  );
  return (parseSnmp(v4, "Icmp").get("InDestUnreachs") ?? 0) + (parseSnmp6(v6).get("Icmp6InDestUnreachs") ?? 0);
}

describe("Services that refuse", function () {
  this.timeout(60_000);
  let on: TrafficLab;

  before(function () {
    requireKernel(this);
    on = new TrafficLab("refusals", false);
    on.route([CLUSTER_IPS]);
  });

  after(() => on?.[Symbol.dispose]());

  const texts = textsOf(CLUSTER_IPS);
  const none = (): string => serviceManifest("none", texts, [], LOCAL, NODE_PORT);
  const tcp = { transports: ["tcp"] } as const;

  it("NE-07: a client on the node is refused too, though it may get the refusal only for its second SYN", async () => {
    on.here.apply(none());
    await on.refused(on.flows(on.nodes.node1.node, CLUSTER_IPS));
  });

  it("NE-01: with tcpReset TCP is refused by a reset, and all else by ICMP", async () => {
    on.here.restart({ rules: { tcpReset: true } });
    on.here.apply(none());
    const own = on.addressesOf("node1");
    const everywhere = (options: object) =>
      [on.client.namespace, on.nodes.router, on.nodes.node1.node].flatMap((from) => [
        ...on.flows(from, CLUSTER_IPS, options),
        ...on.flows(from, own, { port: NODE_PORT, ...options }),
      ]);
    const everyone = [on.client.namespace, on.nodes.router, on.nodes.node1.node];
    const before = everyone.map(unreachables);
    await on.refused(everywhere(tcp));
    assert.deepEqual(everyone.map(unreachables), before, "no ICMP error for TCP");
    await on.refused(everywhere({ transports: ["udp"] }));
  });

  it("NE-01 ETP-03 SVC-08: with tcpReset no reset comes from a port without a Service, nor without a local endpoint", async () => {
    on.here.restart({ rules: { tcpReset: true } });
    on.here.apply(none());
    const before = unreachables(on.client.namespace);
    const flows = on.flows(on.client.namespace, CLUSTER_IPS, { port: SERVICE_PORT + 1, ...tcp });
    await on.refused(flows);
    assert.ok(unreachables(on.client.namespace) >= before + flows.length, "by ICMP");
    on.here.apply(serviceManifest("none", texts, on.at(on.far), LOCAL, NODE_PORT));
    await on.silent(
      on.flows(on.nodes.router, on.addressesOf("node1"), { port: NODE_PORT }),
      ServiceDropReason.NO_LOCAL,
    );
    await on.silent(on.flows(on.client.namespace, CLUSTER_IPS), ServiceDropReason.NO_LOCAL);
    on.here.restart({});
    on.here.apply(none());
    const icmp = unreachables(on.client.namespace);
    await on.refused(on.flows(on.client.namespace, CLUSTER_IPS, tcp));
    assert.ok(unreachables(on.client.namespace) > icmp, "by ICMP again");
  });

  it("SVC-11: an endpoint that does not answer fails its share of the connections, and none is tried elsewhere", async () => {
    const dead = on.here.pod("dead");
    for (const key of ["net/ipv4/icmp_ratelimit", "net/ipv6/icmp/ratelimit"]) dead.namespace.writeSysctl(key, "0");
    for (const protocol of ["tcp", "udp"] as const) {
      on.here.apply(serviceManifest("half", texts, on.at(on.near, dead)));
      const flows = Array.from({ length: CONNECTIONS / 2 }, () =>
        on.flows(on.client.namespace, CLUSTER_IPS, { transports: [protocol] }),
      ).flat();
      const results = await on.prober.run(flows, { timeoutMilliseconds: 3000 });
      const failed = results.filter(({ reached }) => !reached);
      for (const { why } of failed) assert.match(why, /refused/);
      for (const { reached, seenBy } of results) assert.equal(seenBy, reached ? on.near.namespace : undefined);
      const share = failed.length / results.length;
      assert.ok(share > 0.29 && share < 0.71, `${protocol}: ${failed.length} of ${results.length} failed`);
    }
  });
});
