import type { PortMapping } from "../../attachment/attachment.ts";
import type { ConntrackFilter } from "../../kernel/conntrack/filter.ts";
import type { FlowTuples } from "../../kernel/conntrack/flow_tuples.ts";
import { deleteFlowsAtOnce } from "../../kernel/conntrack/table.ts";
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
  isMeant: (flow: FlowTuples) => boolean,
): void {
  const ports = new Set(filters.map(({ family, original }) => portKey(family, original?.destinationPort)));
  const isToPort = ({ family, original }: FlowTuples): boolean => ports.has(portKey(family, original.destinationPort));
  deleteFlowsAtOnce(syscalls, filters, (flow) => isToPort(flow) && isMeant(flow));
}

function portKey(family: Family | undefined, port: number | undefined): string {
  return `${family} ${port}`;
}

/** Returns the node's own addresses. @throws SyscallError, NetlinkError */
export function localAddresses(syscalls: Syscalls): ReadonlySet<Address> {
  const found = withRouteSocket(syscalls, (socket) => socket.dump(dumpAddresses()).map(parseInterfaceAddress));
  return new Set(found.flatMap((own) => (own === undefined ? [] : [own.address.address])));
}
