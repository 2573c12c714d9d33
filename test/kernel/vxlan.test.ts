import assert from "node:assert/strict";
import {
  type EthtoolSocket,
  isFeatureActive,
  openEthtoolSocket,
  switchFeatureOff,
  TX_CHECKSUM_OFFLOAD,
} from "../../kernel/ethtool.ts";
import { FAMILIES, parseAddress } from "../../kernel/ip/address.ts";
import { formatCidr, parseCidr } from "../../kernel/ip/cidr.ts";
import { parseMac } from "../../kernel/ip/mac.ts";
import {
  deleteForwardingEntry,
  dumpForwarding,
  parseForwardingEntry,
  setForwardingEntry,
} from "../../kernel/route/forwarding_entry.ts";
import { changeLink, getLink } from "../../kernel/route/link.ts";
import { dumpNeighbours, parseNeighbour, setNeighbour } from "../../kernel/route/neighbour.ts";
import { dumpRoutes, newRoute, parseRouteOfAnyTable, replaceRoute } from "../../kernel/route/route.ts";
import { deleteRule, dumpRules, newRule, parseRule } from "../../kernel/route/rule.ts";
import { createVxlan, parseVxlan, type VxlanParameters } from "../../kernel/route/vxlan.ts";
import type { Lab } from "../lab/lab.ts";
import type { LabNamespace } from "../lab/namespace.ts";
import { suiteLab } from "../support/suite_lab.ts";
import { inner, iproute, iprouteOne, pick } from "./iproute.ts";

const MAC = parseMac("02:00:00:00:00:01");
const REMOTE_MAC = parseMac("02:00:00:00:00:02");
const LOCAL = { 4: parseAddress("192.0.2.1"), 6: parseAddress("2001:db8::1") } as const;
const REMOTE = { 4: parseAddress("192.0.2.2"), 6: parseAddress("2001:db8::2") } as const;

describe("kernel/route vxlan", () => {
  let lab: Lab | undefined;
  let node: LabNamespace;
  let ethtool: EthtoolSocket | undefined;

  before(function () {
    lab = suiteLab(this, "kernel-vxlan");
    node = lab.namespace("node");
  });
  after(() => ethtool?.socket.close());

  function parametersOf(name: string): VxlanParameters | undefined {
    const [message] = node.route.request(getLink({ name }));
    return message === undefined ? undefined : parseVxlan(message);
  }

  for (const family of FAMILIES) {
    it(`a device over IPv${family} is made that learns nothing, and is read back`, () => {
      const name = `vx${family}`;
      node.route.request(createVxlan({ name, mac: MAC, mtu: 1430, vni: 107, port: 4789, local: LOCAL[family] }));
      const link = iprouteOne(node, "ip", `link show ${name}`);
      assert.deepEqual(pick(link, "address", "mtu"), { address: MAC, mtu: 1430 });
      const local = family === 4 ? { local: "192.0.2.1" } : { local6: "2001:db8::1" };
      const data = inner(link, "linkinfo", "info_data");
      assert.deepEqual(pick(data, "id", "port", "learning", ...Object.keys(local)), {
        id: 107,
        port: 4789,
        learning: false,
        ...local,
      });
      const expected = {
        vni: 107,
        port: 4789,
        local: LOCAL[family],
        learning: false,
        hasMore: false,
        hasOwnSocket: false,
      };
      assert.deepEqual(parametersOf(name), expected);
    });

    it(`the remote end of a MAC address is set, read and deleted (IPv${family})`, () => {
      const { index } = node.link(`vx${family}`);
      const entry = { mac: REMOTE_MAC, remote: REMOTE[family] };
      node.route.request(setForwardingEntry(index, { ...entry, remote: LOCAL[family] }));
      node.route.request(setForwardingEntry(index, entry));
      const [seen] = iproute(node, "bridge", `fdb show dev vx${family}`);
      assert.deepEqual(pick(seen ?? {}, "mac", "dst", "state"), {
        mac: REMOTE_MAC,
        dst: family === 4 ? "192.0.2.2" : "2001:db8::2",
        state: "permanent",
      });
      assert.deepEqual(node.route.dump(dumpForwarding(index)).map(parseForwardingEntry), [entry]);
      node.route.request(deleteForwardingEntry(index, entry));
      assert.deepEqual(node.route.dump(dumpForwarding(index)), []);
    });

    it(`a rule by interface is added, listed and deleted (IPv${family})`, () => {
      const rule = { family, inputInterface: "cni0", table: 107, priority: 107 };
      node.route.request(newRule(rule));
      assert.throws(() => node.route.request(newRule(rule)), { message: /\(EEXIST\)$/ });
      const ours = (): unknown =>
        node.route
          .dump(dumpRules(family))
          .map(parseRule)
          .filter((one) => one !== undefined);
      assert.deepEqual(ours(), [rule]);
      const [seen] = iproute(node, "ip", `-${family} rule show pref 107`);
      assert.deepEqual(pick(seen ?? {}, "iif", "table", "protocol"), { iif: "cni0", table: "107", protocol: "107" });
      node.route.request(deleteRule(rule));
      assert.deepEqual(ours(), []);
    });
  }

  it("the parameters of a foreign VXLAN device are read, and a bridge has none", () => {
    node.exec("ip", "link add vxo type vxlan id 9 group 239.1.1.1 dev lo dstport 8472".split(" "));
    node.exec("ip", ["link", "add", "br9", "type", "bridge"]);
    assert.deepEqual(parametersOf("vxo"), {
      vni: 9,
      port: 8472,
      local: undefined,
      learning: true,
      hasMore: true,
      hasOwnSocket: false,
    });
    node.exec("ip", ["link", "add", "vxe", "type", "vxlan", "external", "dstport", "4790"]);
    assert.equal(parametersOf("vxe")?.hasOwnSocket, true);
    assert.equal(parametersOf("br9"), undefined);
  });

  it("checksum offload is switched off and read", () => {
    const { index } = node.link("vx4");
    ethtool ??= node.inside(() => openEthtoolSocket(node.calls));
    assert.equal(isFeatureActive(ethtool, index, TX_CHECKSUM_OFFLOAD), true);
    ethtool.socket.request(switchFeatureOff(ethtool, index, TX_CHECKSUM_OFFLOAD));
    assert.equal(isFeatureActive(ethtool, index, TX_CHECKSUM_OFFLOAD), false);
    assert.equal(isFeatureActive(ethtool, index, "tx-scatter-gather"), true, "other features stay unchanged");
    assert.throws(() => ethtool && isFeatureActive(ethtool, 9999, TX_CHECKSUM_OFFLOAD), { message: /\(ENODEV/ });
  });

  it("a route in a table of its own, with the node's address, replaces another", () => {
    node.exec("ip", ["address", "add", "192.0.2.1/32", "dev", "lo"]);
    node.route.request(changeLink({ name: "vx4" }, { up: true }));
    const { index } = node.link("vx4");
    const destination = parseCidr("10.244.2.0/24");
    const route = { family: 4, destination, outputInterface: index, onLink: true, priority: 107, table: 107 } as const;
    node.route.request(newRoute({ ...route, gateway: REMOTE[4], source: LOCAL[4] }));
    const gateway = parseAddress("192.0.2.3");
    node.route.request(replaceRoute({ ...route, gateway }));
    const found = node.route.dump(dumpRoutes(4)).map(parseRouteOfAnyTable);
    const there = found.filter((one) => one?.table === 107);
    const expected = { ...route, gateway, source: undefined, protocol: 107, hasOtherNextHop: false };
    assert.deepEqual(there, [expected]);
    node.exec(
      "ip",
      "route add 10.9.0.0/16 nexthop via 10.8.0.1 dev vx4 onlink nexthop via 10.8.0.2 dev vx4 onlink".split(" "),
    );
    const several = node.route.dump(dumpRoutes(4)).map(parseRouteOfAnyTable);
    assert.deepEqual(
      several
        .filter((one) => one?.destination?.prefixLength === 16)
        .map((one) => [one?.hasOtherNextHop, one?.gateway, one?.nextHopLinks]),
      [[true, undefined, [index, index]]],
    );
  });

  it("a route whose next hop object the kernel does not spell out does not lead to a link itself", () => {
    node.writeSysctl("net/ipv4/nexthop_compat_mode", "0");
    node.exec("ip", ["nexthop", "add", "id", "5", "via", "10.8.0.1", "dev", "vx4", "onlink"]);
    node.exec("ip", ["route", "add", "10.10.0.0/16", "nhid", "5"]);
    const routes = node.route.dump(dumpRoutes(4)).map(parseRouteOfAnyTable);
    const found = routes.find(
      (one) => one?.destination !== undefined && formatCidr(one.destination) === "10.10.0.0/16",
    );
    assert.deepEqual([found?.hasOtherNextHop, found?.gateway, found?.outputInterface], [true, undefined, undefined]);
  });

  it("a list has the neighbours of one link", () => {
    const { index } = node.link("vx4");
    node.route.request(setNeighbour(index, REMOTE[4], REMOTE_MAC));
    node.route.request(setNeighbour(node.link("vxo").index, REMOTE[4], REMOTE_MAC));
    const found = node.route.dump(dumpNeighbours(4, index)).map(parseNeighbour);
    assert.deepEqual(found, [{ index, address: REMOTE[4], mac: REMOTE_MAC, permanent: true }]);
  });
});
