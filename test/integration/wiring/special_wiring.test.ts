import assert from "node:assert/strict";
import { formatAddress, parseAddress } from "../../../kernel/ip/address.ts";
import type { MacAddress } from "../../../kernel/ip/mac.ts";
import { parseLink } from "../../../kernel/route/link.ts";
import { AF_BRIDGE, Notification } from "../../../kernel/route/notification.ts";
import { add, type Configuration, del } from "../../lab/cni.ts";
import type { Lab, LabNode, LabPod } from "../../lab/lab.ts";
import { Prober } from "../../lab/probe/prober.ts";
import { setBridgeNetfilter, twoNodes, type WiredNode } from "../../lab/topology.ts";
import { eventually } from "../../support/guard/guarded_node.ts";
import { mapping } from "../../support/host_ports/published.ts";
import { normalListing } from "../../support/nftables/listing.ts";
import { requireBridgeNetfilter } from "../../support/privilege.ts";
import { hostInterfaceOf, podResult } from "../../support/cni/add_result.ts";
import { addressesOf, bridgePort, ipJson, nodeState, nothingHeld } from "../../support/cni/kernel_state.ts";
import { testLab } from "../../support/suite_lab.ts";

describe("how ADD wires unusual pods", function () {
  this.timeout(300_000);
  let lab: Lab;
  let wired: WiredNode;

  beforeEach(function () {
    lab = testLab(this, "special");
    wired = twoNodes(lab).node1;
  });

  const ipamWith = (...subnets: readonly string[]): { readonly ipam: Configuration } => ({
    ipam: { type: "host-local", dataDir: wired.node.dataDir, ranges: subnets.map((subnet) => [{ subnet }]) },
  });

  /** Records the MAC addresses of a link that the kernel reports until `end`. */
  async function reportedMacs(node: LabNode, name: string): Promise<{ end(): Promise<readonly MacAddress[]> }> {
    const events = node.notifications();
    const macs = new Set<MacAddress>();
    let isFenced = false;
    await events.subscribe(
      { kind: "route", groups: ["link"] },
      {
        onMessages: (messages) => {
          for (const message of messages) {
            if (message.type !== Notification.NEWLINK || message.body[0] === AF_BRIDGE) continue;
            const link = parseLink(message);
            if (link.name === name && link.mac !== undefined) macs.add(link.mac);
            isFenced ||= link.name === "fence";
          }
        },
        onOverrun: () => assert.fail("notifications were lost"),
        onFailure: (error) => assert.fail(error),
      },
    );
    return {
      end: async () => {
        try {
          node.exec("ip", ["link", "add", "fence", "type", "veth"]);
          assert.ok(await eventually(() => isFenced), "the last notification");
          return [...macs];
        } finally {
          await events.stop();
        }
      },
    };
  }

  function defaultRoutes(pod: LabPod): readonly unknown[] {
    return [...ipJson(pod, "route", "show", "default"), ...ipJson(pod, "-6", "route", "show", "default")].map(
      ({ gateway, dev }) => [gateway, dev],
    );
  }

  /** Returns the addresses that do not answer the first echo request of a pod. */
  async function unreached(from: LabPod, addresses: readonly string[]): Promise<readonly string[]> {
    using prober = new Prober(lab);
    const flows = addresses.map((text) => {
      const to = { address: parseAddress(text), port: 0 };
      return { protocol: "icmp", from, to } as const;
    });
    const results = await prober.run(flows, { timeoutMilliseconds: 5000, repeats: false });
    return results
      .filter(({ reached }) => !reached)
      .map(({ flow, why }) => `${formatAddress(flow.to.address)}: ${why}`);
  }

  it("B7: a bridge made by hand keeps its MAC while ports come and go, and its pods are reached at once", async () => {
    const { node } = wired;
    node.exec("ip", ["link", "add", "br9", "type", "bridge"]);
    node.exec("ip", ["link", "set", "br9", "up"]);
    const mac = node.link("br9").mac;
    assert.ok(mac !== undefined);
    const reported = await reportedMacs(node, "br9");
    const pods = ["a", "b"].map((name) => lab.pod(name));
    for (const pod of pods) {
      const { interfaces, ips } = podResult(add(wired, pod, { bridge: "br9" }));
      assert.deepEqual(
        await unreached(
          pod,
          ips.map((ip) => ip.gateway),
        ),
        [],
      );
      assert.deepEqual([interfaces[0]?.mac, node.link("br9").mac], [mac, mac]);
    }
    // The address must not change even for a moment: packets of running pods would be lost.
    assert.deepEqual(await reported.end(), [mac]);
    // This port has the lowest possible address, which a bridge without an address of its own takes over.
    node.exec("ip", ["link", "add", "low", "address", "02:00:00:00:00:01", "type", "veth", "peer", "name", "low-peer"]);
    node.exec("ip", ["link", "set", "low", "master", "br9"]);
    assert.equal(node.link("br9").mac, mac);
    node.exec("ip", ["link", "del", "low"]);
    for (const pod of pods) {
      assert.equal(del(wired, pod, { bridge: "br9" }).exitCode, 0);
      assert.equal(node.link("br9").mac, mac);
    }
  });

  it("a bridge left down by a killed ADD comes up protected", () => {
    const { node } = wired;
    node.exec("ip", ["link", "add", "cni0", "type", "bridge"]);
    node.writeSysctl("net/ipv6/conf/cni0/accept_ra", "1");
    node.writeSysctl("net/ipv6/conf/cni0/accept_dad", "1");
    podResult(add(wired, lab.pod("a")));
    assert.equal(node.link("cni0").up, true);
    assert.equal(node.readSysctl("net/ipv6/conf/cni0/accept_ra"), "0");
    assert.equal(node.readSysctl("net/ipv6/conf/cni0/accept_dad"), "0");
  });

  it("POD-13: ADD and DEL work with kubenet's configuration of one subnet and addIf", async () => {
    const overrides = {
      cniVersion: "0.3.1",
      name: "kubenet",
      bridge: "cbr0",
      mtu: 1460,
      addIf: "eth0",
      isGateway: true,
      ipMasq: false,
      hairpinMode: true,
      ipam: {
        type: "host-local",
        dataDir: wired.node.dataDir,
        subnet: "10.244.1.0/24",
        gateway: "10.244.1.1",
        routes: [{ dst: "0.0.0.0/0" }],
      },
    };
    const pod = lab.pod("a");
    const { exitCode, stdout, result } = add(wired, pod, overrides);
    assert.equal(exitCode, 0, stdout);
    assert.equal(result?.["cniVersion"], "0.3.1");
    const ip = { version: "4", interface: 2, address: "10.244.1.2/32", gateway: "10.244.1.1" };
    assert.deepEqual(result?.["ips"], [ip]);
    assert.deepEqual(addressesOf(pod, "eth0"), [ip.address]);
    assert.deepEqual(defaultRoutes(pod), [[ip.gateway, "eth0"]]);
    assert.equal(pod.link("eth0").mtu, 1460);
    const [port] = wired.node.links().filter(({ name }) => name.startsWith("dbv"));
    assert.equal(bridgePort(wired.node, port?.name ?? "")?.["hairpin"], true);
    assert.deepEqual(await unreached(pod, [ip.gateway]), []);
    assert.equal(del(wired, pod, overrides).exitCode, 0);
    assert.deepEqual(nodeState(wired.node, "cbr0"), nothingHeld);
  });

  it("POD-15: an MTU below IPv6's minimum works with only IPv4", async function () {
    requireBridgeNetfilter(this);
    const overrides = { ...ipamWith("10.244.1.0/24"), mtu: 1200 };
    const [one, other] = [lab.pod("a"), lab.pod("b")];
    const hostEnds = [one, other].map((pod) => hostInterfaceOf(podResult(add(wired, pod, overrides))));
    for (const name of ["cni0", ...hostEnds]) assert.equal(wired.node.link(name).mtu, 1200);
    assert.equal(one.link("eth0").mtu, 1200);
    for (const bridgeNetfilter of [true, false]) {
      setBridgeNetfilter(wired.node, bridgeNetfilter);
      assert.deepEqual(await unreached(one, ["10.244.1.1", "10.244.1.3"]), []);
    }
    for (const pod of [one, other]) assert.equal(del(wired, pod, overrides).exitCode, 0);
    assert.deepEqual(nodeState(wired.node), nothingHeld);
  });

  it("POD-15: a bridge whose pods have a smaller MTU than a new one keeps it until they are gone, also when an ADD repairs it", () => {
    const [one, other, last] = ["a", "b", "c"].map((name) => lab.pod(name)) as [LabPod, LabPod, LabPod];
    podResult(add(wired, one, { mtu: 1400 }));
    wired.node.writeSysctl("net/ipv4/conf/cni0/accept_source_route", "1");
    podResult(add(wired, other, { mtu: 1500 }));
    assert.deepEqual([other.link("eth0").mtu, wired.node.link("cni0").mtu], [1500, 1400]);
    assert.equal(del(wired, one).exitCode, 0);
    podResult(add(wired, last, { mtu: 1500 }));
    assert.equal(wired.node.link("cni0").mtu, 1500);
  });

  it("POD-15: a bridge whose IPv4 pods have an MTU below 1280 gets 1280 for a pod with IPv6", () => {
    podResult(add(wired, lab.pod("a"), { ...ipamWith("10.244.1.0/24"), mtu: 1200 }));
    podResult(add(wired, lab.pod("b"), { mtu: 1500 }));
    assert.equal(wired.node.link("cni0").mtu, 1280);
  });

  it("POD-15: IPv6 over a bridge whose MTU is below IPv6's minimum is refused with the bridge's name", () => {
    const { node } = wired;
    node.exec("ip", ["link", "add", "br-low", "mtu", "1200", "type", "bridge"]);
    const pod = lab.pod("a");
    const { error } = add(wired, pod, { bridge: "br-low", mtu: 0 });
    assert.equal(error?.code, 7, error?.msg);
    assert.match(error?.msg ?? "", /^bridge: "br-low" has an MTU of 1200; expected 1280 at least for IPv6/);
    assert.deepEqual(nodeState(node, "br-low"), nothingHeld);
    assert.deepEqual(
      pod.links().map(({ name }) => name),
      ["lo"],
    );
    podResult(add(wired, pod, { bridge: "br-low", mtu: 1280 }));
    assert.equal(pod.link("eth0").mtu, 1280);
  });

  it("B3: a pod whose sandbox has IPv6 off gets it with an IPv6 address, and otherwise stays as it is", async () => {
    const links = ["all", "default", "lo"];
    const sandbox = (name: string): LabPod => {
      const pod = lab.pod(name);
      for (const link of links) pod.writeSysctl(`net/ipv6/conf/${link}/disable_ipv6`, "1");
      return pod;
    };
    const [dual, single] = [sandbox("dual"), sandbox("single")];
    const { ips } = podResult(add(wired, dual));
    assert.equal(ips.length, 2);
    const own = ips.map(({ address }) => address.replace(/\/.*/, ""));
    assert.deepEqual(await unreached(dual, [...own, "10.244.1.1", "fd00:244:1::1"]), []);
    podResult(add(wired, single, ipamWith("10.244.1.0/24")));
    const settings = links.map((link) => single.readSysctl(`net/ipv6/conf/${link}/disable_ipv6`));
    assert.deepEqual([...settings, addressesOf(single, "eth0")], ["1", "1", "1", ["10.244.1.3/32"]]);
  });

  it("pods of only IPv6 have different MACs, also when the low bits of their addresses are equal", () => {
    const macs = ["fd00:244:1::/64", "fd00:244:2::/64"].map((subnet, i) => {
      const pod = lab.pod(`p${i}`);
      assert.match(podResult(add(wired, pod, ipamWith(subnet))).ips[0]?.address ?? "", /::2\/128$/);
      return pod.link("eth0").mac ?? "";
    });
    for (const mac of macs) assert.match(mac, /^0e:/);
    assert.notEqual(macs[0], macs[1]);
  });

  it("POD-14: with isDefaultGateway false a pod has the configured routes, that to its gateway and no default route", () => {
    const pod = lab.pod("a");
    const { ipam } = ipamWith("10.244.1.0/24", "fd00:244:1::/64");
    const routes = [{ dst: "10.244.0.0/16" }];
    podResult(add(wired, pod, { ipam: { ...ipam, routes }, isDefaultGateway: false }));
    assert.deepEqual(defaultRoutes(pod), []);
    assert.deepEqual(
      ipJson(pod, "route").map(({ dst, gateway }) => [dst, gateway]),
      [
        ["10.244.0.0/16", "10.244.1.1"],
        ["10.244.1.1", undefined],
      ],
    );
  });

  it("POD-14: a route has the MTU, segment size, priority and table of its configuration, and the result says so", () => {
    const pod = lab.pod("a");
    const { ipam } = ipamWith("10.244.1.0/24");
    const options = { mtu: 1300, advmss: 1200, priority: 77, table: 1000 };
    const { result, error } = add(wired, pod, { ipam: { ...ipam, routes: [{ dst: "0.0.0.0/0", ...options }] } });
    assert.deepEqual(
      result?.["routes"],
      [
        { dst: "0.0.0.0/0", gw: "10.244.1.1", ...options },
        { dst: "0.0.0.0/0", gw: "10.244.1.1" },
      ],
      error?.msg,
    );
    const [route] = ipJson(pod, "route", "show", "default", "table", "1000");
    assert.deepEqual([route?.["metric"], route?.["metrics"]], [77, [{ mtu: 1300, advmss: 1200 }]]);
    assert.deepEqual(defaultRoutes(pod), [["10.244.1.1", "eth0"]]);
  });

  it("a second interface of a pod works, and the default routes stay with the first", () => {
    const pod = lab.pod("a");
    const second = { ...ipamWith("10.245.1.0/24", "fd00:245:1::/64"), name: "second", bridge: "cni1" };
    podResult(add(wired, pod));
    const before = defaultRoutes(pod);
    assert.equal(before.length, 2);
    podResult(add(wired, pod, second, { ifname: "net1" }));
    assert.deepEqual(defaultRoutes(pod), before);
    assert.deepEqual(addressesOf(pod, "net1"), ["10.245.1.2/32", "fd00:245:1::2/128"]);
    assert.equal(del(wired, pod, second, { ifname: "net1" }).exitCode, 0);
    assert.deepEqual(
      pod.links().map(({ name }) => name),
      ["lo", "eth0"],
    );
    assert.deepEqual(defaultRoutes(pod), before);
    const { reservations, records, neighbours } = nodeState(wired.node, "cni1", "second");
    assert.deepEqual([reservations, records, neighbours], [[], [], []]);
  });

  it("B5: the DEL of a network whose ADD was refused removes nothing of the network that has the interface", () => {
    const first = {
      name: "first",
      ipMasq: true,
      runtimeConfig: { portMappings: [mapping(7000)], bandwidth: { egressRate: 1e7, egressBurst: 1e6 } },
    };
    const pod = lab.pod("a");
    podResult(add(wired, pod, first));
    const state = (): readonly unknown[] => [
      wired.node.links().map(({ name }) => name),
      pod.links().map(({ name }) => name),
      nodeState(wired.node, "cni0", "first"),
      normalListing(wired.node.ruleset()),
    ];
    const before = state();
    const second = { name: "second", runtimeConfig: { portMappings: [mapping(7001)] } };
    assert.equal(add(wired, pod, second).error?.code, 104);
    for (let i = 0; i < 2; i++) assert.equal(del(wired, pod, second).exitCode, 0);
    assert.deepEqual(state(), before);
    assert.equal(del(wired, pod, first).exitCode, 0);
    assert.deepEqual(nodeState(wired.node, "cni0", "first"), nothingHeld);
  });

  it("a configured default route that the pod already has is refused and leaves nothing", () => {
    const pod = lab.pod("a");
    podResult(add(wired, pod));
    const { ipam } = ipamWith("10.245.1.0/24");
    const second = { name: "second", bridge: "cni1", ipam: { ...ipam, routes: [{ dst: "0.0.0.0/0" }] } };
    const { error } = add(wired, pod, second, { ifname: "net1" });
    assert.equal(error?.code, 105, error?.msg);
    assert.match(error?.msg ?? "", /add route default \(IPv4\) via 10\.245\.1\.1.*EEXIST/);
    const { reservations, records, neighbours } = nodeState(wired.node, "cni1", "second");
    assert.deepEqual([reservations, records, neighbours], [[], [], []]);
    assert.deepEqual(ipJson(wired.node, "-4", "addr", "show", "dev", "cni1"), [], "the bridge lost its new address");
    assert.deepEqual(
      pod.links().map(({ name }) => name),
      ["lo", "eth0"],
    );
  });

  for (const [what, earlier, range, given] of [
    [
      "another gateway",
      "10.244.1.0/29",
      { subnet: "10.244.1.0/29", gateway: "10.244.1.6", rangeEnd: "10.244.1.3" },
      "10.244.1.3",
    ],
    [
      "a larger range, as after /24 to /21",
      "10.244.1.0/24",
      { subnet: "10.244.0.0/21", rangeStart: "10.244.1.1", rangeEnd: "10.244.1.3" },
      "10.244.1.3",
    ],
    [
      "a smaller range",
      "10.244.0.0/21",
      { subnet: "10.244.0.0/24", gateway: "10.244.0.9", rangeEnd: "10.244.0.3" },
      "10.244.0.3",
    ],
  ] as const) {
    it(`POD-17: with ${what} ADD gives free addresses, never the bridge's earlier gateway, which pods still use`, async () => {
      const { ipam } = ipamWith();
      const ranges = (four: object): Configuration => ({
        ipam: { ...ipam, ranges: [[four], [{ subnet: "fd00:244:1::/64" }]] },
      });
      const first = podResult(add(wired, lab.pod("first"), ranges({ subnet: earlier, rangeEnd: range.rangeEnd })));
      const [second, third] = ["b", "c"].map((name) => add(wired, lab.pod(name), ranges(range)));
      assert.ok(second !== undefined);
      assert.equal(podResult(second).ips[0]?.address.split("/")[0], given);
      assert.match(
        third?.error?.msg ?? "",
        /no IP addresses available.*the node itself .* or pods of another plugin or network have/,
      );
      assert.notEqual(first.ips[0]?.address.split("/")[0], given);
    });
  }

  it("a gateway that is new on a bridge in use receives packets as soon as ADD returns", async () => {
    podResult(add(wired, lab.pod("first")));
    for (let i = 2; i < 8; i++) {
      const pod = lab.pod(`p${i}`);
      podResult(add(wired, pod, ipamWith(`10.10${i}.1.0/24`, `fd00:10${i}:1::/64`)));
      assert.deepEqual(await unreached(pod, [`fd00:10${i}:1::1`, `10.10${i}.1.1`]), []);
    }
  });
});
