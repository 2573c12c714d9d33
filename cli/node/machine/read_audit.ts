import { withSocket } from "../../../kernel/netlink/socket.ts";
import { HOST_INTERFACE_PREFIX } from "../../../attachment/names_and_macs.ts";
import { readdirSync } from "node:fs";
import { bridgeTable, ipTable, isOurs, ownerIn } from "../../../cni/node_rules/node_tables.ts";
import { hasEnded } from "../../../cni/gc/proof.ts";
import { machine, type PluginMachine } from "../../../cni/host.ts";
import * as nodeRules from "../../../cni/pod_rules.ts";
import * as deleting from "../../../cni/deleting.ts";
import * as unwiring from "../../../cni/del/wiring_removal.ts";
import * as registering from "../../../cni/registration.ts";
import { endedSince } from "../../../attachment/ended.ts";
import { isName } from "../../../ipam/owner.ts";
import { DrawbridgeError } from "../../../kernel/error.ts";
import { modificationTime } from "../../../kernel/file.ts";
import { NftablesSocket } from "../../../kernel/nftables/socket.ts";
import type { MachineCalls } from "../../../kernel/syscall/machine_calls.ts";
import { GUARD_SETS } from "../../../policyd/node/tables/guard.ts";
import { BRIDGE_TABLE } from "../../../policyd/ruleset/table_part.ts";
import { type AuditedRecord, type AuditedReservation, type AuditFacts, lastingFacts } from "../audit/facts.ts";
import { sha256 } from "../cleanup/attached.ts";
import { seen } from "../../../policyd/problems/check.ts";
import type { NodePlace } from "../place.ts";
import { attempt, readLinks, readOptional } from "../../../policyd/checks/read_machine.ts";
import { readNetwork, readRecords, readReservation } from "./read_files.ts";

/** Seconds until a reservation without a record counts: an ADD writes the record some milliseconds after it. */
export const ADD_SECONDS = 60;

/** Returns the node as the plugin's verbs see it, in the thread's namespace. */
export function nodeOf(syscalls: MachineCalls): PluginMachine {
  return machine(syscalls, {
    sha256,
    nodeRules: () => nodeRules,
    deleting: () => deleting,
    unwiring: () => unwiring,
    registering: () => registering,
    adding: notHere,
    loopback: notHere,
    rare: notHere,
    programs: notHere,
  });
}

function notHere(): never {
  throw new DrawbridgeError("ERR_UNAVAILABLE", "an audit attaches no pods and starts no programs");
}

/**
 * Reads the facts of an audit twice, and returns what both reads found; it reports what cannot be read. ADD writes the
 * record first and DEL removes it last, so anything with a record in one of the reads belongs to a call in progress.
 */
export function readAuditFacts(syscalls: MachineCalls, place: NodePlace): AuditFacts {
  return lastingFacts(readOnce(syscalls, place), readOnce(syscalls, place));
}

/** Reads the records last, so that each link and rule that it saw has its record by then. */
function readOnce(syscalls: MachineCalls, place: NodePlace): AuditFacts {
  const node = nodeOf(syscalls);
  const reservations = attempt(() => readAllReservations(node, place));
  const pluginOwners = attempt(() => ownersInPluginTables(syscalls));
  const guardOwners = attempt(() => ownersInGuard(syscalls));
  const links = attempt(() => readLinks(syscalls));
  const found = attempt(() => readRecords(node.files, place));
  const names = new Set((seen(links) ?? []).map(({ name }) => name));
  const records = attempt(() => ({
    records: (seen(found)?.records ?? []).map((record): AuditedRecord => ({
      record,
      hasEnded: hasEnded(node, record, (name) => names.has(name)),
      isMarked: endedSince(place.stateDirectory, record, node.files) !== undefined,
    })),
    unreadable: seen(found)?.unreadable ?? [],
  }));
  return {
    place,
    links,
    records: "value" in found ? records : found,
    reservations,
    pluginOwners,
    guardOwners,
    hasProcesses: attempt(() => processesByContainer()),
  };
}

/** Returns the reservations of our networks: the configured one, and those with records. */
function readAllReservations(node: PluginMachine, place: NodePlace): readonly AuditedReservation[] {
  const network = readNetwork(place);
  const recorded = readRecords(node.files, place).records.map((record) => record.network);
  const networks = new Set([network.kind === "network" ? network.name : "drawbridge", ...recorded]);
  const limit = Date.now() / 1000 - ADD_SECONDS;
  return [...networks].filter(isName).flatMap((name) => {
    const directory = `${place.dataDirectory}/${name}`;
    return node.files.readDirectory(directory).flatMap((entry): readonly AuditedReservation[] => {
      const reservation = readReservation(node.files, directory, entry);
      if (reservation === undefined) return [];
      const path = `${directory}/${entry}`;
      const written = modificationTime(node.syscalls, path);
      return [{ network: name, reservation, path, isOld: written !== undefined && written < limit }];
    });
  });
}

function ownersInPluginTables(syscalls: MachineCalls): ReadonlySet<string> {
  return withSocket(new NftablesSocket(syscalls), (socket) => {
    const owners = new Set<string>();
    for (const table of [ipTable, bridgeTable]) {
      const found = socket.head(table);
      if (found === undefined || !isOurs(found)) continue;
      for (const set of table.sets) {
        for (const { comment } of socket.elements(table, set)) {
          const owner = ownerIn(comment);
          if (owner?.startsWith(HOST_INTERFACE_PREFIX) === true) owners.add(owner);
        }
      }
    }
    return owners;
  });
}

function ownersInGuard(syscalls: MachineCalls): ReadonlySet<string> {
  return withSocket(new NftablesSocket(syscalls), (socket) => {
    if (socket.head(BRIDGE_TABLE) === undefined) return new Set();
    const elements = socket.elements(BRIDGE_TABLE, GUARD_SETS.mac);
    return new Set(elements.flatMap(({ key: [name] }) => (typeof name === "string" ? [name] : [])));
  });
}

/**
 * Returns a test whether a container has processes: their control group's name has its ID. CRI-O's sandboxes have none.
 *
 * @throws DrawbridgeError ERR_UNAVAILABLE in a PID namespace, which hides other containers' processes
 */
export function processesByContainer(): (containerId: string) => boolean {
  // Only the machine's first PID namespace has the kernel's own threads.
  if (readOptional("/proc/2/comm").trim() !== "kthreadd") {
    throw new DrawbridgeError("ERR_UNAVAILABLE", "this PID namespace does not have the node's processes");
  }
  const groups = new Set(
    readdirSync("/proc")
      .filter((name) => /^\d+$/.test(name))
      // Empty for a process that has ended.
      .map((name) => readOptional(`/proc/${name}/cgroup`)),
  );
  return (containerId) => [...groups].some((text) => text.includes(containerId));
}
