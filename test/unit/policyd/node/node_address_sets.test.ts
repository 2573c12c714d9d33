import { inTurn } from "../../../support/node/in_turn.ts";
import assert from "node:assert/strict";
import { formatAddress } from "../../../../kernel/ip/address.ts";
import { type Cidr, parseCidr } from "../../../../kernel/ip/cidr.ts";
import { NodeJudge } from "../../../../objects/nodes/node_judge.ts";
import type { DesiredElement } from "../../../../policyd/ruleset/desired/desired_element.ts";
import { NodeAddressSets } from "../../../../policyd/node/node_address_sets.ts";
import type { NodePortAddresses } from "../../../../policyd/services/rules/context.ts";
import { formatClaims, readScenario } from "../../../support/services/scenario.ts";

const node = (name: string, cidr: string, internal: string, external = "198.51.100.1"): string => `---
apiVersion: v1
kind: Node
metadata: {name: ${name}}
spec: {podCIDRs: ["${cidr}"]}
status: {addresses: [{type: InternalIP, address: ${internal}}, {type: ExternalIP, address: ${external}}]}
`;

function setUp(nodePortAddresses?: NodePortAddresses, ...ownCidrs: readonly Cidr[]) {
  const claims = new Map<string, readonly DesiredElement[]>();
  const ruleset = { claim: (owner: string, of: readonly DesiredElement[]) => void claims.set(owner, of) };
  const judge = new NodeJudge({ nodeName: "node1", ownCidrs });
  const guard = new NodeAddressSets({ ruleset, nodeName: "node1", isTunnel: false, nodePortAddresses, judge });
  const objects = inTurn(judge, guard);
  const apply = (text: string): void =>
    objects.apply(readScenario(text).map((object) => ({ type: "set", kind: object.kind, key: object.key, object })));
  /** Returns the elements of a set as texts. */
  const elements = (set: string): readonly string[] => {
    const [, text = ""] =
      new RegExp(`set ${set} \\{[^=]*elements = \\{([^}]*)`).exec(formatClaims([...claims.values()].flat())) ?? [];
    return text.split(",").flatMap((one) => one.trim() || []);
  };
  return { guard, objects, apply, elements };
}

describe("policyd/node: what Nodes imply", () => {
  it("D1: neither an impossible pod CIDR nor one of two nodes becomes a range of pods", () => {
    const { apply, elements } = setUp([]);
    apply(node("node2", "0.0.0.0/0", "192.0.2.2"));
    assert.deepEqual(elements("pods4"), []);
    apply(node("node2", "10.244.2.0/24", "192.0.2.2"));
    assert.deepEqual(elements("pods4"), ["10.244.2.0/24"]);
    apply(node("node3", "10.244.2.0/25", "192.0.2.3"));
    assert.deepEqual(elements("pods4"), []);
  });

  it("SVC-13: the configured ranges of this node's pods count while its Node has none, and no longer", () => {
    const { objects, apply, elements } = setUp([], parseCidr("10.244.0.0/16"));
    assert.deepEqual(elements("pods4"), ["10.244.0.0/16"]);
    apply(node("node1", "10.244.1.0/24", "192.0.2.1"));
    assert.deepEqual(elements("pods4"), ["10.244.1.0/24"]);
    objects.apply([{ type: "delete", kind: "Node", key: "node1" }]);
    assert.deepEqual(elements("pods4"), ["10.244.0.0/16"]);
  });

  it("GUARD-17 GUARD-19: the addresses of nodes include those of their bridges, and go with the Node", () => {
    const { objects, apply, elements } = setUp([]);
    apply(node("node1", "10.244.1.0/24", "192.0.2.1") + node("node2", "10.244.2.0/24", "192.0.2.2", "198.51.100.2"));
    const own = ["10.244.1.1", "10.244.1.255", "192.0.2.1", "198.51.100.1"];
    const others = ["10.244.2.1", "10.244.2.255", "192.0.2.2", "198.51.100.2"];
    assert.deepEqual(elements("tunnel_nodes4").toSorted(), [...own, ...others].toSorted());
    objects.apply([{ type: "delete", kind: "Node", key: "node2" }]);
    assert.deepEqual(elements("tunnel_nodes4").toSorted(), own);
    assert.deepEqual(elements("othernodeports4"), []);
  });

  it("NODE-12: other nodes serve node ports at the addresses that nodePortAddresses chooses, and this node is not one of them", () => {
    const serving = (nodePortAddresses: NodePortAddresses | undefined): readonly string[] => {
      const { guard, apply, elements } = setUp(nodePortAddresses);
      apply(node("node1", "10.244.1.0/24", "192.0.2.1") + node("node2", "10.244.2.0/24", "192.0.2.2", "198.51.100.2"));
      const found = elements("othernodeports4").toSorted();
      assert.deepEqual([...guard.servingElsewhere()].map(formatAddress).toSorted(), found);
      return found;
    };
    assert.deepEqual(serving([]), ["10.244.2.1", "192.0.2.2", "198.51.100.2"]);
    assert.deepEqual(serving(["primary"]), ["192.0.2.2"]);
  });

  it("NODE-12: where another program serves Services, no address of other nodes counts as serving node ports", () => {
    const { guard, apply } = setUp(undefined);
    apply(node("node2", "10.244.2.0/24", "192.0.2.2"));
    assert.deepEqual([...guard.servingElsewhere()], []);
  });
});
