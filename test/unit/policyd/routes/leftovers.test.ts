import assert from "node:assert/strict";
import { type Cidr, cidrContains, formatCidr, parseCidr } from "../../../../kernel/ip/cidr.ts";
import { judgeNodes } from "../../../../objects/nodes/judged_nodes.ts";
import { leftoverSteps } from "../../../../policyd/routes/leftovers.ts";
import { clusterNodes } from "../../../../policyd/routes/surroundings.ts";
import { machine, node } from "../../../support/routes/machine.ts";

const BRIDGE = 3;

/** Returns what is removed of the bridge's addresses. @param own and other the pod CIDRs of the nodes */
function removed(bridge: readonly string[], own: readonly string[], other: readonly string[], pods: readonly string[]) {
  const addresses = bridge.map((text) => ({ ...machine().addresses[0], index: BRIDGE, address: parseCidr(text) }));
  const state = machine({ addresses: addresses as ReturnType<typeof machine>["addresses"] });
  const nodes = [node("a", ["192.0.2.1"], own), node("b", ["192.0.2.2"], other)];
  const uses = (one: Cidr): boolean => pods.some((pod) => cidrContains(one, parseCidr(pod).address));
  const options = { encapsulation: "auto", bridge: "cni0", uses } as const;
  const steps = leftoverSteps(clusterNodes(judgeNodes(nodes, { nodeName: "a" }), "a"), options, state);
  return steps.map((step) => (step.type === "delete-address" ? formatCidr(step.address) : step.type));
}

describe("policyd/routes/leftovers", () => {
  const [now, before, other] = ["10.244.1.0/24", "10.244.9.1/24", "10.244.9.0/24"];
  for (const [what, args, gone] of [
    ["another node has the earlier CIDR", [["10.244.1.1/24", before], [now], [other], []], [before]],
    [
      "another node has it only in IPv6",
      [["10.244.1.1/24", "fd00:9::1/64"], [now], ["fd00:9::/64"], []],
      ["fd00:9::1/64"],
    ],
    ["the CIDR has grown around it", [["10.244.9.1/24"], ["10.244.8.0/21"], [], []], [before]],
    ["the CIDR has shrunk", [["10.244.0.1/16"], [now], [], []], ["10.244.0.1/16"]],
    [
      "the node has lost a family, which another node has",
      [["10.244.1.1/24", "fd00:9::1/64"], [now], [other, "fd00:9::/64"], ["10.244.1.7/32"]],
      ["fd00:9::1/64"],
    ],
    [
      "both families have moved",
      [[before, "fd00:9::1/64"], [now, "fd00:1::/64"], [other, "fd00:9::/64"], []],
      [before, "fd00:9::1/64"],
    ],
    [
      "two earlier CIDRs have gone to others",
      [[before, "10.244.7.1/25"], [now], [other, "10.244.7.0/24"], []],
      [before, "10.244.7.1/25"],
    ],
    ["a pod still has an address of it", [[before], [now], [other], ["10.244.9.7/32"]], []],
    ["nobody has the CIDR", [["10.244.1.1/24", before], [now], [], []], []],
    ["the kernel would remove another address with it", [[before, "10.244.9.4/24"], [now], [other], []], []],
    ["it is not a gateway that an ADD gives", [["10.244.9.4/24"], [now], [other], []], []],
  ] as const) {
    it(`STATE-08: the gateway of an earlier pod CIDR ${gone.length > 0 ? "leaves" : "stays on"} the bridge where ${what}`, () => {
      const [bridge, own, others, pods] = args;
      assert.deepEqual(removed(bridge, own, others, pods), gone);
    });
  }
});
