import { Buffer } from "node:buffer";
import { SHIM } from "../../cni/executables.ts";
import type { Cidr } from "../../kernel/ip/cidr.ts";
import { formatCidr } from "../../kernel/ip/cidr.ts";
import type { JsonObject } from "./list_text.ts";
import type { OwnPart } from "./merged_list.ts";
import { mergeList } from "./merged_list.ts";

/** The name of the file; runtimes use the first one of the directory. */
export const CONFIGURATION_FILE = "10-drawbridge.conflist";

/** The names that runtimes take for configurations (libcni, ConfFiles). */
export const CONFIGURATION_NAME = /\.(conf|conflist|json)$/;

/** The name of the network. */
export const NETWORK_NAME = "drawbridge";

/**
 * The versions that the list offers. A runtime takes the newest of `cniVersions` that it knows; one that does not know that
 * field, such as containerd 1.6, takes `cniVersion` and refuses a list whose `cniVersion` is newer than it knows.
 */
const VERSIONS = { cniVersion: "1.0.0", cniVersions: ["1.0.0", "1.1.0"] } as const;

/** What the network's configuration is made of. */
export interface NetworkParts {
  readonly ranges: readonly Cidr[];
  readonly bridge: string;
  readonly socketPath: string;
  readonly stateDirectory: string;
  /** Bytes. */
  readonly mtu: number;
}

/** Our part of the network configuration list by which runtimes call the plugin. */
export function ownPart(
  { ranges, bridge, socketPath, stateDirectory, mtu }: NetworkParts,
  chain: readonly JsonObject[],
): OwnPart {
  const entry = {
    type: SHIM,
    bridge,
    hairpinMode: true,
    mtu,
    capabilities: { bandwidth: true, ips: true, mac: true, portMappings: true },
    runDir: stateDirectory,
    // While the daemon is away pods are attached and wait behind its tables for it; without its tables they fail.
    policyd: { socket: socketPath, wait: "10s", onUnavailable: "closed" },
    ipam: { type: "host-local", ranges: ranges.map((range) => [{ subnet: formatCidr(range) }]) },
  };
  return { ...VERSIONS, name: NETWORK_NAME, entry, chain };
}

/** The network configuration list that is written where there is none, as a file's text. */
export function networkConfiguration(parts: NetworkParts): string {
  return Buffer.from(mergeList(undefined, ownPart(parts, [])).text, "latin1").toString("utf8");
}

/**
 * Which file of the directory a runtime uses instead of ours: the first by name of those it takes for configurations, hidden
 * ones among them (libcni, ConfFiles).
 *
 * @param names of all files there
 * @returns undefined when ours is the first
 */
export function firstBeforeOurs(names: readonly string[]): string | undefined {
  const before = names.filter((name) => CONFIGURATION_NAME.test(name) && name < CONFIGURATION_FILE);
  return before.sort()[0];
}
