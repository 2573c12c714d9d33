import { readFileSync } from "node:fs";
import os from "node:os";
import { askPolicyd } from "../../../attachment/policyd_client.ts";
import type { PolicydStatus } from "../../../attachment/policyd_messages.ts";
import { systemFileSystem } from "../../../ipam/file_system.ts";
import { CHECKSUM_PROGRAM } from "../../../kernel/bpf/checksum_filter.ts";
import { hasOwnProgram } from "../../../kernel/bpf/own_program.ts";
import { DrawbridgeError } from "../../../kernel/error.ts";
import { tryTable } from "../../../kernel/nftables/table_check.ts";
import { knowsLinkKind } from "../../../kernel/route/link_kind.ts";
import { seen } from "../doctor/diagnose.ts";
import type { Expected } from "../doctor/expectation.ts";
import type { NetworkFile, NodeFacts, Seen } from "../doctor/facts.ts";
import type { NodePlace } from "../place.ts";
import { attempt } from "./attempt.ts";
import { probeDirectRoutes } from "./probe_routes.ts";
import {
  doesFirstLeadToOurs,
  readConfigurationNames,
  readNetwork,
  readPlugins,
  readRecords,
  readReservations,
} from "./read_files.ts";
import type { MachineCalls } from "../../../kernel/syscall/machine_calls.ts";
import {
  hasPacketLog,
  readAddresses,
  readDiscardingRoutes,
  readLegacyTables,
  readLinks,
  readNodeState,
  readRoutes,
  readRuleset,
  readSettings,
  readTcpPorts,
  readUdpPorts,
  withRoutes,
} from "./read_network.ts";

const DAEMON_MILLISECONDS = 3000;
const MISSING: NetworkFile = { kind: "missing" };

/** Reads all facts in the thread's namespace; the facts say what cannot be read. */
export function readFacts(syscalls: MachineCalls, place: NodePlace, expected: Expected): NodeFacts {
  const files = systemFileSystem(syscalls);
  const links = attempt(() => readLinks(syscalls));
  const network = attempt(() => readNetwork(place));
  const records = attempt(() => readRecords(files, place));
  const addresses = attempt(() => readAddresses(syscalls, seen(links) ?? []));
  const routes = attempt(() => readRoutes(syscalls));
  const bootId = attempt(() => readFileSync("/proc/sys/kernel/random/boot_id", "utf8").trim());
  const attached = (seen(records)?.records ?? []).filter((record) => record.bootId === seen(bootId));
  return {
    place,
    expected,
    now: Date.now(),
    bootId,
    probed: { value: undefined },
    release: { value: os.release() },
    trials: attempt(() => expected.trialTables.flatMap((table) => tryTable(syscalls, table))),
    linkKinds: attempt(() =>
      withRoutes(syscalls, (socket) =>
        (["bridge", "veth", "vxlan"] as const).map((kind) => ({ kind, isKnown: knowsLinkKind(socket, kind) })),
      ),
    ),
    hasPacketLog: hasPacketLog(),
    settings: readSettings(
      syscalls,
      (seen(links) ?? []).map(({ name }) => name),
    ),
    links,
    addresses,
    routes,
    directRoutes: attempt(() =>
      probeDirectRoutes(syscalls, place.bridge, {
        routes: seen(routes) ?? [],
        links: seen(links) ?? [],
        addresses: seen(addresses) ?? [],
      }),
    ),
    discarding: attempt(() => readDiscardingRoutes(syscalls)),
    ruleset: attempt(() => readRuleset(syscalls)),
    legacyTables: readLegacyTables(),
    udpPorts: readUdpPorts(),
    tcpPorts: readTcpPorts(),
    daemon: askDaemon(syscalls, place),
    configurations: attempt(() => readConfigurationNames(place)),
    firstLeadsToOurs: attempt(() => doesFirstLeadToOurs(place)),
    network,
    plugins: attempt(() => readPlugins(place, seen(network) ?? MISSING, expected.sourceDirectory)),
    records,
    nodeState: attempt(() => readNodeState(syscalls, attached)),
    unfilteredBridges: attempt(() => {
      const bridges = new Set(attached.map(({ bridge }) => bridge));
      const present = (seen(links) ?? []).filter(({ name, kind }) => kind === "bridge" && bridges.has(name));
      return present.filter(({ index }) => !hasOwnProgram(syscalls, CHECKSUM_PROGRAM, index)).map(({ name }) => name);
    }),
    reservations: attempt(() => {
      const hasAttachments = (seen(records)?.records ?? []).length > 0;
      return readReservations(files, place, seen(network) ?? MISSING, hasAttachments);
    }),
  };
}

/** Asks the daemon. One that does not run is a fact; without permission to ask, the fact is unseen. */
function askDaemon(syscalls: MachineCalls, { socket }: NodePlace): Seen<DaemonAnswer> {
  return attempt((): DaemonAnswer => {
    try {
      const reply = askPolicyd(syscalls, socket, { type: "status" }, DAEMON_MILLISECONDS);
      return reply.type === "status" ? { status: reply.status } : { away: `it answered "${reply.type}"` };
    } catch (error) {
      if (!(error instanceof DrawbridgeError) || /EACCES|EPERM/.test(error.message)) throw error;
      return { away: error.message };
    }
  });
}

type DaemonAnswer = { readonly status: PolicydStatus } | { readonly away: string };
