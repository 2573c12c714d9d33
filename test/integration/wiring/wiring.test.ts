import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import process from "node:process";
import { setTimeout } from "node:timers/promises";
import { listAddresses } from "../../../kernel/route/interface_address.ts";
import { deleteLink } from "../../../kernel/route/link.ts";
import { add, type Configuration, del } from "../../lab/cni.ts";
import type { Lab, LabPod } from "../../lab/lab.ts";
import { type LabNamespace } from "../../lab/namespace.ts";
import { advertiseRouter } from "../../lab/router_advertisement.ts";
import { twoNodes, type WiredNode } from "../../lab/topology.ts";
import { testLab } from "../../support/suite_lab.ts";
import { randomFrom } from "../../support/random.ts";
import { hostInterfaceOf, podResult } from "../../support/cni/add_result.ts";
import { addressesOf, bridgePort, ipJson, nodeState, nothingHeld } from "../../support/cni/kernel_state.ts";

describe("how ADD wires a pod", function () {
  this.timeout(300_000);
  let lab: Lab;
  let wired: WiredNode;
  let router: LabNamespace;

  beforeEach(function () {
    lab = testLab(this, "wiring");
    ({ node1: wired, router } = twoNodes(lab, { mtu: 1420 }));
  });

  /** Adds a pod and returns it with the name of its host end. */
  const attach = (name: string, overrides?: Configuration): { pod: LabPod; hostInterface: string } => {
    const pod = lab.pod(name);
    return { pod, hostInterface: hostInterfaceOf(podResult(add(wired, pod, overrides))) };
  };

  const ipamWith = (ranges: readonly unknown[]): Configuration => ({
    type: "host-local",
    dataDir: wired.node.dataDir,
    ranges,
  });

  it("B1 POD-08: the first ADD makes cni0 with the first usable addresses as gateways; the second finds it", () => {
    const ofMachine = readdirSync("/sys/class/net");
    attach("a");
    const first = wired.node.link("cni0");
    attach("b");
    const second = wired.node.link("cni0");
    assert.equal(second.index, first.index);
    assert.equal(second.kind, "bridge");
    assert.deepEqual(readdirSync("/sys/class/net"), ofMachine, "the machine's own namespace gets no bridge");
    assert.deepEqual(addressesOf(wired.node, "cni0"), ["10.244.1.1/24", "fd00:244:1::1/64"]);
  });

  it("B2: a name taken by something that is not a bridge, or as an alternative name of a bridge, is refused and stays as it is", () => {
    wired.node.exec("ip", ["link", "add", "taken", "type", "veth", "peer", "name", "other-end"]);
    wired.node.exec("ip", ["link", "add", "br0", "type", "bridge"]);
    wired.node.exec("ip", ["link", "property", "add", "dev", "br0", "altname", "alternative"]);
    for (const [bridge, says] of [
      ["taken", /"taken" already exists but is not a bridge \(kind veth\)/],
      ["alternative", /"alternative" already exists but is an alternative name of br0/],
    ] as const) {
      const before = ipJson(wired.node, "link", "show", "dev", bridge);
      const pod = lab.pod(bridge);
      const { exitCode, error } = add(wired, pod, { bridge });
      assert.equal(exitCode, 1);
      assert.equal(error?.code, 101);
      assert.match(error?.msg ?? "", says);
      assert.deepEqual(ipJson(wired.node, "link", "show", "dev", bridge), before);
      assert.deepEqual(nodeState(wired.node, bridge).reservations, []);
      assert.deepEqual(
        pod.links().map(({ name }) => name),
        ["lo"],
      );
    }
  });

  it("B3 POD-09 POD-14: IPv4, IPv6, both, and both with a second IPv6 set give three interfaces, single addresses and default routes (DS-01)", () => {
    const v4 = [[{ subnet: "10.244.1.0/24" }]];
    const v6 = [[{ subnet: "fd00:244:1::/64" }]];
    const secondV6 = [[{ subnet: "fd00:244:101::/64" }]];
    for (const ranges of [v4, v6, [...v4, ...v6], [...v4, ...v6, ...secondV6]]) {
      const ipam = ipamWith(ranges);
      const pod = lab.pod(`p${lab.namespaces.length}`);
      const { interfaces, ips } = podResult(add(wired, pod, { ipam }));
      assert.equal(interfaces.length, 3);
      assert.equal(ips.length, ranges.length);
      for (const ip of ips) {
        assert.equal(ip.interface, 2);
        assert.match(ip.address, /\/(32|128)$/);
      }
      const gateways = ["10.244.1.1", "fd00:244:1::1", "fd00:244:101::1"];
      assert.deepEqual(
        ips.map((ip) => ip.gateway),
        gateways.filter((gateway) => ranges.flat().some(({ subnet }) => subnet.startsWith(gateway.slice(0, -1)))),
      );
      const onBridge = addressesOf(wired.node, "cni0");
      for (const { gateway } of ips) {
        const prefix = gateway.includes(":") ? 64 : 24;
        assert.ok(onBridge.includes(`${gateway}/${prefix}`), `${gateway}/${prefix} among ${onBridge.join(", ")}`);
      }
      assert.deepEqual(addressesOf(pod, "eth0").toSorted(), ips.map((ip) => ip.address).toSorted());
      const defaults = [...ipJson(pod, "route", "show", "default"), ...ipJson(pod, "-6", "route", "show", "default")];
      // There is one per family: a second range set of a family adds an address, not a default route.
      assert.deepEqual(
        defaults.map((route) => [route["gateway"], route["dev"]]),
        ips.slice(0, 2).map((ip) => [ip.gateway, "eth0"]),
      );
      assert.deepEqual(
        pod.links().map(({ name }) => name),
        ["lo", "eth0"],
      );
      const hostEnd = interfaces[1]?.name ?? "";
      assert.deepEqual(
        wired.node.links().map(({ name }) => name),
        ["lo", "uplink", "cni0", hostEnd],
      );
      assert.equal(wired.node.link(hostEnd).master, wired.node.link("cni0").index);
      assert.equal(del(wired, pod, { ipam }).exitCode, 0);
    }
  });

  it("B5: ADD onto an existing eth0 is refused; the interface stays and no address leaks", () => {
    const pod = lab.pod("a");
    pod.exec("ip", ["link", "add", "eth0", "type", "veth", "peer", "name", "other-end"]);
    const before = ipJson(pod, "link", "show", "dev", "eth0");
    const { exitCode, error } = add(wired, pod);
    assert.equal(exitCode, 1);
    assert.equal(error?.code, 104);
    assert.match(error?.msg ?? "", /CNI_IFNAME: "eth0" already exists/);
    assert.deepEqual(ipJson(pod, "link", "show", "dev", "eth0"), before);
    assert.deepEqual(nodeState(wired.node), nothingHeld);
  });

  it("B5 I4: a second ADD for the same container is refused and takes nothing from the first", () => {
    const { pod } = attach("a");
    const held = nodeState(wired.node);
    const elsewhere = lab.pod("b");
    for (const netns of [pod.path, elsewhere.path]) {
      const { exitCode, error } = add(wired, pod, {}, { netns });
      assert.equal(exitCode, 1);
      assert.equal(error?.code, 104, error?.msg);
      assert.deepEqual(nodeState(wired.node), held);
    }
    assert.deepEqual(addressesOf(pod, "eth0"), ["10.244.1.2/32", "fd00:244:1::2/128"]);
  });

  it("B6: the MAC the runtime asks for wins over args.cni, which wins over CNI_ARGS; without one it follows the address", () => {
    const runtimeConfig = { mac: "02:00:00:00:00:01" };
    const args = { cni: { mac: "02:00:00:00:00:02" } };
    const cases: readonly (readonly [Configuration, string | undefined, string])[] = [
      [{ runtimeConfig, args }, "MAC=02:00:00:00:00:03", "02:00:00:00:00:01"],
      [{ args }, "MAC=02:00:00:00:00:03", "02:00:00:00:00:02"],
      [{}, "MAC=02:00:00:00:00:03", "02:00:00:00:00:03"],
    ];
    for (const [overrides, cniArguments, expected] of cases) {
      const pod = lab.pod(`p${lab.namespaces.length}`);
      const options = cniArguments === undefined ? {} : { arguments: cniArguments };
      assert.equal(add(wired, pod, overrides, options).exitCode, 0);
      assert.equal(pod.link("eth0").mac, expected);
    }
    const { pod } = attach("plain");
    assert.equal(pod.link("eth0").mac, "0a:58:0a:f4:01:05");
  });

  const seed = Number(process.env["DRAWBRIDGE_SEED"] ?? Date.now() % 0x7fff_ffff);
  it(`B7: the bridge keeps its MAC while pods come and go in random order, and no port shares it (seed ${seed})`, () => {
    const random = randomFrom(seed);
    const pods = ["a", "b", "c", "d", "e", "f"].map((name) => attach(name));
    const mac = wired.node.link("cni0").mac;
    assert.ok(mac !== undefined);
    while (pods.length > 0) {
      for (const { mac: port } of wired.node.links().filter(({ name }) => name !== "cni0")) assert.notEqual(port, mac);
      const [gone] = pods.splice(Math.floor(random() * pods.length), 1);
      assert.ok(gone !== undefined);
      assert.equal(del(wired, gone.pod).exitCode, 0);
      assert.equal(wired.node.link("cni0").mac, mac);
    }
  });

  it("B18 POD-23: no address is tentative when ADD returns, in the pod and on the bridge, with hairpin on", () => {
    const { pod } = attach("a");
    for (const namespace of [pod, wired.node]) {
      const addresses = listAddresses(namespace.route);
      assert.ok(addresses.length >= 4);
      assert.deepEqual(
        addresses.filter(({ tentative, duplicateDetected }) => tentative || duplicateDetected),
        [],
      );
    }
  });

  it("B18: ADD of a dual-stack pod waits for no duplicate detection: the median of five is below one second", () => {
    const times = Array.from({ length: 5 }, (_, i) => {
      const outcome = add(wired, lab.pod(`p${i}`));
      assert.equal(podResult(outcome).ips.length, 2);
      return outcome.milliseconds;
    }).toSorted((a, b) => a - b);
    assert.ok((times[2] ?? Infinity) < 1000, `${times.join(", ")} ms`);
  });

  it("B23: the host end's alias names the pod and its name depends only on the container", () => {
    const { pod, hostInterface } = attach("a");
    assert.equal(wired.node.link(hostInterface).alias, "default/a");
    assert.match(hostInterface, /^dbv[0-9a-f]{12}$/);
    assert.equal(del(wired, pod).exitCode, 0);
    assert.equal(hostInterfaceOf(podResult(add(wired, pod))), hostInterface);
  });

  it("POD-11: the hairpin flag of each port is what hairpinMode says, read back after each ADD", () => {
    for (const hairpinMode of [true, false]) {
      const { hostInterface } = attach(`h${hairpinMode}`, { hairpinMode });
      assert.equal(bridgePort(wired.node, hostInterface)?.["hairpin"], hairpinMode);
      assert.equal(bridgePort(wired.node, hostInterface)?.["isolated"], false);
    }
  });

  it("POD-15: the configured MTU is on both ends and stays on the bridge when its ports are gone", () => {
    const { pod, hostInterface } = attach("a");
    for (const link of [pod.link("eth0"), wired.node.link(hostInterface), wired.node.link("cni0")])
      assert.equal(link.mtu, 1420);
    assert.equal(del(wired, pod).exitCode, 0);
    assert.equal(wired.node.link("cni0").mtu, 1420);
  });

  it("POD-16: STP is off on the bridge", () => {
    attach("a");
    assert.deepEqual(wired.node.link("cni0").bridge, { stp: false });
  });

  it("POD-18: with ipMasq false nothing is added to nftables", () => {
    attach("a", { ipMasq: false });
    assert.equal(wired.node.ruleset(), "");
  });

  it("POD-24: ADD makes the node forward in both families, and sends and accepts no redirects", () => {
    const { node } = wired;
    node.writeSysctl("net/ipv4/ip_forward", "0");
    node.writeSysctl("net/ipv6/conf/all/forwarding", "0");
    node.writeSysctl("net/ipv4/conf/all/send_redirects", "1");
    const { pod } = attach("a");
    assert.equal(node.readSysctl("net/ipv4/ip_forward"), "1");
    assert.equal(node.readSysctl("net/ipv6/conf/all/forwarding"), "1");
    assert.equal(node.readSysctl("net/ipv4/conf/all/send_redirects"), "0");
    assert.equal(node.readSysctl("net/ipv4/conf/cni0/send_redirects"), "0");
    assert.equal(node.readSysctl("net/ipv6/conf/cni0/accept_ra"), "0");
    for (const key of ["ipv4/conf/all", "ipv4/conf/eth0", "ipv6/conf/eth0"]) {
      assert.equal(pod.readSysctl(`net/${key}/accept_redirects`), "0", key);
    }
    assert.equal(pod.readSysctl("net/ipv6/conf/eth0/accept_ra"), "0");
  });

  it("POD-24: an uplink that lives on router advertisements keeps its default route when forwarding is turned on", async () => {
    const { node } = wired;
    node.exec("ip", ["-6", "route", "del", "default"]);
    node.writeSysctl("net/ipv6/conf/all/forwarding", "0");
    node.writeSysctl("net/ipv6/conf/uplink/accept_ra", "1");
    advertiseRouter(router, "to-node1");
    const advertised = (): readonly unknown[] => ipJson(node, "-6", "route", "show", "default", "proto", "ra");
    for (let i = 0; advertised().length === 0 && i < 100; i++) await setTimeout(10);
    const before = advertised();
    assert.equal(before.length, 1, "the node has learned no default route from the advertisement");
    attach("a");
    assert.equal(node.readSysctl("net/ipv6/conf/all/forwarding"), "1");
    assert.equal(advertised().length, 1, "the kernel has forgotten the advertised default route");
    advertiseRouter(router, "to-node1", 0);
    for (let i = 0; advertised().length === 1 && i < 100; i++) await setTimeout(10);
    assert.deepEqual(advertised(), [], "a forwarding node must go on listening: the router has taken its route back");
  });

  it("POD-24: an uplink whose address comes from router advertisements hears the next ones when forwarding is turned on", () => {
    const { node } = wired;
    node.exec("ip", ["link", "add", "lan", "type", "veth"]);
    for (const link of ["uplink", "lan"]) node.writeSysctl(`net/ipv6/conf/${link}/accept_ra`, "1");
    node.writeSysctl("net/ipv6/conf/all/forwarding", "0");
    node.exec("ip", ["addr", "add", "fd77::5/64", "dev", "uplink", "valid_lft", "600", "preferred_lft", "600"]);
    node.exec("ip", ["addr", "add", "fd78::5/64", "dev", "lan"]);
    attach("a");
    const accepting = ["uplink", "lan"].map((link) => node.readSysctl(`net/ipv6/conf/${link}/accept_ra`));
    assert.deepEqual(accepting, ["2", "1"], "only the first has an address that ends");
  });

  it("DEL removes the link, the addresses, the record and the neighbour entries, three times in a row", () => {
    const { pod } = attach("a");
    assert.deepEqual(nodeState(wired.node).neighbours, ["10.244.1.2", "fd00:244:1::2"]);
    for (let i = 0; i < 3; i++) {
      assert.deepEqual({ ...del(wired, pod), milliseconds: 0 }.stdout, "");
      assert.deepEqual(nodeState(wired.node), nothingHeld);
    }
    assert.deepEqual(
      pod.links().map(({ name }) => name),
      ["lo"],
    );
  });

  it("the record is complete, written for root only, and names the boot", () => {
    const { pod, hostInterface } = attach("a");
    const directory = `${wired.node.runDir}/attachments/drawbridge`;
    const record: unknown = JSON.parse(readFileSync(`${directory}/${pod.containerId}:eth0.json`, "utf8"));
    assert.deepEqual(record, {
      version: 1,
      bootId: readFileSync("/proc/sys/kernel/random/boot_id", "utf8").trim(),
      network: "drawbridge",
      dataDir: wired.node.dataDir,
      bridge: "cni0",
      containerId: pod.containerId,
      ifname: "eth0",
      netns: { path: pod.path, inode: String(pod.handle.inode) },
      pod: { namespace: "default", name: "a", uid: "uid-a" },
      addresses: ["10.244.1.2/32", "fd00:244:1::2/128"],
      mac: pod.link("eth0").mac,
      hostInterface,
      hostMac: wired.node.link(hostInterface).mac,
      portMappings: [],
      host: {
        bridgeMac: wired.node.link("cni0").mac,
        mtu: wired.node.link("cni0").mtu,
        bridgeAddresses: ["10.244.1.1/24", "fd00:244:1::1/64"],
        routes: [],
        hairpin: true,
        bypass: true,
        isMacRequested: false,
      },
    });
  });

  it("a failure after the addresses were claimed leaves no link, no address, no record and no neighbour entry", () => {
    // The host end's name is taken by a link that must survive: the container's DEL never came, its record is lost.
    const { pod, hostInterface } = attach("a");
    wired.node.exec("rm", ["-r", `${wired.node.runDir}/attachments`]);
    const held = nodeState(wired.node);
    const { exitCode, error } = add(wired, pod, {}, { netns: lab.pod("b").path });
    assert.equal(exitCode, 1);
    assert.equal(error?.code, 105);
    assert.match(error?.msg ?? "", new RegExp(`create veth ${hostInterface}.*EEXIST`));
    assert.deepEqual(nodeState(wired.node), held);
    assert.ok(wired.node.links().some(({ name }) => name === hostInterface));
    wired.node.route.request(deleteLink({ name: hostInterface }));
  });

  it("an address outside of the ranges is refused and leaves nothing", () => {
    const pod = lab.pod("a");
    const { exitCode, error } = add(wired, pod, {}, { arguments: "IP=10.99.0.1" });
    assert.equal(exitCode, 1);
    assert.match(error?.msg ?? "", /10\.99\.0\.1/);
    assert.deepEqual(nodeState(wired.node), nothingHeld);
    const { ips } = podResult(add(wired, pod, {}, { arguments: "IP=10.244.1.200" }));
    assert.equal(ips[0]?.address, "10.244.1.200/32");
  });
});
