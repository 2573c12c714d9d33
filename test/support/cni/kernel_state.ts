import { readdirSync } from "node:fs";
import type { LabNode } from "../../lab/lab.ts";
import type { LabNamespace } from "../../lab/namespace.ts";

/** The state that a node holds for its pods, all of which DEL must remove. */
export interface NodeState {
  /** Names of the links other than lo, the uplink and the bridge. */
  readonly podLinks: readonly string[];
  /** Addresses with a reservation file. */
  readonly reservations: readonly string[];
  readonly records: readonly string[];
  /** Addresses with a permanent neighbour entry. */
  readonly neighbours: readonly string[];
}

export const nothingHeld: NodeState = { podLinks: [], reservations: [], records: [], neighbours: [] };

/** Reads the state with iproute2 and the file system, not with our own decoders. */
export function nodeState(node: LabNode, bridge = "cni0", network = "drawbridge"): NodeState {
  const own = new Set(["lo", "uplink", bridge]);
  return {
    podLinks: ipJson(node, "link")
      .map(nameOf)
      .filter((name) => !own.has(name)),
    reservations: list(`${node.dataDir}/${network}`).filter((name) => /^[0-9a-f.:]+$/.test(name)),
    records: list(`${node.runDir}/attachments/${network}`),
    neighbours: ipJson(node, "neigh", "show", "nud", "permanent", "dev", bridge).map((entry) => String(entry["dst"])),
  };
}

/** Returns the objects that an `ip -j -d` command prints, none when the device that it names does not exist. */
export function ipJson(namespace: LabNamespace, ...args: readonly string[]): readonly Record<string, unknown>[] {
  if (args.includes("dev") && !namespace.links().some(({ name }) => args.includes(name))) return [];
  return objects(namespace.exec("ip", ["-j", "-d", ...args]));
}

/** Returns the global addresses of a link, with their prefix lengths. */
export function addressesOf(namespace: LabNamespace, link: string): readonly string[] {
  return ipJson(namespace, "addr", "show", "dev", link)
    .flatMap((entry) => objectsIn(entry["addr_info"]))
    .filter((address) => address["scope"] === "global")
    .map((address) => `${String(address["local"])}/${String(address["prefixlen"])}`);
}

/** Returns the bridge port of a link as `bridge -j -d link` prints it. */
export function bridgePort(namespace: LabNamespace, name: string): Record<string, unknown> | undefined {
  return objects(namespace.exec("bridge", ["-j", "-d", "link", "show", "dev", name]))[0];
}

function nameOf(link: Record<string, unknown>): string {
  return String(link["ifname"]);
}

function objects(text: string): readonly Record<string, unknown>[] {
  return text.trim() === "" ? [] : objectsIn(JSON.parse(text));
}

/** Returns the objects in a list except empty ones, which iproute2 prints for each entry that its own filter drops. */
function objectsIn(value: unknown): readonly Record<string, unknown>[] {
  return Array.isArray(value) ? value.filter(isObject).filter((object) => Object.keys(object).length > 0) : [];
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null;
}

function list(directory: string): readonly string[] {
  try {
    return readdirSync(directory).sort();
  } catch {
    return [];
  }
}
