import assert from "node:assert/strict";
import { add, type Configuration } from "../../lab/cni.ts";
import type { Lab } from "../../lab/lab.ts";
import { twoNodes, type WiredNode } from "../../lab/topology.ts";
import { podResult } from "../../support/cni/add_result.ts";
import { addressesOf, ipJson } from "../../support/cni/kernel_state.ts";
import { testLab } from "../../support/suite_lab.ts";

describe("an ADD and the addresses of others", function () {
  this.timeout(60_000);
  let lab: Lab;
  let wired: WiredNode;

  beforeEach(function () {
    lab = testLab(this, "taken");
    wired = twoNodes(lab).node1;
  });

  const ipamWith = (subnet: string): { readonly ipam: Configuration } => ({
    ipam: { type: "host-local", dataDir: wired.node.dataDir, ranges: [[{ subnet }]] },
  });

  it("POD-08: a gateway that a pod has, or that is in another link's network, is refused, and nothing changes", () => {
    const state = (): readonly unknown[] => [
      ...["cni0", "cni1"].map((link) => addressesOf(wired.node, link)),
      ipJson(wired.node, "route"),
    ];
    podResult(add(wired, lab.pod("a"), ipamWith("10.244.0.0/23"), { arguments: "IP=10.244.1.1" }));
    wired.node.exec("ip", ["link", "add", "cni1", "type", "bridge"]);
    wired.node.exec("ip", ["link", "set", "cni1", "up"]);
    const before = state();
    for (const [subnet, bridge, says] of [
      [
        "10.244.1.0/24",
        "cni0",
        /^gateway: 10\.244\.1\.1 .* bridge cni0: a pod has it \(.*\/drawbridge\/10\.244\.1\.1\)/,
      ],
      ["192.0.2.8/29", "cni1", /^gateway: 192\.0\.2\.9 .*: link uplink has a route to it \(192\.0\.2\.8\/29\)/],
    ] as const) {
      const { error } = add(wired, lab.pod(`b${subnet.length}${bridge}`), { ...ipamWith(subnet), bridge });
      assert.equal(error?.code, 101, `${subnet} ${bridge}`);
      assert.match(error?.msg ?? "", says);
    }
    assert.deepEqual(state(), before);
    podResult(add(wired, lab.pod("smaller"), { ...ipamWith("192.0.2.12/30"), bridge: "cni1" }));
  });

  it("FOREIGN-04: no pod gets an address that the node has on another link", () => {
    wired.node.exec("ip", ["addr", "add", "10.244.1.2/32", "dev", "lo"]);
    assert.equal(podResult(add(wired, lab.pod("a"))).ips[0]?.address, "10.244.1.3/32");
  });

  it("B3: the bridge has IPv6 although new links of the node, or the bridge itself, have it off", () => {
    const { node } = wired;
    for (const link of ["default", "cni0"]) {
      node.writeSysctl(`net/ipv6/conf/${link}/disable_ipv6`, "1");
      podResult(add(wired, lab.pod(link)));
      assert.ok(addressesOf(node, "cni0").includes("fd00:244:1::1/64"), link);
    }
  });

  it("POD-14: a program in the pod, and the plugin sbr, may add routes by the pod's gateways", () => {
    const pod = lab.pod("a");
    podResult(add(wired, pod));
    pod.exec("ip", ["route", "add", "203.0.113.5", "via", "10.244.1.1"]);
    pod.exec("ip", ["-6", "route", "add", "2001:db8:9::5", "via", "fd00:244:1::1"]);
  });
});
