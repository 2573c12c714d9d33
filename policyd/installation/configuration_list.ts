import { CONFIGURATION_FILE, CONFIGURATION_NAME } from "../configuration/schema.ts";
import { Buffer } from "node:buffer";
import { PLUGIN } from "../../cni/executables.ts";
import { type Cidr, formatCidr } from "../../kernel/ip/cidr.ts";
import type { JsonObject, NetworkList } from "./list_text.ts";
import { CHAIN_MARK, CHAIN_SOURCE, mergeList, type OwnPart } from "./merged_list.ts";

/**
 * The list that a cleanup leaves in place of ours while pods that we attached remain. It sorts after the list of any
 * other add-on.
 */
export const DETACH_FILE = "zz-drawbridge-detach.conflist";

/** The name of the network. */
export const NETWORK_NAME = "drawbridge";

/**
 * The versions that the list offers. A runtime uses the newest of `cniVersions` that it knows. One that does not know
 * that field, such as containerd 1.6, uses `cniVersion` and refuses a list with a newer `cniVersion` than it knows.
 */
const VERSIONS = { cniVersion: "1.0.0", cniVersions: ["1.0.0", "1.1.0"] } as const;

/** The plugin's key for a list with which pods can only be deleted (cni/configuration/network_input.ts). */
const DETACH_ONLY = "detachOnly";

/** The inputs of the network's configuration. */
export interface NetworkParts {
  readonly ranges: readonly Cidr[];
  readonly bridge: string;
  readonly socketPath: string;
  readonly stateDirectory: string;
  /** Bytes. */
  readonly mtu: number;
}

/** Returns our part of the network configuration list with which runtimes call the plugin. */
export function ownPart(
  { ranges, bridge, socketPath, stateDirectory, mtu }: NetworkParts,
  chain: readonly JsonObject[],
): OwnPart {
  const entry = {
    type: PLUGIN,
    bridge,
    hairpinMode: true,
    mtu,
    capabilities: { bandwidth: true, ips: true, mac: true, portMappings: true },
    runDir: stateDirectory,
    // While the daemon is away, pods are attached and its tables drop their packets until it is back; without these
    // tables ADD fails.
    policyd: { socket: socketPath, wait: "10s", onUnavailable: "closed" },
    ipam: { type: "host-local", ranges: ranges.map((range) => [{ subnet: formatCidr(range) }]) },
  };
  return { ...VERSIONS, name: NETWORK_NAME, entry, chain };
}

/** Returns the text of the list that is written where there is none. */
export function networkConfiguration(parts: NetworkParts): string {
  return Buffer.from(mergeList(undefined, ownPart(parts, [])).text, "latin1").toString("utf8");
}

/**
 * Returns the text of the list with which runtimes can only delete pods. It retains other programs' plugins, since
 * their work for a pod has to be undone as well.
 *
 * @param present our list as it is; undefined where none can be read
 * @param places for a new entry, which names no socket, since no daemon listens on it
 */
export function detachConfiguration(
  present: NetworkList | undefined,
  { bridge, stateDirectory }: Pick<NetworkParts, "bridge" | "stateDirectory">,
): string {
  const found = present?.entries.find(({ type }) => type === PLUGIN);
  const entry = found?.value ?? { type: PLUGIN, bridge, runDir: stateDirectory };
  const own = { ...VERSIONS, name: NETWORK_NAME, entry: { ...entry, [DETACH_ONLY]: true }, chain: chainOf(present) };
  return Buffer.from(mergeList(present, own).text, "latin1").toString("utf8");
}

/** Returns whether {@link detachConfiguration} made the list. */
export function isDetachConfiguration(list: NetworkList): boolean {
  return (
    list.name === NETWORK_NAME && list.entries.some(({ type, value }) => type === PLUGIN && value[DETACH_ONLY] === true)
  );
}

/** Returns the entries of `cniChain` as configured. */
function chainOf(present: NetworkList | undefined): readonly JsonObject[] {
  const marked = (present?.entries ?? []).filter(({ value }) => value[CHAIN_MARK] === CHAIN_SOURCE);
  return marked.map(({ value }) => Object.fromEntries(Object.entries(value).filter(([key]) => key !== CHAIN_MARK)));
}

/**
 * Returns the configuration names that a runtime prefers to ours, in its order, including hidden ones. It uses the
 * first that is not a directory (libcni, ConfFiles).
 *
 * @param names all names in the directory
 */
export function namesBeforeOurs(names: readonly string[]): readonly string[] {
  return names.filter((name) => CONFIGURATION_NAME.test(name) && name < CONFIGURATION_FILE).toSorted();
}
