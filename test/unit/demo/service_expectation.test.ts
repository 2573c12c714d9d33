import assert from "node:assert/strict";
import { type Address, parseAddress } from "../../../kernel/ip/address.ts";
import { answersText } from "../../demo/services/cells.ts";
import { CLIENTS, expectedCells, nameOfSource, type NodePlan, type Plan } from "../../demo/services/expectation.ts";
import { serviceShow } from "../../demo/services/frontends.ts";

type Addresses = Readonly<Record<4 | 6, Address>>;

const both = (v4: string, v6: string): Addresses => ({ 4: parseAddress(v4), 6: parseAddress(v6) });

const node = (number: number): NodePlan => ({
  uplink: both(`192.0.2.${number}2`, `2001:db8:0:${number}::2`),
  bridge: both(`10.244.${number}.1`, `fd00:244:${number}::1`),
});

const plan: Plan = {
  pods: ["pod-a", "pod-b", "pod-c", "pod-d", "pod-e"].map((name, i) => {
    const number = i < 3 ? 1 : 2;
    return {
      name,
      node: `node${number}` as const,
      addresses: both(`10.244.${number}.${i + 2}`, `fd00:244:${number}::${i + 2}`),
    };
  }),
  nodes: { node1: node(1), node2: node(2) },
  router: both("192.0.2.254", "2001:db8::254"),
};

const nodes = ([1, 2] as const).map((number) => ({
  apiVersion: "v1",
  kind: "Node",
  metadata: { name: `node${number}` },
  spec: { podCIDRs: [`10.244.${number}.0/24`, `fd00:244:${number}::/64`] },
}));

const { node1 } = plan.nodes;
const show = serviceShow({ pods: plan.pods, nodeAddresses: node1.uplink, outside: plan.router });

describe("the demo's expectations of Services", () => {
  const cells = expectedCells(plan, show.frontends, [...nodes, ...show.manifests]);
  const texts = (frontend: string, family: 4 | 6): readonly string[] =>
    CLIENTS.flatMap((client) =>
      cells
        .filter((cell) => cell.frontend === frontend && cell.client === client && cell.family === family)
        .map(({ outcome, answers }) => (outcome === "answered" ? answersText(answers).join(", ") : outcome)),
    );

  it("has one cell for each frontend, client and family", () => {
    assert.equal(cells.length, 13 * 4 * 2);
    assert.deepEqual(
      cells.filter(({ isSticky }) => isSticky).map(({ frontend }) => frontend),
      Array.from({ length: 8 }, () => "ClusterIP, affinity"),
    );
  });

  for (const family of [4, 6] as const) {
    it(`follows a packet from the client's node to the destination's, in IPv${family}`, () => {
      const own = "b c as node1's bridge, e as node1's uplink";
      assert.deepEqual(texts("ClusterIP", family), ["b c e as itself", "b c e as itself", own, own]);
      assert.deepEqual(texts("NodePort", family), [own, own, own, own]);
      assert.deepEqual(texts("externalIPs", family), [own, "b c as node2's uplink, e as node2's bridge", own, own]);
      assert.deepEqual(texts("NodePort, Local", family), [
        "b e as itself",
        "b as itself",
        "b as node1's bridge, e as node1's uplink",
        "b as itself",
      ]);
      assert.deepEqual(texts("ClusterIP, Local", family)[1], "no answer");
      assert.deepEqual(texts("LoadBalancer, ranges", family), ["no answer", "no answer", "no answer", own]);
      assert.deepEqual(new Set(texts("ClusterIP, no pods", family)), new Set(["refused"]));
    });

    it(`follows a packet to an address without a Service to its owner, in IPv${family}`, () => {
      const own = "b c as node1's bridge, e as node1's uplink";
      assert.deepEqual(texts("headless", family), ["b c e as itself", "b c e as itself", own, "no route"]);
      assert.deepEqual(texts("ExternalName", family), [
        "router as node1's uplink",
        "router as node2's uplink",
        "router as node1's uplink",
        "router as itself",
      ]);
    });
  }

  it("names the owner of a source address", () => {
    assert.equal(nameOfSource(plan, "pod-a", parseAddress("10.244.1.2")), "itself");
    assert.equal(nameOfSource(plan, "pod-b", parseAddress("10.244.1.2")), "pod-a");
    assert.equal(nameOfSource(plan, "node1", parseAddress("10.244.1.1")), "node1's bridge");
    assert.equal(nameOfSource(plan, "router", parseAddress("192.0.2.254")), "itself");
    assert.equal(nameOfSource(plan, "pod-a", parseAddress("198.51.100.1")), "198.51.100.1");
  });
});
