import { existsSync, readdirSync, readFileSync } from "node:fs";
import path from "node:path";
import { tryParseAddress } from "../../kernel/ip/address.ts";
import type { LabNode } from "../lab/lab.ts";
import { currentOwner, ownedName } from "../lab/owner.ts";
import { findLabFiles } from "../lab/sweep.ts";
import { UPLINK } from "../lab/topology.ts";
import type { World } from "./world.ts";
import { BRIDGE, NODES } from "./world.ts";

/** What a stage of the clean-up left, as the names of the things; every list should be empty. */
export type Leftovers = Readonly<Record<string, readonly string[]>>;

/** What is left of the pods on the nodes after every DEL. The bridge stays by design. */
export function leftoversOfPods(world: World): Leftovers {
  const nodes = NODES.map((name) => world.nodes[name].node);
  return {
    "pod links": nodes.flatMap((node) =>
      node
        .links()
        .filter(({ name }) => name !== "lo" && name !== UPLINK && name !== BRIDGE)
        .map(({ name }) => `${node.name}: ${name}`),
    ),
    "reserved addresses": nodes.flatMap((node) =>
      storeFiles(node).filter((file) => tryParseAddress(path.basename(file)) !== undefined),
    ),
    "attachment records": nodes.flatMap((node) => filesBelow(node.runDir)),
    "attachments known to policyd": NODES.flatMap((name) => {
      const { attachments } = world.daemons[name].process.status();
      return attachments === 0 ? [] : [`${name}: ${attachments}`];
    }),
  };
}

/** What is left of the lab after it was destroyed, and what the machine's own namespace has gained. */
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

/** The links of the machine's own namespace. */
export function machineLinks(): readonly string[] {
  return readdirSync("/sys/class/net");
}

function storeFiles(node: LabNode): readonly string[] {
  return filesBelow(node.dataDir);
}

function filesBelow(directory: string): readonly string[] {
  if (!existsSync(directory)) return [];
  return readdirSync(directory, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => path.join(entry.parentPath, entry.name));
}
