import assert from "node:assert/strict";
import { formatAddress } from "../../../../kernel/ip/address.ts";
import { formatCidr } from "../../../../kernel/ip/cidr.ts";
import { judgeNodes } from "../../../../objects/nodes/judged_nodes.ts";
import { peersOf } from "../../../../policyd/routes/peers.ts";
import { node } from "../../../support/routes/machine.ts";

describe("policyd/routes/peers", () => {
  it("POD-21: a peer has its Node's first address of each family and its pod CIDRs", () => {
    const nodes = [
      node("c", ["192.0.2.3", "2001:db8::3", "192.0.2.4"], ["10.244.3.0/24", "fd00:244:3::/64"]),
      node("a", ["192.0.2.1"], ["10.244.1.0/24"]),
    ];
    const { own, others, problems } = peersOf(judgeNodes(nodes, { nodeName: "a" }), "a");
    assert.equal(own?.name, "a");
    assert.deepEqual(problems, []);
    const [peer, ...more] = others;
    assert.deepEqual(more, []);
    assert.deepEqual(peer?.podCidrs.map(formatCidr), ["10.244.3.0/24", "fd00:244:3::/64"]);
    assert.deepEqual(
      [peer?.primary, peer?.addresses[4], peer?.addresses[6]].map((one) => one && formatAddress(one)),
      ["192.0.2.3", "192.0.2.3", "2001:db8::3"],
    );
  });
});
