import { accessSync, constants, readdirSync, readFileSync, statSync } from "node:fs";
import * as v from "valibot";
import { listAttachments, recordedNetworks } from "../../../attachment/attachment_reader.ts";
import type { StoreFileSystem } from "../../../ipam/file_system.ts";
import { isName } from "../../../ipam/owner.ts";
import { canonicalRangeSets } from "../../../ipam/range.ts";
import { parseReservation, type Reservation } from "../../../ipam/reservation.ts";
import { IPAM, PLUGIN } from "../../../cni/executables.ts";
import { DrawbridgeError } from "../../../kernel/error.ts";
import { tryParseAddress } from "../../../kernel/ip/address.ts";
import { CONFIGURATION_NAME } from "../../../policyd/configuration/schema.ts";
import { namesBeforeOurs } from "../../../policyd/installation/configuration_list.ts";
import { leadsToOurs } from "../../../policyd/installation/primary.ts";
import type { NetworkFile, PluginFile } from "../doctor/facts.ts";
import { configurationPath } from "../own_lists.ts";
import type { NodePlace } from "../place.ts";
import { askVersion } from "./plugin_version.ts";

const LARGEST_CONFIGURATION = 1024 * 1024;
const LARGEST_RESERVATION = 1024;

/** Returns whether a file in a store's directory is not one that the store has besides reservations. */
export function isNotBookkeeping(name: string): boolean {
  return !/^(lock|last_reserved_ip\.\d+)$/.test(name);
}

/** Returns whether a file in a store's directory is neither a reservation nor one of the store's own. */
export function isStrange(name: string): boolean {
  return tryParseAddress(name) === undefined && isNotBookkeeping(name);
}

const listSchema = v.object({
  name: v.string(),
  plugins: v.pipe(
    v.array(
      v.object({
        type: v.string(),
        bridge: v.optional(v.string()),
        mtu: v.optional(v.number()),
        ipam: v.optional(
          v.object({
            type: v.optional(v.string()),
            ranges: v.optional(
              v.array(
                v.array(
                  v.object({
                    subnet: v.optional(v.string()),
                    rangeStart: v.optional(v.string()),
                    rangeEnd: v.optional(v.string()),
                    gateway: v.optional(v.string()),
                  }),
                ),
              ),
            ),
          }),
        ),
      }),
    ),
    v.minLength(1),
  ),
});

/** Returns what runtimes take for configurations, sorted (libcni, ConfFiles). @throws Error of node:fs */
export function readConfigurationNames({ configurationDirectory }: NodePlace): readonly string[] {
  if (statSync(configurationDirectory, { throwIfNoEntry: false }) === undefined) return [];
  return readdirSync(configurationDirectory, { withFileTypes: true })
    .filter((entry) => CONFIGURATION_NAME.test(entry.name) && !entry.isDirectory())
    .map(({ name }) => name)
    .sort();
}

/** Returns whether the configuration before ours attaches pods by ours. @throws Error of node:fs */
export function doesFirstLeadToOurs(place: NodePlace): boolean {
  const [first] = namesBeforeOurs(readConfigurationNames(place));
  if (first === undefined) return false;
  const path = `${place.configurationDirectory}/${first}`;
  const found = statSync(path, { throwIfNoEntry: false });
  if (found?.isFile() !== true || found.size > LARGEST_CONFIGURATION) return false;
  return leadsToOurs(readFileSync(path));
}

/** Reads our network configuration. @throws Error of node:fs when it cannot be read */
export function readNetwork(place: NodePlace): NetworkFile {
  const path = configurationPath(place);
  const found = statSync(path, { throwIfNoEntry: false });
  if (found === undefined) return { kind: "missing" };
  if (!found.isFile() || found.size > LARGEST_CONFIGURATION) return { kind: "broken", reason: "no file, or too large" };
  const text = readFileSync(path, "utf8");
  try {
    const { name, plugins } = v.parse(listSchema, JSON.parse(text));
    if (!isName(name)) return { kind: "broken", reason: `name: ${JSON.stringify(name.slice(0, 80))} is none` };
    const own = plugins.find(({ type }) => type === "drawbridge");
    if (own === undefined) return { kind: "broken", reason: 'no plugin of type "drawbridge" is in it' };
    const types = [...plugins.map(({ type }) => type), ...(own.ipam?.type === undefined ? [] : [own.ipam.type])];
    const wrong = types.find((type) => !isName(type));
    if (wrong !== undefined)
      return { kind: "broken", reason: `type: ${JSON.stringify(wrong.slice(0, 80))} is no name` };
    const ranges = canonicalRangeSets(own.ipam?.ranges ?? [], "ipam.ranges");
    return { kind: "network", name, types, ranges, mtu: own.mtu };
  } catch (error) {
    if (error instanceof SyntaxError) return { kind: "broken", reason: `no JSON: ${error.message}` };
    if (error instanceof DrawbridgeError || v.isValiError(error)) return { kind: "broken", reason: error.message };
    throw error;
  }
}

/** IPAM plugins that ours implements itself, so that their files are not needed. */
const SERVED = ["host-local", IPAM];

/**
 * Reads the programs that a network configuration names, and ours in any case.
 *
 * @param sourceDirectory the directory of this release's executable, if it exists on this machine
 * @throws Error of node:fs
 */
export function readPlugins(
  { binaryDirectory }: NodePlace,
  network: NetworkFile,
  sourceDirectory: string,
): readonly PluginFile[] {
  const types = network.kind === "network" ? network.types.filter((type) => !SERVED.includes(type)) : [];
  return [...new Set([PLUGIN, ...types])].map((name) => {
    const path = `${binaryDirectory}/${name}`;
    const isOurs = name === PLUGIN;
    const isFile = statSync(path, { throwIfNoEntry: false })?.isFile() === true;
    const isExecutable = isFile && canExecute(path);
    return {
      name,
      isFile,
      isExecutable,
      isAsShipped: isOurs && isFile ? isSameContent(path, `${sourceDirectory}/${name}`) : undefined,
      version: isOurs && isExecutable ? askVersion(path) : undefined,
    };
  });
}

/** Reads the records of all networks. @throws DrawbridgeError ERR_STORE */
export function readRecords(files: StoreFileSystem, { stateDirectory }: NodePlace): ReturnType<typeof listAttachments> {
  const lists = recordedNetworks(stateDirectory, files).map((network) =>
    listAttachments(stateDirectory, network, files),
  );
  return {
    records: lists.flatMap(({ records }) => records),
    unreadable: lists.flatMap(({ unreadable }) => unreadable),
  };
}

/**
 * Reads the reservations of our network.
 *
 * @param hasAttachments whether there must be some: the daemon's container sees the records, but not this directory
 * @throws DrawbridgeError ERR_STORE
 */
export function readReservations(
  files: StoreFileSystem,
  { dataDirectory }: NodePlace,
  network: NetworkFile,
  hasAttachments: boolean,
): { readonly directory: string; readonly reservations: readonly Reservation[]; readonly strange: readonly string[] } {
  const directory = `${dataDirectory}/${network.kind === "network" ? network.name : "drawbridge"}`;
  const names = [...files.readDirectory(directory)].sort();
  const reservations = names.flatMap((name) => readReservation(files, directory, name) ?? []);
  if (reservations.length === 0 && hasAttachments) {
    throw new DrawbridgeError(
      "ERR_STORE",
      `${directory} has no reservation, though pods are attached: look on the node itself and not in a container, or give its --data-directory`,
    );
  }
  return { directory, reservations, strange: names.filter(isStrange) };
}

/** Reads one file of a store; undefined where it is gone or no reservation. @throws DrawbridgeError ERR_STORE */
export function readReservation(files: StoreFileSystem, directory: string, name: string): Reservation | undefined {
  const address = tryParseAddress(name);
  if (address === undefined) return undefined;
  const file = files.readSmallFile(`${directory}/${name}`, LARGEST_RESERVATION);
  if (file.kind === "missing") return undefined;
  return parseReservation(address, file.kind === "text" ? file.text : undefined);
}

function canExecute(path: string): boolean {
  // Root may execute a file with any one of the bits set.
  const { mode } = statSync(path);
  if ((mode & 0o111) === 0) return false;
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}

/** A text in the plugin (cni/main.ts) by which it is recognized. */
const PLUGIN_WORDS = "Drawbridge CNI plugin";

/** Returns whether a file is Drawbridge's plugin. @throws Error of node:fs */
export function isOurExecutable(file: string): boolean {
  return readFileSync(file).includes(PLUGIN_WORDS);
}

/** Returns whether two files have the same content; undefined if the second is missing. @throws Error of node:fs */
export function isSameContent(file: string, other: string): boolean | undefined {
  const second = statSync(other, { throwIfNoEntry: false });
  if (second?.isFile() !== true) return undefined;
  return statSync(file).size === second.size && readFileSync(file).equals(readFileSync(other));
}
