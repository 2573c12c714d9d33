import { type InTurn, inTurn } from "../../../../support/node/in_turn.ts";
import assert from "node:assert/strict";
import { parseAddress } from "../../../../../kernel/ip/address.ts";
import { parseCidr } from "../../../../../kernel/ip/cidr.ts";
import { keyText } from "../../../../../kernel/nftables/encode/element.ts";
import { NodeJudge } from "../../../../../objects/nodes/node_judge.ts";
import type { Node } from "../../../../../objects/model.ts";
import type { DesiredElement } from "../../../../../policyd/ruleset/desired/desired_element.ts";
import { MasqueradeNetworks } from "../../../../../policyd/node/masquerade/masquerade_networks.ts";
import { node } from "../../../../support/routes/machine.ts";

const OWN = node("a", ["192.0.2.1"], ["10.244.1.0/24"]);

describe("policyd/node: networks towards which pods keep their address", () => {
  let claimed: Map<string, readonly DesiredElement[]>;
  let component: MasqueradeNetworks;
  let objects: InTurn;

  beforeEach(() => {
    claimed = new Map();
    const claim = (owner: string, claims: readonly DesiredElement[]): void => void claimed.set(owner, claims);
    const judge = new NodeJudge({ nodeName: "a" });
    const parts = { ruleset: { claim }, nodeName: "a", podCidrs: [], judge, further: [] };
    component = new MasqueradeNetworks(parts);
    objects = inTurn(judge, component);
  });

  const apply = (...nodes: readonly Node[]): void =>
    objects.apply(nodes.map((object) => ({ type: "set", kind: "Node", key: object.key, object })));

  const keptIn = (family: 4 | 6): readonly string[] =>
    [...claimed.values()]
      .flat()
      .filter(({ set }) => set === `kept_networks${family}`)
      .map(({ element }) => keyText(element.key))
      .toSorted();

  it("D1: a Node with an impossible pod CIDR or foreign addresses does not switch masquerade off (POD-19)", () => {
    apply(OWN, node("b", ["192.0.2.2"], ["10.244.2.0/24"]));
    const before = keptIn(4);
    assert.equal(before.length, 4, before.join());
    apply(node("c", ["10.244.2.7"], ["0.0.0.0/0"]), node("d", ["224.0.0.9"], ["10.244.1.0/25"]));
    assert.deepEqual(keptIn(4), before);
    apply(node("b", ["192.0.2.2"], ["10.244.4.0/24"]));
    assert.notDeepEqual(keptIn(4), before, "a valid Node changes the networks");
  });

  it("POD-19: pods keep leaving with the node's address while no Node is known, and a Node that stays away is forgotten", () => {
    apply(OWN, node("b", ["192.0.2.2"], ["10.244.2.0/24"]));
    const before = keptIn(4);
    objects.apply(["a", "b"].map((key) => ({ type: "delete", kind: "Node", key })));
    assert.deepEqual(keptIn(4), before);
    apply(OWN);
    assert.notDeepEqual(keptIn(4), before);
  });

  it("POD-19: of a pod's networks only the cluster's leave with the node's address", () => {
    const leaving = (network: string, addresses: readonly string[]): readonly string[] =>
      component
        .elementsOf({ network, addresses: addresses.map((text) => parseCidr(text)) })
        .map(({ element }) => keyText(element.key));
    const textOf = (address: string): string => keyText([parseAddress(address)]);
    apply(OWN);
    assert.deepEqual(leaving("storage", ["172.20.0.5/24"]), []);
    assert.deepEqual(leaving("by-hand", ["10.244.1.5/24", "172.20.0.5/24"]), [textOf("10.244.1.5")]);
    assert.deepEqual(leaving("drawbridge", ["10.9.0.5/24"]), [textOf("10.9.0.5")]);
  });
});
