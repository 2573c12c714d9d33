import assert from "node:assert/strict";
import { formatCidr, parseCidr } from "../../kernel/ip/cidr.ts";
import { parseMac } from "../../kernel/ip/mac.ts";
import type { Request } from "../../kernel/netlink/message.ts";
import {
  deleteAddress,
  type InterfaceAddress,
  listAddresses,
  newAddress,
} from "../../kernel/route/interface_address.ts";
import {
  changeLink,
  createBridge,
  createVeth,
  deleteLink,
  getLink,
  OPERATIONAL_STATE_UNKNOWN,
} from "../../kernel/route/link.ts";
import { findLink } from "../../kernel/route/socket.ts";
import type { Lab } from "../lab/lab.ts";
import type { LabNamespace } from "../lab/namespace.ts";
import { suiteLab } from "../support/suite_lab.ts";
import { inner, iproute, iprouteOne, pick, type Printed } from "./iproute.ts";

const bridgeMac = parseMac("8a:58:0a:f4:01:01");
const hostMac = parseMac("02:00:00:00:00:01");
const podMac = parseMac("0a:58:0a:f4:01:07");

describe("kernel/route: links and their addresses", () => {
  let lab: Lab | undefined;
  let node: LabNamespace;
  let pod: LabNamespace;
  let bridge = 0;
  let eth0 = 0;

  before(function () {
    lab = suiteLab(this, "kernel-link");
    node = lab.namespace("node");
    pod = lab.namespace("pod");
    node.route.request(createBridge({ name: "cni0", mac: bridgeMac }));
    bridge = node.link("cni0").index;
  });

  it("a bridge is created down, with its own MAC address and STP off (POD-16)", () => {
    const seen = iprouteOne(node, "ip", "link show cni0");
    assert.deepEqual(pick(seen, "address", "ifindex"), { address: bridgeMac, ifindex: bridge });
    assert.deepEqual(pick(inner(seen, "linkinfo", "info_data"), "stp_state"), { stp_state: 0 });
    const ours = node.link("cni0");
    assert.deepEqual([ours.kind, ours.mac, ours.up, ours.bridge], ["bridge", bridgeMac, false, { stp: false }]);
    node.route.request(changeLink({ index: bridge }, { up: true }));
    assert.deepEqual([node.link("cni0").up, node.link("cni0").carrier], [true, false]);
  });

  it("a bridge made without a MAC address has a carrier before its first port, and STP when iproute2 switches it on", () => {
    node.exec("ip", ["link", "add", "br9", "type", "bridge"]);
    node.exec("ip", ["link", "set", "br9", "up"]);
    const { carrier, operationalState } = node.link("br9");
    assert.deepEqual([carrier, operationalState], [true, OPERATIONAL_STATE_UNKNOWN]);
    node.exec("ip", ["link", "set", "br9", "type", "bridge", "stp_state", "1"]);
    assert.deepEqual(node.link("br9").bridge, { stp: true });
    node.route.request(deleteLink({ name: "br9" }));
  });

  it("a veth is created with both ends complete, each with one queue, and the bridge keeps its MAC address (B7)", () => {
    const host = { name: "dbv0", mac: hostMac };
    const peer = { name: "eth0", mac: podMac, netnsFd: pod.handle.fd };
    node.route.request(createVeth({ host, peer, mtu: 1400, master: bridge }));
    eth0 = pod.link("eth0").index;
    const seen = ["ifname", "address", "mtu", "master", "num_tx_queues", "num_rx_queues"];
    const queues = { num_tx_queues: 1, num_rx_queues: 1 };
    const ends = [
      { namespace: node, ifname: "dbv0", address: hostMac, master: "cni0" },
      { namespace: pod, ifname: "eth0", address: podMac, master: undefined },
    ] as const;
    for (const { namespace, ...expected } of ends) {
      const printed = iprouteOne(namespace, "ip", `-d link show ${expected.ifname}`);
      assert.deepEqual(pick(printed, ...seen), { ...expected, mtu: 1400, ...queues });
      const { kind, mac, mtu, up } = namespace.link(expected.ifname);
      assert.deepEqual([kind, mac, mtu, up], ["veth", expected.address, 1400, false]);
    }
    assert.deepEqual([node.link("dbv0").peer, pod.link("eth0").peer], [eth0, node.link("dbv0").index]);
    // A bridge without a MAC address of its own takes the lowest of its ports'.
    assert.equal(node.link("cni0").mac, bridgeMac);
    const listed = node.links();
    for (const link of listed) assert.deepEqual(findLink(node.route, { index: link.index }), link);
    const theirs = iproute(node, "ip", "link show").map((link) => pick(link, "ifindex", "ifname", "mtu", "address"));
    const ours = listed.map(({ index, name, mtu, mac }) => ({ ifindex: index, ifname: name, mtu, address: mac }));
    assert.deepEqual(ours, theirs);
  });

  it("a port's MTU, alias and hairpin change in one message, by name or by index (POD-11)", () => {
    const isPort = { state: 0, hairpin: false, groupForwardMask: 0, multicastRouter: 1 };
    assert.deepEqual(node.link("dbv0").bridgePort, isPort);
    for (const hairpin of [true, false, true]) {
      const reference = hairpin ? { index: node.link("dbv0").index } : { name: "dbv0" };
      node.route.request(changeLink(reference, { mtu: 1300, alias: "a/b", bridgePort: { hairpin } }));
      assert.equal(iprouteOne(node, "bridge", "link show dev dbv0")["hairpin"], hairpin);
      const { up, mtu, alias, bridgePort } = node.link("dbv0");
      assert.deepEqual([up, mtu, alias, bridgePort], [false, 1300, "a/b", { ...isPort, hairpin }]);
    }
  });

  it("a veth is up after two changes, with its alias, and without a link-local address on the host end (B23)", () => {
    node.route.request(changeLink({ name: "dbv0" }, { linkLocalAddress: false }));
    node.route.request(changeLink({ name: "dbv0" }, { up: true, alias: "default/web-é", group: 7 }));
    pod.route.request(changeLink({ name: "eth0" }, { up: true }));
    const host = iprouteOne(node, "ip", "link show dbv0");
    assert.deepEqual(pick(host, "operstate", "ifalias", "group", "inet6_addr_gen_mode"), {
      operstate: "UP",
      ifalias: "default/web-é",
      group: "7",
      inet6_addr_gen_mode: "none",
    });
    assert.deepEqual(iprouteOne(node, "ip", "address show dbv0")["addr_info"], []);
    const ours = node.link("dbv0");
    assert.deepEqual([ours.up, ours.operationalState, ours.alias], [true, 6, "default/web-é"]);
  });

  function addresses(filter?: { readonly family?: 4 | 6; readonly index?: number }): readonly InterfaceAddress[] {
    return listAddresses(pod.route, filter);
  }

  function printedAddress(local: string): Printed {
    const all: unknown = iprouteOne(pod, "ip", "address show eth0")["addr_info"];
    assert.ok(Array.isArray(all));
    return (all as readonly Printed[]).find((entry) => entry["local"] === local) ?? assert.fail(`no ${local} on eth0`);
  }

  it("an IPv6 address answers at once and is never tentative, although the link runs DAD (B18, POD-23)", () => {
    assert.equal(pod.readSysctl("net/ipv6/conf/eth0/accept_dad"), "1");
    pod.route.request(newAddress(eth0, parseCidr("fd00:244:1::7/64")));
    const found = addresses({ family: 6, index: eth0 }).find(
      ({ address }) => formatCidr(address) === "fd00:244:1::7/64",
    );
    assert.deepEqual([found?.tentative, found?.duplicateDetected, found?.scope], [false, false, 0]);
    const seen = pick(printedAddress("fd00:244:1::7"), "tentative", "dadfailed", "nodad", "prefixlen");
    assert.deepEqual(seen, { tentative: undefined, dadfailed: undefined, nodad: true, prefixlen: 64 });
    pod.exec("ip", ["address", "add", "fd00:244:1::8/64", "dev", "eth0"]);
    const other = addresses({ family: 6 }).find(({ address }) => formatCidr(address) === "fd00:244:1::8/64");
    assert.equal(other?.tentative, true);
    pod.route.request(deleteAddress(eth0, parseCidr("fd00:244:1::8/64")));
  });

  const ipv4: readonly (readonly [cidr: string, local: string, broadcast: string | undefined])[] = [
    ["10.244.1.7/24", "10.244.1.7", "10.244.1.255"],
    ["10.245.0.1/30", "10.245.0.1", "10.245.0.3"],
    ["10.246.0.0/31", "10.246.0.0", undefined],
    ["10.247.0.7/32", "10.247.0.7", undefined],
  ];
  for (const [cidr, local, broadcast] of ipv4) {
    it(`the address ${cidr} is added with broadcast ${broadcast ?? "omitted"}`, () => {
      pod.route.request(newAddress(eth0, parseCidr(cidr)));
      assert.deepEqual(pick(printedAddress(local), "broadcast", "scope"), { broadcast, scope: "global" });
      assert.ok(addresses({ family: 4, index: eth0 }).some(({ address }) => formatCidr(address) === cidr));
    });
  }

  it("a list has only addresses of the requested interface and family", () => {
    assert.ok(addresses().some(({ index }) => index !== eth0));
    assert.ok(addresses({ index: eth0 }).every(({ index }) => index === eth0));
    assert.ok(addresses({ family: 4 }).every(({ address }) => typeof address.address === "number"));
    assert.equal(addresses({ family: 4, index: eth0 }).length, 4);
    assert.throws(() => addresses({ index: 99_999 }), {
      code: "ERR_NETLINK",
      message: "list addresses: no such device (ENODEV)",
    });
  });

  const cases: readonly (readonly [title: string, request: () => Request, message: RegExp])[] = [
    [
      "a name that is taken",
      () => createBridge({ name: "cni0", mac: bridgeMac }),
      /^create bridge cni0: already exists \(EEXIST\)$/,
    ],
    [
      "a name that is too long",
      () => createBridge({ name: "sixteen-letters0", mac: bridgeMac }),
      /\(ERANGE, attribute name\)$/,
    ],
    [
      "an MTU above what a bridge takes",
      () => changeLink({ index: bridge }, { mtu: 70_000 }),
      /mtu greater than device maximum \(EINVAL\)$/,
    ],
    ["a missing link, by name", () => deleteLink({ name: "dbv9" }), /^delete link dbv9: no such device \(ENODEV\)$/],
    [
      "a missing link, by index",
      () => changeLink({ index: 99_999 }, { up: true }),
      /^change link 99999: .*\(ENODEV\)$/,
    ],
    // The kernel's limit of 255 includes the NUL.
    [
      "an alias of 255 bytes",
      () => changeLink({ index: bridge }, { alias: "a".repeat(255) }),
      /\(ERANGE, attribute alias\)$/,
    ],
  ];
  for (const [title, request, message] of cases) {
    it(`the error describes ${title}, and no link is left`, () => {
      const before = node.links();
      assert.throws(() => node.route.request(request()), { code: "ERR_NETLINK", message });
      assert.deepEqual(node.links(), before);
    });
  }

  it("findLink finds nothing once both ends are deleted, and throws for an impossible name", () => {
    node.route.request(deleteLink({ name: "dbv0" }));
    assert.equal(findLink(node.route, { name: "dbv0" }), undefined);
    assert.equal(findLink(pod.route, { index: eth0 }), undefined);
    assert.throws(() => findLink(node.route, { name: "sixteen-letters0" }), {
      message: /^get link sixteen-letters0: .*\(ERANGE/,
    });
    assert.throws(() => node.route.request(getLink({ name: "dbv9" })), { message: /\(ENODEV\)$/ });
  });
});
