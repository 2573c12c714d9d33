import assert from "node:assert/strict";
import { parseAddress } from "../../../kernel/ip/address.ts";
import { parseCidr } from "../../../kernel/ip/cidr.ts";
import { keyText } from "../../../kernel/nftables/element.ts";
import type { Node } from "../../../policyd/cluster/model.ts";
import type { Claim } from "../../../policyd/dataplane/claim.ts";
import { MasqueradeDataplane } from "../../../policyd/node/masquerade_dataplane.ts";
import { node } from "../../support/routes/machine.ts";

const OWN = node("a", ["192.0.2.1"], ["10.244.1.0/24"]);

describe("policyd/node: where pods keep their address", () => {
  let kept: readonly string[];
  let dataplane: MasqueradeDataplane;

  beforeEach(() => {
    const claim = (_: string, claims: readonly Claim[]): void => {
      kept = claims.filter(({ set }) => set === "kept_networks4").map(({ element }) => keyText(element.key));
    };
    const parts = { ruleset: { claim }, nodeName: "a", podCidrs: [], serviceCidrs: [], further: [] };
    dataplane = new MasqueradeDataplane(parts);
  });

  const apply = (...nodes: readonly Node[]): void =>
    dataplane.apply(nodes.map((object) => ({ type: "set", kind: "Node", key: object.key, object })));

  it("D1: a Node with everything for its pods, or another's addresses, does not switch masquerade off (POD-19)", () => {
    apply(OWN, node("b", ["192.0.2.2"], ["10.244.2.0/24"]));
    const before = kept;
    assert.equal(before.length, 4, before.join());
    apply(node("c", ["10.244.2.7"], ["0.0.0.0/0"]), node("d", ["224.0.0.9"], ["10.244.1.0/25"]));
    assert.deepEqual(kept, before);
    apply(node("b", ["192.0.2.2"], ["10.244.4.0/24"]));
    assert.notDeepEqual(kept, before, "a Node that is believed counts");
  });

  it("POD-19: of a pod's networks only the cluster's leave with the node's address", () => {
    const leaving = (network: string, addresses: readonly string[]): readonly string[] =>
      dataplane
        .elementsOf({ network, addresses: addresses.map((text) => parseCidr(text)) })
        .map(({ element }) => keyText(element.key));
    const textOf = (address: string): string => keyText([parseAddress(address)]);
    apply(OWN);
    assert.deepEqual(leaving("storage", ["172.20.0.5/24"]), []);
    assert.deepEqual(leaving("by-hand", ["10.244.1.5/24", "172.20.0.5/24"]), [textOf("10.244.1.5")]);
    assert.deepEqual(leaving("drawbridge", ["10.9.0.5/24"]), [textOf("10.9.0.5")]);
  });
});
