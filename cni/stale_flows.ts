import type { PortMapping } from "../ipam/attachment.ts";
import type { ConntrackEntry } from "../kernel/conntrack/entry.ts";
import { parseEntry } from "../kernel/conntrack/entry.ts";
import type { ConntrackFilter } from "../kernel/conntrack/filter.ts";
import { matchesFilter } from "../kernel/conntrack/filter.ts";
import { flowCount } from "../kernel/conntrack/flow_count.ts";
import type { FlowTuples } from "../kernel/conntrack/flow_tuples.ts";
import { peekTuples } from "../kernel/conntrack/flow_tuples.ts";
import { dumpEntries } from "../kernel/conntrack/request.ts";
import { deleteEntries, openConntrackSocket } from "../kernel/conntrack/table.ts";
import type { Address, Family } from "../kernel/ip/address.ts";
import { familyOf } from "../kernel/ip/address.ts";
import { cidrContains } from "../kernel/ip/cidr.ts";
import { isLoopback } from "../kernel/ip/loopback.ts";
import { dumpAddresses, parseInterfaceAddress } from "../kernel/route/interface_address.ts";
import { openRouteSocket } from "../kernel/route/socket.ts";
import type { FileReadCalls } from "../kernel/syscall/file_calls.ts";
import type { Syscalls } from "../kernel/syscall/syscalls.ts";
import { claimsOf } from "./host_port_claim.ts";
import type { Publication } from "./host_ports.ts";

/**
 * Which flows of a published UDP port may have been decided without the pod: a flow is translated by what its first
 * packet met, and a client that goes on from the same port never makes a new one (R2).
 */
export function flowsOf(mappings: readonly PortMapping[], addresses: readonly Address[]): readonly ConntrackFilter[] {
  const families = ([4, 6] as const).filter((family) => addresses.some((address) => familyOf(address) === family));
  return udpOf(mappings)
    .flatMap((mapping) => claimsOf(mapping, families))
    .map(({ family, address, mapping }) => ({
      family,
      protocol: "udp",
      original: { destinationPort: mapping.hostPort, ...(address === undefined ? {} : { destination: address }) },
    }));
}

/** Which flows were translated to a pod's published UDP ports. */
export function flowsTo(mappings: readonly PortMapping[], addresses: readonly Address[]): readonly ConntrackFilter[] {
  return udpOf(mappings).flatMap((mapping) =>
    addresses.map((source) => ({
      family: familyOf(source),
      protocol: "udp",
      original: { destinationPort: mapping.hostPort },
      reply: { source, sourcePort: mapping.containerPort },
    })),
  );
}

function udpOf(mappings: readonly PortMapping[]): readonly PortMapping[] {
  return mappings.filter(({ protocol }) => protocol === "udp");
}

/**
 * Forgets the flows to the node that a new pod's UDP ports have now; flows through the node, and those to Services that
 * the node has the addresses of, stay as they are.
 *
 * @throws SyscallError, NetlinkError when the kernel refuses
 */
export function forgetFlowsOf(
  syscalls: Syscalls & FileReadCalls,
  { mappings, addresses, serviceCidrs }: Pick<Publication, "mappings" | "addresses" | "serviceCidrs">,
): void {
  let local: ReadonlySet<Address> | undefined;
  forget(syscalls, flowsOf(mappings, addresses), ({ original: { destination } }) => {
    if (serviceCidrs.some((cidr) => cidrContains(cidr, destination))) return false;
    return isLoopback(destination) || (local ??= localAddresses(syscalls)).has(destination);
  });
}

/** Forgets the flows to the UDP ports of a pod that has gone. @throws as {@link forgetFlowsOf} */
export function forgetFlowsTo(
  syscalls: Syscalls & FileReadCalls,
  mappings: readonly PortMapping[],
  addresses: readonly Address[],
): void {
  forget(syscalls, flowsTo(mappings, addresses), () => true);
}

function forget(
  syscalls: Syscalls & FileReadCalls,
  filters: readonly ConntrackFilter[],
  isMeant: (entry: ConntrackEntry) => boolean,
): void {
  if (filters.length === 0) return;
  const byPort = new Map<string, ConntrackFilter[]>();
  for (const filter of filters) {
    const key = portKey(filter.family, filter.original?.destinationPort);
    byPort.set(key, [...(byPort.get(key) ?? []), filter]);
  }
  const candidates = ({ family, original }: FlowTuples): readonly ConntrackFilter[] =>
    byPort.get(portKey(family, original.destinationPort)) ?? [];
  const socket = openConntrackSocket(syscalls);
  try {
    const meant: ConntrackEntry[] = [];
    for (const asked of questions(filters, () => flowCount(syscalls) ?? Number.POSITIVE_INFINITY)) {
      socket.walk(dumpEntries(asked), (message) => {
        const tuples = peekTuples(message.body);
        // Nearly all are passed over where the kernel was asked for more than what is meant.
        if (tuples !== undefined && candidates(tuples).length === 0) return;
        const entry = parseEntry(message);
        if (candidates(entry).some((filter) => matchesFilter(filter, entry)) && isMeant(entry)) meant.push(entry);
      });
    }
    deleteEntries(socket, meant);
  } finally {
    socket.close();
  }
}

function portKey(family: Family | undefined, port: number | undefined): string {
  return `${family} ${port}`;
}

/** So few questions are asked without a look at how many flows there are. */
const FEW_QUESTIONS = 4;
/** No more are asked, whatever the number of flows. */
const MOST_QUESTIONS = 64;
/** So many flows are told and glanced at in the time that the kernel takes through its table for one question. */
const FLOWS_PER_QUESTION = 1000;

/**
 * What the kernel is asked for, so that all that the filters mean is among it: for each filter by itself, some 10 ms of
 * the kernel's each, or for all UDP flows of its families where those are fewer than to be worth that.
 *
 * @param flows how many the node has
 */
export function questions(filters: readonly ConntrackFilter[], flows: () => number): readonly ConntrackFilter[] {
  const { length } = filters;
  const areWorthIt = length <= FEW_QUESTIONS || (length <= MOST_QUESTIONS && flows() > length * FLOWS_PER_QUESTION);
  if (areWorthIt) return filters;
  const families = ([4, 6] as const).filter((family) => filters.some((filter) => filter.family === family));
  return families.map((family) => ({ family, protocol: "udp" }));
}

/** The node's own addresses. @throws SyscallError, NetlinkError */
export function localAddresses(syscalls: Syscalls): ReadonlySet<Address> {
  const socket = openRouteSocket(syscalls);
  try {
    const found = socket.dump(dumpAddresses()).map(parseInterfaceAddress);
    return new Set(found.flatMap((own) => (own === undefined ? [] : [own.address.address])));
  } finally {
    socket.close();
  }
}
