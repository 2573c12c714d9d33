import type { ReceivedMessage } from "../../kernel/netlink/message.ts";
import type { PortMapping } from "../../attachment/attachment.ts";
import { type ConntrackEntry, parseEntry } from "../../kernel/conntrack/entry.ts";
import { type ConntrackFilter, matchesFilter } from "../../kernel/conntrack/filter.ts";
import { flowCount } from "../../kernel/conntrack/flow_count.ts";
import { type FlowTuples, peekTuples } from "../../kernel/conntrack/flow_tuples.ts";
import { dumpEntries } from "../../kernel/conntrack/request.ts";
import { deleteEntries, openConntrackSocket } from "../../kernel/conntrack/table.ts";
import { type Address, type Family, familyOf, FAMILIES } from "../../kernel/ip/address.ts";
import { cidrContains } from "../../kernel/ip/cidr.ts";
import { isLoopback } from "../../kernel/ip/special.ts";
import { dumpAddresses, parseInterfaceAddress } from "../../kernel/route/interface_address.ts";
import { withRouteSocket } from "../../kernel/route/socket.ts";
import type { FileReadCalls } from "../../kernel/syscall/file_calls.ts";
import type { Syscalls } from "../../kernel/syscall/syscalls.ts";
import { claimsOf } from "../../attachment/host_port_claim.ts";
import type { Publication } from "./host_ports.ts";

/**
 * Returns filters for flows of published UDP ports that may have been translated before the pod existed: the first
 * packet decides a flow's translation, and a client that continues from the same port never makes a new flow (R2).
 */
export function flowsOf(mappings: readonly PortMapping[], addresses: readonly Address[]): readonly ConntrackFilter[] {
  const families = FAMILIES.filter((family) => addresses.some((address) => familyOf(address) === family));
  return udpOf(mappings)
    .flatMap((mapping) => claimsOf(mapping, families))
    .map(({ family, address, mapping }) => ({
      family,
      protocol: "udp",
      original: { destinationPort: mapping.hostPort, ...(address === undefined ? {} : { destination: address }) },
    }));
}

/** Returns filters for the flows that were translated to a pod's published UDP ports. */
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
 * Deletes the flows to the node at the UDP ports that a new pod publishes. Flows through the node stay, and so do flows
 * to Services whose addresses the node has.
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

/** Deletes the flows to the UDP ports of a removed pod. @throws as {@link forgetFlowsOf} */
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
    const add = (meant: ConntrackEntry[], message: ReceivedMessage): void => {
      const tuples = peekTuples(message.body);
      // When the dump covers more flows than the filters, nearly all of them are skipped here.
      if (tuples !== undefined && candidates(tuples).length === 0) return;
      const entry = parseEntry(message);
      if (candidates(entry).some((filter) => matchesFilter(filter, entry)) && isMeant(entry)) meant.push(entry);
    };
    const asked = questions(filters, () => flowCount(syscalls) ?? Number.POSITIVE_INFINITY);
    const meant = asked.flatMap((filter) => socket.collect(dumpEntries(filter), (): ConntrackEntry[] => [], add));
    deleteEntries(socket, meant);
  } finally {
    socket.close();
  }
}

function portKey(family: Family | undefined, port: number | undefined): string {
  return `${family} ${port}`;
}

/** Up to this number, each filter is its own dump request, without reading the number of flows. */
const FEW_QUESTIONS = 4;
/** The largest number of separate dump requests, whatever the number of flows. */
const MOST_QUESTIONS = 64;
/**
 * The number of flows that can be dumped and skipped in the time in which the kernel walks its table for one request.
 */
const FLOWS_PER_QUESTION = 1000;

/**
 * Returns the filters for the dump requests that together cover all flows the given filters match: each filter by
 * itself, which costs the kernel about 10 ms each, or all UDP flows of their families if there are too few flows to
 * justify that.
 *
 * @param flows returns the number of flows on the node
 */
export function questions(filters: readonly ConntrackFilter[], flows: () => number): readonly ConntrackFilter[] {
  const { length } = filters;
  const areWorthIt = length <= FEW_QUESTIONS || (length <= MOST_QUESTIONS && flows() > length * FLOWS_PER_QUESTION);
  if (areWorthIt) return filters;
  const families = FAMILIES.filter((family) => filters.some((filter) => filter.family === family));
  return families.map((family) => ({ family, protocol: "udp" }));
}

/** Returns the node's own addresses. @throws SyscallError, NetlinkError */
export function localAddresses(syscalls: Syscalls): ReadonlySet<Address> {
  const found = withRouteSocket(syscalls, (socket) => socket.dump(dumpAddresses()).map(parseInterfaceAddress));
  return new Set(found.flatMap((own) => (own === undefined ? [] : [own.address.address])));
}
