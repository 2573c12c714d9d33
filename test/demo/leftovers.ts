import { existsSync, readdirSync, readFileSync } from "node:fs";
import path from "node:path";
import { tryParseAddress } from "../../kernel/ip/address.ts";
import { TUNNEL } from "../../policyd/routes/tunnel.ts";
import { currentOwner, ownedName } from "../lab/owner.ts";
import { findLabFiles } from "../lab/sweep.ts";
import { UPLINK } from "../lab/topology.ts";
import { BRIDGE, type World } from "./world.ts";

/** The links of a node without pods. */
const LINKS: readonly string[] = ["lo", UPLINK, BRIDGE, TUNNEL.name];

/** The names of things that a stage of the clean-up did not remove; every list should be empty. */
export type Leftovers = Readonly<Record<string, readonly string[]>>;

/** Returns what is left of the pods on the nodes after every DEL. The bridge and the tunnel stay by design. */
export function leftoversOfPods(world: World): Leftovers {
  const { nodes } = world.cluster;
  const namespaces = nodes.map(({ namespace }) => namespace);
  return {
    "pod links": namespaces.flatMap((node) =>
      node.links().flatMap(({ name }) => (LINKS.includes(name) ? [] : [`${node.name}: ${name}`])),
    ),
    "reserved addresses": namespaces.flatMap(({ dataDir }) =>
      filesBelow(dataDir).filter((file) => tryParseAddress(path.basename(file)) !== undefined),
    ),
    "attachment records": nodes.flatMap(({ files }) => filesBelow(files.at("/run/drawbridge/attachments"))),
    "attachments known to policyd": nodes.flatMap(({ name, daemon }) => {
      const { attachments } = daemon.status();
      return attachments === 0 ? [] : [`${name}: ${attachments}`];
    }),
  };
}

/** Returns what is left of the lab after it was destroyed, and what the machine's own namespace has gained. */
export function leftoversOfLab(linksBefore: readonly string[], linksNow: readonly string[]): Leftovers {
  const owner = currentOwner();
  const { namespaces, directories } = findLabFiles(
    ({ pid, startTime }) => pid === owner.pid && startTime === owner.startTime,
  );
  return {
    namespaces,
    mounts: readFileSync("/proc/self/mountinfo", "utf8")
      .split("\n")
      .filter((line) => line.includes(ownedName(owner, ""))),
    directories,
    "links of the machine": linksNow.filter((name) => !linksBefore.includes(name)),
  };
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
