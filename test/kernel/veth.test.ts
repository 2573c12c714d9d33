import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { parseMac } from "../../kernel/ip/mac.ts";
import { changeLink, createBridge, createVeth, deleteLink } from "../../kernel/route/link.ts";
import { findLink } from "../../kernel/route/socket.ts";
import type { Lab } from "../lab/lab.ts";
import type { LabNamespace } from "../lab/namespace.ts";
import { suiteLab } from "../support/suite_lab.ts";
import { iproute, iprouteOne, pick } from "./iproute.ts";

const hostMac = parseMac("ae:58:0a:f4:01:07");
const podMac = parseMac("0a:58:0a:f4:01:07");

describe("kernel/route veth", () => {
  let lab: Lab | undefined;
  let node: LabNamespace;
  let pod: LabNamespace;
  let bridge = 0;

  before(function () {
    lab = suiteLab(this, "kernel-veth");
    node = lab.namespace("node");
    pod = lab.namespace("pod");
    node.route.request(createBridge({ name: "cni0", mac: parseMac("0a:58:0a:f4:01:01") }));
    node.route.request(changeLink({ name: "cni0" }, { up: true }));
    bridge = node.link("cni0").index;
  });

  function connect(name: string, mtu: number, peerName = "eth0"): void {
    const host = { name, mac: hostMac };
    const peer = { name: peerName, mac: podMac, netnsFd: pod.handle.fd };
    node.route.request(createVeth({ host, peer, mtu, master: bridge }));
  }

  it("is created with both ends complete: names, addresses, MTU and bridge", () => {
    connect("dbv0", 1400);
    const seen = ["ifname", "address", "mtu"];
    const host = iprouteOne(node, "ip", "link show dbv0");
    assert.deepEqual(pick(host, ...seen, "master"), { ifname: "dbv0", address: hostMac, mtu: 1400, master: "cni0" });
    assert.deepEqual(pick(iprouteOne(pod, "ip", "link show eth0"), ...seen), {
      ifname: "eth0",
      address: podMac,
      mtu: 1400,
    });

    const [ours, peer] = [node.link("dbv0"), pod.link("eth0")];
    assert.deepEqual([ours.kind, ours.mac, ours.mtu, ours.master, ours.up], ["veth", hostMac, 1400, bridge, false]);
    assert.deepEqual([peer.kind, peer.mac, peer.mtu, peer.master, peer.up], ["veth", podMac, 1400, undefined, false]);
    assert.deepEqual([ours.peer, peer.peer], [peer.index, ours.index]);
    assert.equal(ours.index, host["ifindex"]);
  });

  it("has exactly one queue at each end", () => {
    for (const [end, name] of [
      [node, "dbv0"],
      [pod, "eth0"],
    ] as const) {
      assert.deepEqual(pick(iprouteOne(end, "ip", `-d link show ${name}`), "num_tx_queues", "num_rx_queues"), {
        num_tx_queues: 1,
        num_rx_queues: 1,
      });
    }
  });

  it("is read as it is listed, and as ip lists it", () => {
    const listed = node.links();
    for (const link of listed) assert.deepEqual(findLink(node.route, { index: link.index }), link);
    const theirs = iproute(node, "ip", "link show").map((link) => pick(link, "ifindex", "ifname", "mtu", "address"));
    const ours = listed.map(({ index, name, mtu, mac }) => ({ ifindex: index, ifname: name, mtu, address: mac }));
    assert.deepEqual(ours, theirs);
  });

  it("is up on both ends after two changes, with its alias, and without a link-local address on the host end (B23)", () => {
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

  it("has no link-local address when up is in the same message either, as long as there is no carrier", () => {
    connect("dbv1", 0, "eth1");
    node.route.request(changeLink({ name: "dbv1" }, { up: true, linkLocalAddress: false }));
    pod.route.request(changeLink({ name: "eth1" }, { up: true }));
    assert.equal(node.link("dbv1").operationalState, 6);
    assert.deepEqual(iprouteOne(node, "ip", "address show dbv1")["addr_info"], []);
  });

  it("disappears at both ends at once when one is deleted", () => {
    node.route.request(deleteLink({ name: "dbv0" }));
    assert.equal(findLink(node.route, { name: "dbv0" }), undefined);
    assert.equal(findLink(pod.route, { name: "eth0" }), undefined);
  });

  it("is created without any link being moved or renamed", async () => {
    const monitor = node.inside(() => spawn("ip", ["-o", "monitor", "link"], { stdio: ["ignore", "pipe", "inherit"] }));
    let printed = "";
    monitor.stdout.setEncoding("utf8").on("data", (text: string) => (printed += text));
    const seen = async (mtu: number): Promise<void> => {
      for (let i = 0; i < 200 && !printed.includes(`mtu ${mtu}`); i++) {
        node.route.request(changeLink({ name: "lo" }, { mtu: mtu - 1 }));
        node.route.request(changeLink({ name: "lo" }, { mtu }));
        await new Promise((resolve) => setTimeout(resolve, 10));
      }
      assert.ok(printed.includes(`mtu ${mtu}`), "ip monitor shows nothing");
    };
    try {
      await seen(40_000);
      connect("dbv2", 1400);
      await seen(50_000);
    } finally {
      monitor.kill();
      await once(monitor, "exit");
    }
    assert.match(printed, /dbv2@/);
    assert.doesNotMatch(printed, /Deleted|eth0/);
  });
});
