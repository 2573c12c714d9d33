import { atOnce } from "../../../../../policyd/lib/sliced_work.ts";
import assert from "node:assert/strict";
import type { ConntrackEntry } from "../../../../../kernel/conntrack/entry.ts";
import { type Address, familyOf, parseAddress } from "../../../../../kernel/ip/address.ts";
import { FrontendHolders } from "../../../../../policyd/services/elements/arbitration.ts";
import { FrontendIndex } from "../../../../../policyd/services/stale_flows/frontend_index.ts";
import { isStale, questionsFor } from "../../../../../policyd/services/stale_flows/staleness.ts";
import { servedFrontends } from "../../../../../policyd/services/stale_flows/served_frontends.ts";
import { udpEntry } from "../../../../support/services/udp_entry.ts";
import { indexed, readScenario } from "../../../../support/services/scenario.ts";

const NODE = parseAddress("192.0.2.1");

interface EndpointSpec {
  readonly address: string;
  readonly conditions?: Readonly<Record<string, boolean>>;
}

function manifest(name: string, clusterIp: string, endpoints: readonly EndpointSpec[], spec: object = {}): string {
  const service = {
    apiVersion: "v1",
    kind: "Service",
    metadata: { name },
    spec: {
      clusterIPs: [clusterIp],
      type: "NodePort",
      ports: [
        { name: "dns", port: 53, protocol: "UDP", nodePort: 30_053 },
        { name: "tcp", port: 53, protocol: "TCP" },
      ],
      ...spec,
    },
  };
  const slice = {
    apiVersion: "discovery.k8s.io/v1",
    kind: "EndpointSlice",
    metadata: { name: `${name}-1`, labels: { "kubernetes.io/service-name": name } },
    addressType: clusterIp.includes(":") ? "IPv6" : "IPv4",
    ports: [
      { name: "dns", port: 5353, protocol: "UDP" },
      { name: "tcp", port: 5353, protocol: "TCP" },
    ],
    endpoints: endpoints.map(({ address, ...rest }) => ({ addresses: [address], nodeName: "node2", ...rest })),
  };
  return `---\n${JSON.stringify(service)}\n---\n${JSON.stringify(slice)}\n`;
}

/** An index that learns of Services one after the other, and checks flows. */
function setUp() {
  const index = new FrontendIndex();
  const tell = (text: string): void => {
    const objects = readScenario(text);
    const { index: services, context } = indexed(objects, "node1");
    const holders = new FrontendHolders();
    for (const object of objects) if (object.kind === "Service") holders.replace(object.key, object, context);
    for (const object of objects) {
      if (object.kind !== "Service") continue;
      const served = { service: object, slices: services.slicesOf(object.key), context, holders };
      index.replace(object.key, atOnce(servedFrontends(served, "UDP")));
    }
  };
  /** Takes the suspicions and puts them back, so that only {@link acquit} removes them. */
  const suspicions = (): ReturnType<FrontendIndex["take"]> => {
    index.ripen();
    const taken = index.take();
    index.putBack(taken);
    return taken;
  };
  const acquit = (): void => {
    index.ripen();
    index.take();
  };
  const judge = (entry: ConntrackEntry, own: readonly Address[] = [NODE]): boolean =>
    isStale(entry, {
      suspicions: suspicions(),
      isFrontend: (id) => index.has(id),
      isTarget: (id, target) => index.hasTarget(id, target),
      servesNodePorts: (address) => own.includes(address),
    });
  return { index, tell, judge, acquit, suspicions };
}

for (const [family, { vip, first, second, other }] of [
  [4, { vip: "10.96.0.10", first: "10.244.1.2", second: "10.244.2.3", other: "10.244.3.4" }],
  [6, { vip: "fd00:96::10", first: "fd00:244:1::2", second: "fd00:244:2::3", other: "fd00:244:3::4" }],
] as const) {
  describe(`services/stale_flows: staleness of flows, IPv${family}`, () => {
    it("SVC-27: a flow to a former endpoint is stale, and one to a present endpoint is not", () => {
      const { tell, judge } = setUp();
      tell(manifest("a", vip, [{ address: first }, { address: second }]));
      tell(manifest("a", vip, [{ address: second }]));
      assert.ok(judge(udpEntry([vip, 53], [first, 5353])));
      assert.ok(!judge(udpEntry([vip, 53], [second, 5353])));
      assert.ok(judge(udpEntry([vip, 53], [second, 5354])), "another port of the endpoint");
      assert.ok(judge(udpEntry([vip, 53], [second, 535])), "a port with the same first digits");
      assert.ok(!judge(udpEntry([vip, 54], [first, 5353])), "no frontend");
      assert.ok(!judge(udpEntry([other, 53], [first, 5353])), "no frontend");
    });

    it("SVC-27: without endpoints all flows to former ones are stale", () => {
      const { tell, judge } = setUp();
      tell(manifest("a", vip, [{ address: first }]));
      tell(manifest("a", vip, []));
      assert.ok(judge(udpEntry([vip, 53], [first, 5353])));
      assert.ok(!judge(udpEntry([vip, 53], [vip, 53])), "an untranslated flow stays, since its next packet is refused");
    });

    it("SVC-27: a flow that was not translated is stale as soon as there is an endpoint", () => {
      const { acquit, tell, judge } = setUp();
      tell(manifest("a", vip, []));
      acquit();
      assert.ok(!judge(udpEntry([vip, 53], [vip, 53])));
      tell(manifest("a", vip, [{ address: first }]));
      assert.ok(judge(udpEntry([vip, 53], [vip, 53])));
      assert.ok(!judge(udpEntry([vip, 53], [first, 5353])));
    });

    it("SVC-27: flows to the endpoints of a Service that is gone are stale, and flows of other translations are not", () => {
      const { index, tell, judge } = setUp();
      tell(manifest("a", vip, [{ address: first }]));
      index.replace("default/a", new Map());
      assert.ok(judge(udpEntry([vip, 53], [first, 5353])));
      assert.ok(!judge(udpEntry([vip, 53], [other, 5353])));
      assert.ok(!judge(udpEntry([vip, 53], [vip, 53])));
    });

    it("TERM-04: an endpoint that terminates and serves keeps its flows, and one that no longer serves loses them", () => {
      const { tell, judge } = setUp();
      const ending = (serving: boolean): EndpointSpec => ({
        address: first,
        conditions: { ready: false, serving, terminating: true },
      });
      tell(manifest("a", vip, [{ address: first }, { address: other }]));
      tell(manifest("a", vip, [ending(true), { address: second }]));
      assert.ok(judge(udpEntry([vip, 53], [other, 5353])), "the frontend is suspected");
      assert.ok(!judge(udpEntry([vip, 53], [first, 5353])));
      tell(manifest("a", vip, [ending(false), { address: second }]));
      assert.ok(judge(udpEntry([vip, 53], [first, 5353])));
    });

    it("SVC-27 ETP-02: policies and hints send new clients elsewhere and make no flow stale", () => {
      const { tell, judge } = setUp();
      tell(manifest("a", vip, [{ address: first }, { address: other }]));
      const local = { externalTrafficPolicy: "Local", internalTrafficPolicy: "Local" };
      tell(manifest("a", vip, [{ address: first }], local));
      assert.ok(judge(udpEntry([vip, 53], [other, 5353])), "the frontend is suspected");
      assert.ok(!judge(udpEntry([vip, 53], [first, 5353])));
    });

    it("SVC-27: a flow to an endpoint that is its own frontend is not stale, and one to a former endpoint there is", () => {
      const { index, tell, judge } = setUp();
      const own = { externalIPs: [first], ports: [{ name: "dns", port: 5353, protocol: "UDP" }] };
      tell(manifest("a", vip, [{ address: first }], own));
      index.suspectAll();
      assert.ok(!judge(udpEntry([first, 5353], [first, 5353])));
      tell(manifest("a", vip, [{ address: second }], own));
      assert.ok(judge(udpEntry([first, 5353], [first, 5353])));
    });

    it("flows of unchanged frontends are not checked", () => {
      const { acquit, suspicions, tell, judge } = setUp();
      tell(manifest("a", vip, [{ address: first }]));
      acquit();
      tell(manifest("a", vip, [{ address: first }, { address: second }]));
      assert.equal(suspicions().size, 0, "an additional endpoint makes no flow stale");
      assert.ok(!judge(udpEntry([vip, 53], [other, 5353])));
      tell(manifest("b", family === 4 ? "10.96.0.11" : "fd00:96::11", [], { ports: [{ port: 80 }] }));
      assert.equal(suspicions().size, 0, "nor TCP");
    });

    it("a frontend that moves from one Service to another at once is checked by the new one", () => {
      for (const order of [
        ["a", "b"],
        ["b", "a"],
      ]) {
        const { index, tell, judge } = setUp();
        tell(manifest("a", vip, [{ address: first }]));
        const objects = [manifest("b", vip, [{ address: second }])];
        const steps: Record<string, () => void> = {
          a: () => index.replace("default/a", new Map()),
          b: () => tell(objects.join("")),
        };
        for (const step of order) steps[step]?.();
        assert.ok(judge(udpEntry([vip, 53], [first, 5353])), order.join());
        assert.ok(!judge(udpEntry([vip, 53], [second, 5353])), order.join());
      }
    });

    it("the kernel is asked for one list, filtered by what the frontends have in common", () => {
      const { suspicions, tell } = setUp();
      const frontends = () => [...suspicions().values()].map(({ frontend }) => frontend);
      tell(
        manifest("a", vip, [{ address: first }], {
          type: "ClusterIP",
          ports: [{ name: "dns", port: 53, protocol: "UDP" }],
        }),
      );
      const address = parseAddress(vip);
      assert.equal(familyOf(address), family);
      assert.deepEqual(questionsFor(frontends()), [
        { family, protocol: "udp", original: { destinationPort: 53, destination: address } },
      ]);
      tell(manifest("b", family === 4 ? "10.96.0.11" : "fd00:96::11", [{ address: first }]));
      assert.deepEqual(questionsFor(frontends()), [{ family, protocol: "udp", original: {} }]);
      assert.deepEqual(questionsFor([]), []);
    });
  });
}

describe("services/stale_flows: node ports", () => {
  it("SVC-27 SVC-18: a node port counts only on the node's own addresses, and after frontends by address", () => {
    const { acquit, tell, judge } = setUp();
    tell(manifest("a", "10.96.0.10", [{ address: "10.244.1.2" }, { address: "10.244.2.3" }]));
    tell(manifest("a", "10.96.0.10", [{ address: "10.244.2.3" }]));
    const stale = udpEntry(["192.0.2.1", 30_053], ["10.244.1.2", 5353]);
    assert.ok(judge(stale));
    assert.ok(!judge(stale, []), "the address is not the node's, or does not serve NodePorts");
    assert.ok(!judge(udpEntry(["192.0.2.1", 30_053], ["10.244.2.3", 5353])));
    // Another Service has the port on this address.
    acquit();
    const taken = {
      type: "ClusterIP",
      externalIPs: ["192.0.2.1"],
      ports: [{ name: "dns", port: 30_053, protocol: "UDP" }],
    };
    tell(manifest("b", "10.96.0.11", [{ address: "10.244.1.2" }], taken));
    acquit();
    tell(manifest("a", "10.96.0.10", []));
    assert.ok(!judge(udpEntry(["192.0.2.1", 30_053], ["10.244.1.2", 5353])));
  });
});
