import { lstatSync, readdirSync, readFileSync, readlinkSync, statSync } from "node:fs";
import path from "node:path";
import { IPAM, LOOPBACK_PLUGIN, PLUGIN } from "../../../cni/executables.ts";
import { askPolicyd } from "../../../attachment/policyd_client.ts";
import { type StoreFileSystem, systemFileSystem } from "../../../ipam/file_system.ts";
import { recordedNetworks } from "../../../attachment/attachment_reader.ts";
import { listOriginals } from "../../../attachment/original_settings.ts";
import { CHECKSUM_PROGRAM } from "../../../kernel/bpf/checksum_filter.ts";
import { hasOwnProgram } from "../../../kernel/bpf/own_program.ts";
import { PORT_PROGRAM } from "../../../kernel/bpf/port_table.ts";
import { DrawbridgeError } from "../../../kernel/error.ts";
import { readBootId } from "../../../kernel/file.ts";
import { procSysctl } from "../../../kernel/sysctl.ts";
import { dumpProxyNeighbours, parseOwnProxy } from "../../../kernel/route/neighbour.ts";
import { dumpRules, parseRule } from "../../../kernel/route/rule.ts";
import { type NetworkList, readList } from "../../../policyd/installation/list_text.ts";
import { withoutOwnPart } from "../../../policyd/installation/merged_list.ts";
import { CONFIGURATION_FILE } from "../../../policyd/configuration/schema.ts";
import { DETACH_FILE, isDetachConfiguration } from "../../../policyd/installation/configuration_list.ts";
import type { FileEntry, Inventory, PodsThere } from "../cleanup/inventory.ts";
import { configurationPath, detachPath } from "../own_lists.ts";
import type { NodePlace } from "../place.ts";
import {
  isOurExecutable,
  isNotBookkeeping,
  isStrange,
  readConfigurationNames,
  readNetwork,
  readRecords,
} from "./read_files.ts";
import type { MachineCalls } from "../../../kernel/syscall/machine_calls.ts";
import { readAddresses, readFamilies, readRoutes, readRuleset } from "./read_network.ts";
import { readLinks } from "../../../policyd/checks/read_machine.ts";
import { withRouteSocket } from "../../../kernel/route/socket.ts";

const DAEMON_MILLISECONDS = 3000;
const PROGRAMS = [PLUGIN, IPAM, LOOPBACK_PLUGIN];
/** A temporary file of an installation that was killed (policyd/installation/installer.ts). */
const TEMPORARY = /^\.drawbridge\.[0-9a-f]{16}\.tmp$/;
const NETWORK = "drawbridge";

/**
 * Lists what might be ours.
 *
 * @throws NetlinkError, DrawbridgeError ERR_STORE, and ERR_INPUT where a directory cannot be read: all of it needs root
 */
export function readInventory(syscalls: MachineCalls, place: NodePlace): Inventory {
  return asRoot(() => {
    const pods = readPods(syscalls, place);
    const { links } = pods;
    return {
      ...pods,
      place,
      tables: readRuleset(syscalls).tables,
      routes: readRoutes(syscalls),
      rules: readFamilies(syscalls, dumpRules, parseRule),
      proxies: readFamilies(syscalls, dumpProxyNeighbours, parseOwnProxy),
      bridgePrograms: withRouteSocket(syscalls, (socket) =>
        links
          .filter(({ kind }) => kind === "bridge")
          .flatMap((bridge) =>
            [PORT_PROGRAM, CHECKSUM_PROGRAM]
              .filter((program) => hasOwnProgram({ socket }, program, bridge.index))
              .map((program) => ({ program, bridge })),
          ),
      ),
      addresses: readAddresses(syscalls),
      files: [...configurations(place), ...programs(place)],
      lists: lists(place),
      settings: changedSettings(syscalls, place),
      connections: connectionsOf(syscalls),
      state: namesIn(place.stateDirectory),
      flows: namesIn(place.flowDirectory),
      stores: stores(systemFileSystem(syscalls), place),
    };
  });
}

/** Lists the pods that might be ours. @throws as {@link readInventory} */
export function readPods(syscalls: MachineCalls, place: NodePlace): PodsThere {
  return asRoot(() => ({
    links: readLinks(syscalls),
    records: readRecords(systemFileSystem(syscalls), place).records,
    isDaemonRunning: isDaemonRunning(syscalls, place),
  }));
}

function asRoot<T>(action: () => T): T {
  try {
    return action();
  } catch (error) {
    if (error instanceof DrawbridgeError || !(error instanceof Error) || !("code" in error)) throw error;
    throw new DrawbridgeError("ERR_INPUT", `${error.message}; run as root`);
  }
}

/** Returns whether a process listens on the socket, whatever it answers. */
function isDaemonRunning(syscalls: MachineCalls, { socket }: NodePlace): boolean {
  try {
    askPolicyd(syscalls, socket, { type: "status" }, DAEMON_MILLISECONDS);
    return true;
  } catch (error) {
    if (!(error instanceof DrawbridgeError)) throw error;
    return !/ENOENT|ECONNREFUSED|ENOTDIR/.test(error.message);
  }
}

function configurations(place: NodePlace): readonly FileEntry[] {
  const own = configurationPath(place);
  const leftovers = [...leftoversIn(place.configurationDirectory), ...copiesOf(own), ...detaching(place)];
  if (!exists(own)) return leftovers;
  const isOurs = isOurConfiguration(place);
  const hasMainPlugin = isOurs && isUsefulWithoutUs(own);
  return [{ path: own, isOurs, hasMainPlugin }, ...leftovers];
}

/** Returns the list that an earlier cleanup has left for pods. */
function detaching(place: NodePlace): readonly FileEntry[] {
  const file = detachPath(place);
  return exists(file) ? [{ path: file, isOurs: isDetaching(file) }] : [];
}

function isDetaching(file: string): boolean {
  const list = listIn(file);
  return list !== undefined && isDetachConfiguration(list);
}

function lists(place: NodePlace): Inventory["lists"] {
  const ours = [CONFIGURATION_FILE, DETACH_FILE];
  return {
    own: isOurConfiguration(place) ? listIn(configurationPath(place)) : undefined,
    isDetachThere: isDetaching(detachPath(place)),
    others: readConfigurationNames(place).filter((name) => !ours.includes(name)),
  };
}

function listIn(file: string): NetworkList | undefined {
  if (statSync(file, { throwIfNoEntry: false })?.isFile() !== true) return undefined;
  const list = readList(readFileSync(file));
  return "unreadable" in list ? undefined : list;
}

function changedSettings(syscalls: MachineCalls, { stateDirectory }: NodePlace): Inventory["settings"] {
  const sysctl = procSysctl(syscalls);
  const bootId = readBootId(syscalls);
  const place = { files: systemFileSystem(syscalls), runDirectory: stateDirectory, bootId: () => bootId };
  return listOriginals(place).map((found) => ({
    ...found,
    present: found.setting === undefined ? undefined : sysctl.read(found.setting.key),
  }));
}

function connectionsOf(syscalls: MachineCalls): number | undefined {
  const text = procSysctl(syscalls).read("net/netfilter/nf_conntrack_count");
  return text === undefined ? undefined : Number(text);
}

/** Returns others' files that the daemon found under our file's name and saved (policyd/installation/list_file.ts). */
function copiesOf(own: string): readonly FileEntry[] {
  const prefix = `${path.basename(own)}.saved-`;
  const names = (namesIn(path.dirname(own)) ?? []).filter((name) => name.startsWith(prefix));
  return names.map((name) => ({ path: `${path.dirname(own)}/${name}`, isOurs: false }));
}

function isUsefulWithoutUs(file: string): boolean {
  const list = listIn(file);
  return list !== undefined && withoutOwnPart(list) !== undefined;
}

/** Returns whether the file names our network and our plugin. An unreadable file may be anybody's. */
function isOurConfiguration(place: NodePlace): boolean {
  const network = readNetwork(place);
  return network.kind === "network" && network.name === NETWORK;
}

function programs({ binaryDirectory }: NodePlace): readonly FileEntry[] {
  const entries = PROGRAMS.map((name) => `${binaryDirectory}/${name}`)
    .filter(exists)
    .map((file) => ({ path: file, isOurs: isOurProgram(file) }));
  return [...entries, ...leftoversIn(binaryDirectory)];
}

function isOurProgram(file: string): boolean {
  const found = statSync(file, { throwIfNoEntry: false });
  if (found === undefined) return path.basename(readlinkSync(file)) === PLUGIN;
  return found.isFile() && isOurExecutable(file);
}

function leftoversIn(directory: string): readonly FileEntry[] {
  const names = (namesIn(directory) ?? []).filter((name) => TEMPORARY.test(name));
  return names.map((name) => ({ path: `${directory}/${name}`, isOurs: true }));
}

/**
 * Returns the store's directories, with those of all networks that have had pods of ours since the boot. A network of
 * another name than ours may have had another plugin, whose pods' reservations stay.
 */
function stores(files: StoreFileSystem, { dataDirectory, stateDirectory }: NodePlace): Inventory["stores"] {
  const networks = [...new Set([NETWORK, ...recordedNetworks(stateDirectory, files)])];
  const claims = networks.flatMap((network) => [`${network}.claim`, `${network}.kept`]);
  const directories = [
    ...networks.map((network) => [network, network === NETWORK ? isStrange : isNotBookkeeping] as const),
    [".drawbridge", (name: string) => !claims.includes(name)] as const,
  ];
  return directories.flatMap(([directory, isOthers]) => {
    const names = namesIn(`${dataDirectory}/${directory}`);
    return names === undefined ? [] : [{ path: `${dataDirectory}/${directory}`, strange: names.filter(isOthers) }];
  });
}

function namesIn(directory: string): readonly string[] | undefined {
  return statSync(directory, { throwIfNoEntry: false })?.isDirectory() === true ? readdirSync(directory) : undefined;
}

function exists(file: string): boolean {
  return lstatSync(file, { throwIfNoEntry: false }) !== undefined;
}
