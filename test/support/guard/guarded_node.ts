import assert from "node:assert/strict";
import { setTimeout as sleep } from "node:timers/promises";
import type { AttachmentRecord } from "../../../attachment/attachment.ts";
import { listAttachments } from "../../../attachment/attachment_reader.ts";
import { systemFileSystem } from "../../../ipam/file_system.ts";
import { type Address, type Family, familyOf, parseAddress, FAMILIES } from "../../../kernel/ip/address.ts";
import { formatCidr } from "../../../kernel/ip/cidr.ts";
import { linkLocalAddress, type MacAddress, parseMac } from "../../../kernel/ip/mac.ts";
import { type Change, tableChanges } from "../../../kernel/nftables/encode/change.ts";
import type { Element } from "../../../kernel/nftables/model/object.ts";
import { NftablesSocket } from "../../../kernel/nftables/socket.ts";
import { attachmentElements } from "../../../policyd/node/attachment_elements.ts";
import { attachedElements } from "../../../policyd/node/tables/attached_addresses.ts";
import type { NodeConfiguration } from "../../../policyd/node/tables/configuration.ts";
import { nodeTables } from "../../../policyd/node/tables/tables.ts";
import { add, type Configuration, LAB_BRIDGE } from "../../lab/cni.ts";
import type { Lab, LabPod } from "../../lab/lab.ts";
import type { LabNamespace } from "../../lab/namespace.ts";
import { FrameSocket } from "../../lab/probe/frame_socket.ts";
import { connect, type TwoNodes, twoNodes, type WiredNode } from "../../lab/topology.ts";
import { carries } from "./token.ts";
import { droppedPackets } from "../nftables/dropped_packets.ts";

/** The daemon's configuration on the labs' bridge, with defaults otherwise. */
export const NODE_CONFIGURATION: NodeConfiguration = {
  bridge: LAB_BRIDGE,
  markBits: { masquerade: 0x1000_0000, bridged: 0x2000_0000 },
  tableOwner: false,
};

/** One end of the bridge: its addresses on it, and a socket that reads and writes the frames of its interface. */
export interface Party {
  readonly namespace: LabNamespace;
  readonly mac: MacAddress;
  /**
   * The MAC address to which it sends packets for other networks: its port's where its packets go around the bridge,
   * else the bridge's.
   */
  readonly gatewayMac: MacAddress;
  readonly addresses: Readonly<Record<Family | "link-local", Address>>;
  readonly link: FrameSocket;
}

/** A pod as the plugin wires it. */
export interface GuardedPod extends Party {
  readonly namespace: LabPod;
  readonly record: AttachmentRecord;
}

/** A node with four pods, another program's port on its bridge, and the guard, which can be loaded and unloaded. */
export interface GuardedNode extends Disposable {
  readonly nodes: TwoNodes;
  readonly wired: WiredNode;
  readonly attacker: GuardedPod;
  readonly victim: GuardedPod;
  readonly third: GuardedPod;
  readonly fourth: GuardedPod;
  /** The bridge itself. */
  readonly bridge: Party;
  /** Another program's port of the same bridge. */
  readonly stranger: Party;
  /** Loads the guard again, with counters at zero, and discards the frames that the sockets have received so far. */
  load(changes?: Partial<NodeConfiguration>): void;
  /** Unloads the guard, and discards the frames that the sockets have received so far. */
  unload(): void;
  /** Returns the number of packets that the rules with this comment have dropped since the guard was loaded. */
  dropped(reason: string): number;
  /** Whether a party receives a frame with this token exactly once; waits for it up to half a minute. */
  arrives(token: Uint8Array, at: Party): Promise<boolean>;
  /**
   * Removes the stranger's port from the bridge while `work` runs: policyd does not take over a bridge that has a
   * foreign port (FOREIGN-02).
   */
  withoutStranger<T>(work: () => Promise<T>): Promise<T>;
}

const STRANGER_PORT = "other0";

/**
 * Makes the node, with strict reverse path filtering and without the guard.
 *
 * @param bypassBridge whether the pods' packets go around the bridge
 */
export function guardedNode(lab: Lab, bridgeNetfilter: boolean, bypassBridge: boolean): GuardedNode {
  const nodes = twoNodes(lab, { bridgeNetfilter, reversePathFilter: 1 });
  const wired = nodes.node1;
  const { node } = wired;
  const pods = [
    ...["attacker", "victim", "third"].map((name) => attach(lab, wired, name, { bypassBridge })),
    attach(lab, wired, "fourth", { ...unusual(wired), bypassBridge }),
  ];
  const [attacker, victim, third, fourth] = pods;
  assert.ok(attacker !== undefined && victim !== undefined && third !== undefined && fourth !== undefined);
  const bridgeMac = bridgeMacOf(wired);
  const bridge: Party = {
    namespace: node,
    mac: bridgeMac,
    gatewayMac: bridgeMac,
    addresses: { 4: wired.gateways[0], 6: wired.gateways[1], "link-local": linkLocalAddress(bridgeMac) },
    link: new FrameSocket(node, "cni0"),
  };
  const stranger = attachStranger(lab, wired);
  const nftables = node.inside(() => new NftablesSocket(lab.calls));
  let tables = nodeTables(NODE_CONFIGURATION);
  const claims = pods.flatMap(({ record }) => [
    ...attachmentElements(record),
    ...attachedElements(record.addresses.map(({ address }) => address)),
  ]);
  let isLoaded = false;
  const removal = (): readonly Change[] =>
    isLoaded ? tables.map((table): Change => ({ kind: "delete table", table })) : [];
  const links = [...pods, bridge, stranger].map(({ link }) => link);
  // A socket that nobody reads is full after a while, and then loses frames.
  const forget = (): void => {
    for (const link of links) link.received();
  };
  return {
    nodes,
    wired,
    attacker,
    victim,
    third,
    fourth,
    bridge,
    stranger,
    load: (changes = {}) => {
      forget();
      const before = removal();
      tables = nodeTables({ ...NODE_CONFIGURATION, ...changes });
      const additions = tables.flatMap((table) => {
        const elements = Map.groupBy(
          claims.filter((claim) => claim.table.family === table.family && claim.table.name === table.name),
          ({ set }) => set,
        );
        const bySet = new Map<string, readonly Element[]>(
          [...elements].map(([set, ofSet]) => [set, ofSet.map(({ element }) => element)]),
        );
        return tableChanges(table, bySet);
      });
      nftables.commit([...before, ...additions]);
      isLoaded = true;
    },
    unload: () => {
      forget();
      nftables.commit(removal());
      isLoaded = false;
    },
    dropped: (reason) =>
      tables
        .map(({ family, name }) => node.exec("nft", ["--terse", "list", "table", family, name]))
        .reduce((sum, listing) => sum + droppedPackets(listing, reason), 0),
    withoutStranger: async (work) => {
      node.exec("ip", ["link", "set", STRANGER_PORT, "nomaster"]);
      try {
        return await work();
      } finally {
        node.exec("ip", ["link", "set", STRANGER_PORT, "master", "cni0"]);
      }
    },
    arrives: (token, at) => eventually(() => at.link.received().some((frame) => carries(frame, token))),
    [Symbol.dispose]: () => {
      nftables.close();
      for (const link of links) link.close();
    },
  };
}

/** The longest wait for something that comes within milliseconds on an idle machine. */
const PATIENCE_MILLISECONDS = 30_000;
const LONGEST_INTERVAL_MILLISECONDS = 20;

/**
 * Polls until the answer is true, for at most half a minute, so that a loaded machine makes a test slow and not wrong.
 * The intervals become longer, because polling takes the processor from what the test waits for.
 */
export async function eventually(isSo: () => boolean): Promise<boolean> {
  const end = performance.now() + PATIENCE_MILLISECONDS;
  for (let interval = 1; !isSo(); interval = Math.min(2 * interval, LONGEST_INTERVAL_MILLISECONDS)) {
    if (performance.now() > end) return false;
    await sleep(interval);
  }
  return true;
}

/** Returns whether something has happened a quarter of a second from now: for what rules must prevent. */
export async function soon(isSo: () => boolean): Promise<boolean> {
  // The sender's own call takes a packet through the namespaces, so a packet that passes is there by then.
  await sleep(250);
  return isSo();
}

function bridgeMacOf({ node }: WiredNode): MacAddress {
  const { mac } = node.link("cni0");
  assert.ok(mac !== undefined);
  return mac;
}

/** Returns the configuration of a pod with a MAC address that it chose and a second IPv4 address. */
function unusual(wired: WiredNode): Configuration {
  const subnets = [...wired.podCidrs.map(formatCidr), "10.245.1.0/24"];
  return {
    capabilities: { mac: true },
    runtimeConfig: { mac: "02:00:00:00:04:04" },
    ipam: { type: "host-local", dataDir: wired.node.dataDir, ranges: subnets.map((subnet) => [{ subnet }]) },
  };
}

/** Wires one more pod and opens a socket on its link. */
export function attach(lab: Lab, wired: WiredNode, name: string, overrides?: Configuration): GuardedPod {
  const pod = lab.pod(name);
  const outcome = add(wired, pod, overrides);
  assert.equal(outcome.exitCode, 0, outcome.stdout);
  const { records } = listAttachments(wired.node.runDir, "drawbridge", systemFileSystem(lab.calls));
  const record = records.find(({ containerId }) => containerId === pod.containerId);
  assert.ok(record !== undefined);
  const [v4, v6] = FAMILIES.map((family) => record.addresses.find((cidr) => familyOf(cidr.address) === family));
  assert.ok(v4 !== undefined && v6 !== undefined);
  return {
    namespace: pod,
    record,
    mac: record.mac,
    gatewayMac: overrides?.["bypassBridge"] === false ? bridgeMacOf(wired) : record.hostMac,
    addresses: { 4: v4.address, 6: v6.address, "link-local": linkLocalAddress(record.mac) },
    link: new FrameSocket(pod, "eth0"),
  };
}

/** Attaches a foreign port to the bridge: another program's container in the node's pod subnet. */
function attachStranger(lab: Lab, wired: WiredNode): Party {
  const namespace = lab.namespace("stranger");
  const mac = parseMac("02:00:00:00:be:01");
  const [v4, v6] = [parseAddress("10.244.1.200"), parseAddress("fd00:244:1::c8")];
  connect(
    { namespace: wired.node, link: STRANGER_PORT, mac: parseMac("02:00:00:00:be:02"), addresses: [] },
    {
      namespace,
      link: "eth0",
      mac,
      addresses: [
        { address: v4, prefixLength: 24 },
        { address: v6, prefixLength: 64 },
      ],
    },
  );
  wired.node.exec("ip", ["link", "set", STRANGER_PORT, "master", "cni0"]);
  return {
    namespace,
    mac,
    gatewayMac: bridgeMacOf(wired),
    addresses: { 4: v4, 6: v6, "link-local": linkLocalAddress(mac) },
    link: new FrameSocket(namespace, "eth0"),
  };
}
