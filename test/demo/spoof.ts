import { FAMILIES } from "../../kernel/ip/address.ts";
import { setTimeout as pause } from "node:timers/promises";
import { DropReason } from "../../policyd/node/tables/guard.ts";
import type { MacAddress } from "../../kernel/ip/mac.ts";
import { encodeFrame, encodeIp, encodeUdp } from "../lab/probe/frame.ts";
import { FrameSocket } from "../lab/probe/frame_socket.ts";
import type { LabNamespace } from "../lab/namespace.ts";
import { carries, newToken } from "../support/guard/token.ts";
import { BRIDGE, type DemoPod, type NodeName, nodeOf, type World } from "./world.ts";

const PORT = 8080;
const DEADLINE_MILLISECONDS = 5000;

/** The result of packets that a pod sent with another pod's address. */
export interface SpoofResult {
  readonly node: NodeName;
  readonly attacker: string;
  /** The pod whose address the packets carried. */
  readonly pretended: string;
  readonly target: string;
  readonly sent: number;
  readonly arrived: number;
  /** The kernel's counter of frames dropped for their source, before and after; undefined without such a rule. */
  readonly counted: readonly [number | undefined, number | undefined];
}

/**
 * Makes node1's first pod send to its third, once in each family as the second and then once as itself.
 *
 * Packets of one link keep their order, so when the honest packet has arrived, the spoofed one has arrived before it or
 * never will.
 *
 * @throws Error when the honest packet does not arrive
 */
export async function measureSpoof(world: World): Promise<SpoofResult> {
  const [attacker, pretended, target] = world.pods.filter(({ node }) => node === "node1");
  if (attacker === undefined || pretended === undefined || target === undefined) throw new Error("too few pods");
  const node = nodeOf(world, "node1");
  const gateway = macOf(node, BRIDGE);
  using link = new FrameSocket(attacker.namespace, "eth0");
  using arrivals = new FrameSocket(target.namespace, "eth0");
  const send = (source: DemoPod, family: (typeof FAMILIES)[number]): Uint8Array => {
    const token = newToken();
    const packet = encodeUdp(source.addresses[family], target.addresses[family], PORT, token);
    link.send(encodeFrame({ from: macOf(attacker.namespace, "eth0"), to: gateway, ...encodeIp(packet) }));
    return token;
  };
  const before = dropCounter(node);
  let arrived = 0;
  for (const family of FAMILIES) {
    const spoofed = send(pretended, family);
    const frames = await receiveUntil(arrivals, send(attacker, family));
    arrived += frames.filter((frame) => carries(frame, spoofed)).length;
  }
  return {
    node: "node1",
    attacker: attacker.name,
    pretended: pretended.name,
    target: target.name,
    sent: FAMILIES.length,
    arrived,
    counted: [before, dropCounter(node)],
  };
}

/** Whether none arrived and the kernel has counted each. */
export function isSpoofStopped({ sent, arrived, counted: [before, after] }: SpoofResult): boolean {
  return arrived === 0 && before !== undefined && after === before + sent;
}

async function receiveUntil(arrivals: FrameSocket, last: Uint8Array): Promise<readonly Uint8Array[]> {
  const end = performance.now() + DEADLINE_MILLISECONDS;
  const frames: Uint8Array[] = [];
  for (;;) {
    frames.push(...arrivals.received());
    if (frames.some((frame) => carries(frame, last))) return frames;
    if (performance.now() > end) throw new Error("a packet with the pod's own address did not arrive");
    await pause(1);
  }
}

/**
 * Returns how many frames the guard's rule for sources has dropped, by the kernel's counter; undefined when there is no
 * such rule.
 */
function dropCounter(node: LabNamespace): number | undefined {
  const listing = node.exec("nft", ["list", "ruleset", "bridge"]);
  const [, packets] = new RegExp(`packets (\\d+) bytes \\d+ drop comment "${DropReason.SOURCE}"`).exec(listing) ?? [];
  return packets === undefined ? undefined : Number(packets);
}

function macOf(namespace: LabNamespace, name: string): MacAddress {
  const { mac } = namespace.link(name);
  if (mac === undefined) throw new Error(`${namespace.name}: ${name} has no MAC address`);
  return mac;
}
