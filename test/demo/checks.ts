import { existsSync, readdirSync, readFileSync } from "node:fs";
import path from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { FAMILIES, tryParseAddress } from "../../kernel/ip/address.ts";
import type { MacAddress } from "../../kernel/ip/mac.ts";
import { TUNNEL } from "../../policyd/routes/tunnel.ts";
import type { LabNamespace } from "../lab/namespace.ts";
import { currentOwner, ownedName } from "../lab/owner.ts";
import { encodeFrame, encodeIp, encodeUdp } from "../lab/probe/frame.ts";
import { FrameSocket } from "../lab/probe/frame_socket.ts";
import { labDirectories } from "../lab/sweep.ts";
import { UPLINK } from "../lab/topology.ts";
import { carries, newToken } from "../support/guard/token.ts";
import type { Check } from "./result.ts";
import { BRIDGE, type DemoPod, nodeOf, podOf, PORT, type World } from "./world.ts";
import { DropReason } from "../../policyd/node/tables/drop_reasons.ts";

/** Returns statements about the daemons: that each has exactly the pods of its node, and all objects. */
export function daemonChecks({ cluster }: World): readonly Check[] {
  return cluster.nodes.map(({ name: node, daemon }) => {
    const { version, isSynced, attachments, objects, problems } = daemon.status();
    const expected = cluster.pods.filter(({ nodeName }) => nodeName === node).length;
    const known = Object.entries(objects).flatMap(([kind, count]) => (count > 0 ? [`${count} ${kind}`] : []));
    return {
      isGood: isSynced && attachments === expected && problems.length === 0,
      text:
        `policyd ${version} on ${node}: ${isSynced ? "synced" : "not synced"}; ${attachments} of ${expected} ` +
        `attachments, ${known.join(", ")}`,
      details: problems,
    };
  });
}

/** Returns a statement about a list that should be empty. */
export function noneOf(text: string, names: readonly string[]): Check {
  return { isGood: names.length === 0, text: `${names.length} ${text}`, details: names };
}

const SPOOF_MILLISECONDS = 5000;

/**
 * Makes node1's first pod send to its third, once in each family as the second and then once as itself.
 *
 * Packets of one link keep their order, so when the honest packet has arrived, the spoofed one has arrived before it or
 * never will.
 *
 * @throws Error when the honest packet does not arrive
 */
export async function spoofCheck(world: World): Promise<Check> {
  const [attacker, pretended, target] = ["pod-a", "pod-b", "pod-c"].map((name) => podOf(world, name));
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
  const after = dropCounter(node);
  const [first, second] = [before, after].map((count) => count?.toString() ?? "no such rule");
  return {
    isGood: arrived === 0 && before !== undefined && after === before + FAMILIES.length,
    text:
      `${arrived} of ${FAMILIES.length} packets that ${attacker.name} sent as ${pretended.name} reached ${target.name}; ` +
      `node1's count of dropped ones: ${first} before, ${second} after`,
  };
}

async function receiveUntil(arrivals: FrameSocket, last: Uint8Array): Promise<readonly Uint8Array[]> {
  const end = performance.now() + SPOOF_MILLISECONDS;
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

/** The links of a node without pods. */
const LINKS: readonly string[] = ["lo", UPLINK, BRIDGE, TUNNEL.name];

/** Ends the daemons as an administrator does. @returns statements about what is left of the pods after every DEL */
export async function leftoversOfPods(world: World): Promise<readonly Check[]> {
  const { nodes } = world.cluster;
  // The bridge and the tunnel stay by design.
  const links = nodes.flatMap(({ name: node, namespace }) =>
    namespace.links().flatMap(({ name }) => (LINKS.includes(name) ? [] : [`${node}: ${name}`])),
  );
  const addresses = nodes.flatMap(({ namespace }) =>
    filesBelow(namespace.dataDir).filter((file) => tryParseAddress(path.basename(file)) !== undefined),
  );
  const records = nodes.flatMap(({ files }) => filesBelow(files.at("/run/drawbridge/attachments")));
  const known = nodes.flatMap(({ name, daemon }) => {
    const { attachments } = daemon.status();
    return attachments === 0 ? [] : [`${name}: ${attachments}`];
  });
  const ends = await Promise.all(nodes.map(async ({ name, daemon }) => ({ name, ...(await daemon.kill("SIGTERM")) })));
  return [
    noneOf("pod links left", links),
    noneOf("reserved addresses left", addresses),
    noneOf("attachment records left", records),
    noneOf("attachments that policyd still knows", known),
    noneOf(
      "daemons that did not end well",
      ends.flatMap(({ name, code, signal }) =>
        code === 0 ? [] : [`policyd of ${name} ended with ${signal ?? String(code)}`],
      ),
    ),
  ];
}

/**
 * Returns a statement about what is left of the lab after it was destroyed, and what the machine's own namespace has
 * gained.
 */
export function leftoversOfLab(linksBefore: readonly string[]): Check {
  const owner = currentOwner();
  const directories = labDirectories(({ pid, startTime }) => pid === owner.pid && startTime === owner.startTime);
  const mounts = readFileSync("/proc/self/mountinfo", "utf8").split("\n");
  return noneOf("namespaces, mounts, directories and links of the machine left", [
    ...directories,
    ...mounts.filter((line) => line.includes(ownedName(owner, ""))),
    ...machineLinks().filter((name) => !linksBefore.includes(name)),
  ]);
}

/** Returns the links of the machine's own namespace. */
export function machineLinks(): readonly string[] {
  return readdirSync("/sys/class/net");
}

function filesBelow(directory: string): readonly string[] {
  if (!existsSync(directory)) return [];
  return readdirSync(directory, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => path.join(entry.parentPath, entry.name));
}
