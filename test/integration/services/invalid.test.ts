import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { setTimeout as pause } from "node:timers/promises";
import { type Address, formatAddress, FAMILIES } from "../../../kernel/ip/address.ts";
import { parseMac } from "../../../kernel/ip/mac.ts";
import { ServiceDropReason } from "../../../policyd/services/rules/check_part.ts";
import type { LabNamespace } from "../../lab/namespace.ts";
import { encodeFrame, encodeIp, encodeTcp, TcpFlag } from "../../lab/probe/frame.ts";
import { FrameSocket } from "../../lab/probe/frame_socket.ts";
import { connect, UPLINK } from "../../lab/topology.ts";
import { requireKernel } from "../../support/privilege.ts";
import { SERVICE_PORT, serviceManifest } from "../../support/services/manifest.ts";
import { CLUSTER_IPS, pairOf, textsOf, TrafficLab } from "../../support/services/traffic_lab.ts";

const NODE_PORT = 40_080;
/** An address of no Service, which routes lead through node1 while its answers take another way. */
const ELSEWHERE = pairOf("203.0.113.99", "2001:db8:5::99");
const ELSEWHERE_PORT = 7070;

describe("packets that connection tracking calls invalid", function () {
  this.timeout(300_000);
  let on: TrafficLab;

  before(function () {
    requireKernel(this);
    on = new TrafficLab("invalid", false);
    on.route([CLUSTER_IPS, ELSEWHERE]);
    on.here.apply(serviceManifest("web", textsOf(CLUSTER_IPS), on.at(on.near), {}, NODE_PORT));
  });

  after(() => on?.[Symbol.dispose]());

  interface Stray {
    readonly from: LabNamespace;
    readonly link: string;
    readonly source: Address;
    readonly to: Address;
    readonly port: number;
  }

  /** Returns resets of connections that do not exist, from outside to a Service. */
  const toService = (to = CLUSTER_IPS, port = SERVICE_PORT): readonly Stray[] =>
    FAMILIES.map((family) => ({
      from: on.nodes.router,
      link: "to-node1",
      source: on.outside[family],
      to: to[family],
      port,
    }));

  /** Returns the same from a pod of node1 to an address of no Service. */
  const fromPod = (): readonly Stray[] =>
    FAMILIES.map((family) => ({
      from: on.client.namespace,
      link: "eth0",
      source: on.client.addresses[family],
      to: on.outside[family],
      port: 1,
    }));

  /** Sends packets, and returns how many reach the router, where all of them end if they are allowed. */
  const send = async (list: readonly Stray[], isAllowed: boolean): Promise<number> => {
    using router = new FrameSocket(on.nodes.router, "to-node1");
    const tokens = list.map(() => randomBytes(16));
    for (const [i, { from, link, source, to, port }] of list.entries()) {
      const packet = encodeTcp(source, to, { source: 9, destination: port }, TcpFlag.RST, tokens[i]);
      const node = on.nodes.node1.node.link(link === "eth0" ? "cni0" : UPLINK).mac;
      const own = from.link(link).mac;
      assert.ok(node !== undefined && own !== undefined);
      using socket = new FrameSocket(from, link);
      socket.send(encodeFrame({ to: node, from: own, ...encodeIp(packet) }));
    }
    const seen = new Set<number>();
    for (let left = isAllowed ? 6000 : 40; left > 0 && seen.size < list.length; left--) {
      for (const frame of router.received()) {
        const index = tokens.findIndex((token) => Buffer.from(frame).includes(token));
        if (index >= 0) seen.add(index);
      }
      await pause(10);
    }
    return seen.size;
  };

  it("SVC-29: invalid packets to a Service and those of this node's pods are dropped and counted", async () => {
    for (const list of [toService(), fromPod(), toService(on.addressesOf("node1"), NODE_PORT)]) {
      const before = on.here.dropped(ServiceDropReason.INVALID);
      assert.equal(await send(list, false), 0);
      assert.equal(on.here.dropped(ServiceDropReason.INVALID), before + list.length);
    }
  });

  it("SVC-29: with dropInvalid off invalid packets pass", async () => {
    on.here.restart({ rules: { dropInvalid: false } });
    for (const list of [toService(), fromPod()]) assert.equal(await send(list, true), list.length);
    assert.equal(on.here.dropped(ServiceDropReason.INVALID), 0);
    on.here.restart({});
  });

  it("SVC-29: a connection of others goes on through a node that sees only one half of it", async () => {
    const { node1, router } = on.nodes;
    const edge = on.stranger("edge", pairOf("198.51.100.1", "2001:db8:c::1"));
    const side = pairOf("198.51.100.9", "2001:db8:d::9");
    const other = pairOf("198.51.100.10", "2001:db8:d::a");
    const withPrefix = (pair: typeof side) =>
      FAMILIES.map((family) => ({ address: pair[family], prefixLength: family === 4 ? 30 : 64 }));
    connect(
      { namespace: node1.node, link: "to-edge", mac: parseMac("02:00:00:00:06:01"), addresses: withPrefix(side) },
      { namespace: edge, link: "eth1", mac: parseMac("02:00:00:00:06:02"), addresses: withPrefix(other) },
    );
    for (const [namespace, devices] of [
      [edge, ["all", "eth0", "eth1"]],
      [router, ["all", "to-edge"]],
    ] as const) {
      for (const device of devices) namespace.writeSysctl(`net/ipv4/conf/${device}/rp_filter`, "0");
    }
    for (const family of FAMILIES) {
      const text = formatAddress(ELSEWHERE[family]);
      edge.exec("ip", ["address", "add", text, "dev", "lo", "nodad"]);
      node1.node.exec("ip", [`-${family}`, "route", "add", text, "via", formatAddress(other[family])]);
      on.prober.listen("tcp", { namespace: edge, address: ELSEWHERE[family], port: ELSEWHERE_PORT });
    }
    const chain = "type filter hook prerouting priority -50;";
    const rules = FAMILIES.map((family) => {
      const field = family === 4 ? "ip" : "ip6";
      return `${field} daddr ${formatAddress(ELSEWHERE[family])} ct state invalid counter`;
    });
    node1.node.exec("nft", ["-f", "-"], `table inet seen {\nchain c { ${chain}\n${rules.join("\n")}\n}\n}`);
    const flows = on
      .flows(on.far.namespace, ELSEWHERE, { port: ELSEWHERE_PORT, transports: ["tcp"] })
      .map((flow) => ({ ...flow, exchanges: 20 }));
    const before = on.here.dropped(ServiceDropReason.INVALID);
    await on.reach(flows, [{ namespace: edge }], on.far.addresses);
    const counts = [...node1.node.exec("nft", ["list", "table", "inet", "seen"]).matchAll(/packets (\d+)/g)];
    assert.equal(counts.length, FAMILIES.length);
    for (const [, packets] of counts) assert.ok(Number(packets) >= 20, `${packets} invalid packets went by`);
    assert.equal(on.here.dropped(ServiceDropReason.INVALID), before);
  });
});
