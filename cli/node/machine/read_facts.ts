import { askPolicyd } from "../../../attachment/policyd_client.ts";
import type { PolicydStatus } from "../../../attachment/policyd_messages.ts";
import { systemFileSystem } from "../../../ipam/file_system.ts";
import { CHECKSUM_PROGRAM } from "../../../kernel/bpf/checksum_filter.ts";
import { hasOwnProgram } from "../../../kernel/bpf/own_program.ts";
import { DrawbridgeError } from "../../../kernel/error.ts";
import { withRouteSocket } from "../../../kernel/route/socket.ts";
import { tryTable } from "../../../kernel/nftables/table_check.ts";
import { seen, type Seen } from "../../../policyd/problems/check.ts";
import { uplinksOf } from "../../../policyd/routes/surroundings.ts";
import type { Expected } from "../doctor/expectation.ts";
import type { NetworkFile, NodeFacts } from "../doctor/facts.ts";
import type { NodePlace } from "../place.ts";
import { attempt, readLinkKinds, readLinks, readMachine, readPorts } from "../../../policyd/checks/read_machine.ts";
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
  readAddresses,
  readDiscardingRoutes,
  readLegacyTables,
  readNodeState,
  readRoutes,
  readRuleset,
  readSettings,
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
  const uplinks = uplinksOf(seen(routes) ?? [], seen(links) ?? []);
  const linkKinds = readLinkKinds(syscalls, ["bridge", "veth", "vxlan"]);
  const machine = readMachine(syscalls, {
    bridge: place.bridge,
    uplinks,
    servesServices: expected.servesServices,
    linkKinds,
    links,
  });
  const attached = (seen(records)?.records ?? []).filter((record) => record.bootId === seen(machine.bootId));
  return {
    ...machine,
    place,
    expected,
    probed: { value: undefined },
    trials: attempt(() => expected.trialTables.flatMap((table) => tryTable(syscalls, table))),
    settings: readSettings(
      syscalls,
      (seen(links) ?? []).map(({ name }) => name),
    ),
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
    tcpPorts: readPorts("tcp"),
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
      return withRouteSocket(syscalls, (socket) =>
        present.flatMap(({ index, name }) => (hasOwnProgram({ socket }, CHECKSUM_PROGRAM, index) ? [] : [name])),
      );
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
