import assert from "node:assert/strict";
import type { Inventory } from "../../../cli/node/cleanup/inventory.ts";
import { type Removal, removalText } from "../../../cli/node/cleanup/removal.ts";
import { bridgeMac, hostMac } from "../../../attachment/names_and_macs.ts";
import { parseAddress } from "../../../kernel/ip/address.ts";
import { parseCidr } from "../../../kernel/ip/cidr.ts";
import { type NetworkList, readList } from "../../../policyd/installation/list_text.ts";
import { attachmentRecord } from "../cni/attachment_record.ts";
import { sha256 } from "../cni/cni.ts";
import { link, PLACE } from "./node_facts.ts";

export const HOST = "dbv0123456789ab";
export const BRIDGE = link(3, "drawbridge0", { kind: "bridge", mac: bridgeMac(sha256, "drawbridge0", "10.244.1.1") });
export const VETH = link(4, HOST, { kind: "veth", mac: hostMac(sha256, HOST), master: 3 });
const VXLAN = { vni: 107, port: 4789, local: undefined, learning: false, hasMore: false, hasOwnSocket: false };
const ROUTE = {
  table: 254,
  family: 4,
  destination: parseCidr("10.244.2.0/24"),
  gateway: undefined,
  outputInterface: 2,
  source: undefined,
  hasOtherNextHop: false,
  priority: 107,
  protocol: 107,
  onLink: false,
} as const;
const BESIDE = { ...ROUTE, destination: parseCidr("10.244.1.0/25"), priority: 106 };

export function listOf(...plugins: readonly object[]): NetworkList {
  const list = readList(Buffer.from(JSON.stringify({ name: "drawbridge", plugins })));
  return "unreadable" in list ? assert.fail(list.unreadable) : list;
}

export const LIST = listOf({ type: "drawbridge", bridge: "drawbridge0" }, { type: "tuning" });

export function inventory(changes: Partial<Inventory> = {}): Inventory {
  return {
    place: PLACE,
    isDaemonRunning: false,
    tables: [
      { family: "inet", name: "drawbridge", comment: "drawbridge schema 0123456789abcdef", isOwned: true },
      { family: "bridge", name: "drawbridge-cni", comment: "drawbridge-cni version 4", isOwned: false },
      { family: "inet", name: "firewalld", comment: undefined, isOwned: false },
    ],
    routes: [ROUTE, BESIDE, { ...ROUTE, protocol: 3 }, { ...ROUTE, priority: 0 }, { ...BESIDE, protocol: 3 }],
    rules: [{ family: 4, inputInterface: "drawbridge0", table: 107, priority: 107 }],
    proxies: [{ index: 6, address: parseAddress("10.244.1.2") }],
    links: [BRIDGE, VETH, link(5, "drawbridge.vx", { kind: "vxlan", vxlan: VXLAN }), link(6, "flannel.1")],
    bridgePrograms: [],
    addresses: [{ index: 3, address: parseCidr("10.244.1.1/24") }],
    records: [attachmentRecord({ hostInterface: HOST })],
    lists: { own: LIST, isDetachThere: false, others: [] },
    settings: [],
    connections: 10,
    files: [
      { path: "/opt/cni/bin/drawbridge", isOurs: true },
      { path: "/opt/cni/bin/loopback", isOurs: false },
      { path: "/opt/cni/bin/drawbridge-ipam", isOurs: true },
      { path: "/etc/cni/net.d/10-drawbridge.conflist", isOurs: true },
    ],
    state: ["attachments", "policyd.sock"],
    flows: undefined,
    stores: [{ path: "/var/lib/cni/networks/drawbridge", strange: [] }],
    ...changes,
  };
}

export function texts(removals: readonly Removal[]): readonly string[] {
  return removals.map((one) => `${one.kind} ${removalText(one)}`);
}
