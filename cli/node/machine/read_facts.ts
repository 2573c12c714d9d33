import { askPolicyd } from "../../../attachment/policyd_client.ts";
import type { PolicydStatus } from "../../../attachment/policyd_messages.ts";
import { systemFileSystem } from "../../../ipam/file_system.ts";
import { CHECKSUM_PROGRAM } from "../../../kernel/bpf/checksum_filter.ts";
import { hasOwnProgram } from "../../../kernel/bpf/own_program.ts";
import { DrawbridgeError } from "../../../kernel/error.ts";
import { withRouteSocket } from "../../../kernel/route/socket.ts";
import { tryTable } from "../../../kernel/nftables/table_check.ts";
import { seen, type Seen, type CheckedLink } from "../../../policyd/problems/check.ts";
import { uplinksOf } from "../../../policyd/routes/surroundings.ts";
import type { Expected } from "../doctor/expectation.ts";
import { addressOn } from "../doctor/probe/flow.ts";
import type { NetworkFile, NodeFacts, DirectRoute, NodeAddress } from "../doctor/facts.ts";
import type { NodePlace } from "../place.ts";
import { attempt, readLinkKinds, readLinks, readMachine, readPorts } from "../../../policyd/checks/read_machine.ts";
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
import { familyOf } from "../../../kernel/ip/address.ts";
import { bridgeAddress } from "../../../objects/nodes/node_addresses.ts";
import { isReached } from "../../../kernel/closed_port_probe.ts";
import { MAIN_TABLE, type Route } from "../../../kernel/route/route.ts";
import { isOurs } from "../../../policyd/routes/own_routes.ts";
import { TUNNEL } from "../../../policyd/routes/tunnel.ts";

const DAEMON_MILLISECONDS = 3000;
const MISSING: NetworkFile = { kind: "missing" };

/** Reads all facts in the thread's namespace; the facts say what cannot be read. */
export function readFacts(syscalls: MachineCalls, place: NodePlace, expected: Expected): NodeFacts {
  const files = systemFileSystem(syscalls);
  const links = attempt(() => readLinks(syscalls));
  const network = attempt(() => readNetwork(place));
  const records = attempt(() => readRecords(files, place));
  const addresses = attempt(() => readAddresses(syscalls));
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

/** Each probe may wait for its answer: the doctor must not take minutes on a node with thousands of routes. */
const MOST_PROBES = 4;
const MILLISECONDS = 500;

/**
 * Tries connections over some of our direct routes, from this node's address on the bridge to the other node's. Both
 * addresses are in pod networks, so a network that drops such packets lets no answer through.
 *
 * @throws SyscallError when a socket is refused
 */
function probeDirectRoutes(
  syscalls: MachineCalls,
  bridge: string,
  facts: {
    readonly routes: readonly Route[];
    readonly links: readonly CheckedLink[];
    readonly addresses: readonly NodeAddress[];
  },
): readonly DirectRoute[] {
  const indexOf = (link: string): number | undefined => facts.links.find(({ name }) => name === link)?.index;
  const [own, tunnel] = [indexOf(bridge), indexOf(TUNNEL.name)];
  const found: DirectRoute[] = [];
  for (const route of facts.routes) {
    const { table, destination, gateway, outputInterface } = route;
    const isDirect = isOurs(route) && table === MAIN_TABLE && outputInterface !== tunnel;
    if (!isDirect || destination === undefined || gateway === undefined) continue;
    const from = addressOn(facts.addresses, own, familyOf(gateway));
    const to = bridgeAddress(destination);
    if (from === undefined || to === undefined) continue;
    found.push({ destination, gateway, to, isAnswered: isReached(syscalls, from, to, MILLISECONDS) });
    if (found.length === MOST_PROBES) break;
  }
  return found;
}
