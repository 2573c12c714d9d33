import assert from "node:assert/strict";
import { dumpAddresses, parseInterfaceAddress } from "../../kernel/route/interface_address.ts";
import { requireBridgeNetfilter, requireKernel } from "../support/privilege.ts";
import { createLab } from "./lab.ts";
import { setBridgeNetfilter, twoNodes, UPLINK } from "./topology.ts";

describe("two nodes and a router", () => {
  before(function () {
    requireKernel(this);
  });

  it("are up with addresses that answer at once, and forward", () => {
    using lab = createLab("up");
    const { node1, node2, router } = twoNodes(lab);
    for (const namespace of [node1.node, node2.node, router]) {
      const addresses = namespace.route
        .dump(dumpAddresses())
        .flatMap((message) => parseInterfaceAddress(message) ?? []);
      assert.deepEqual(
        addresses.filter(({ tentative }) => tentative),
        [],
      );
      assert.equal(namespace.readSysctl("net/ipv4/ip_forward"), "1");
      assert.equal(namespace.readSysctl("net/ipv6/conf/all/forwarding"), "1");
    }
    assert.equal(node1.node.link(UPLINK).operationalState, 6);
  });

  it("have the MTU and the reverse path filter asked for", () => {
    using lab = createLab("options");
    const { node1, node2, router } = twoNodes(lab, { mtu: 1400, reversePathFilter: 1 }, { reversePathFilter: 2 });
    assert.equal(node1.node.link(UPLINK).mtu, 1400);
    assert.equal(router.link("to-node1").mtu, 1400);
    assert.equal(node2.node.link(UPLINK).mtu, 1500);
    assert.equal(node1.node.readSysctl(`net/ipv4/conf/${UPLINK}/rp_filter`), "1");
    assert.equal(node2.node.readSysctl("net/ipv4/conf/all/rp_filter"), "2");
  });

  it("keep their br_netfilter state apart", function () {
    requireBridgeNetfilter(this);
    using lab = createLab("states");
    const { node1, node2 } = twoNodes(lab);
    setBridgeNetfilter(node1.node, false);
    setBridgeNetfilter(node2.node, true);
    assert.equal(node1.node.readSysctl("net/bridge/bridge-nf-call-iptables"), "0");
    assert.equal(node2.node.readSysctl("net/bridge/bridge-nf-call-iptables"), "1");
    assert.equal(node2.node.readSysctl("net/bridge/bridge-nf-call-ip6tables"), "1");
  });
});
