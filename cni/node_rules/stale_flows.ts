import type { PortMapping } from "../../attachment/attachment.ts";
import type { ConntrackFilter } from "../../kernel/conntrack/filter.ts";
import type { FlowTuples } from "../../kernel/conntrack/flow_tuples.ts";
import { deleteFlowsAtOnce } from "../../kernel/conntrack/table.ts";
import { type Address, familiesIn, type Family, familyOf } from "../../kernel/ip/address.ts";
import { cidrContains } from "../../kernel/ip/cidr.ts";
import { isLoopback } from "../../kernel/ip/special.ts";
import { listAddresses } from "../../kernel/route/interface_address.ts";
import { withRouteSocket } from "../../kernel/route/socket.ts";
import type { FileReadCalls } from "../../kernel/syscall/file_calls.ts";
import type { Syscalls } from "../../kernel/syscall/syscalls.ts";
import { claimsOf } from "../../attachment/host_port_claim.ts";
import type { Publication } from "./host_ports.ts";

/**
 * Returns the flows to the node at the UDP ports that a new pod publishes, which may have been translated before the pod
 * existed: the first packet decides a flow's translation, and a client that continues from the same port never makes a
 * new flow (R2). Flows through the node stay, and so do flows to Services whose addresses the node has.
 */
export function staleFlows(
  syscalls: Syscalls,
  { mappings, addresses, serviceCidrs }: Pick<Publication, "mappings" | "addresses" | "serviceCidrs">,
): { readonly asked: readonly ConntrackFilter[]; readonly isMeant: (flow: FlowTuples) => boolean } {
  const families = familiesIn(addresses);
  const claims = udpOf(mappings).flatMap((mapping) => claimsOf(mapping, families));
  const asked = claims.map(({ family, mapping }) => toPort(family, mapping));
  let local: ReadonlySet<Address> | undefined;
  const isMeant = ({ family, original: { destination, destinationPort } }: FlowTuples): boolean => {
    const isClaimed = claims.some(
      (claim) =>
        claim.family === family &&
        claim.mapping.hostPort === destinationPort &&
        (claim.address === undefined || claim.address === destination),
    );
    if (!isClaimed || serviceCidrs.some((cidr) => cidrContains(cidr, destination))) return false;
    return isLoopback(destination) || (local ??= localAddresses(syscalls)).has(destination);
  };
  return { asked, isMeant };
}

/**
 * Deletes the flows that were translated to the UDP ports of a removed pod.
 *
 * @throws SyscallError, NetlinkError when the kernel refuses
 */
export function forgetFlowsTo(
  syscalls: Syscalls & FileReadCalls,
  mappings: readonly PortMapping[],
  addresses: readonly Address[],
): void {
  const published = udpOf(mappings);
  const asked = published.flatMap((mapping) =>
    addresses.map((source) => ({ ...toPort(familyOf(source), mapping), reply: { source } })),
  );
  deleteFlowsAtOnce(syscalls, asked, ({ original, reply }) =>
    published.some(
      ({ hostPort, containerPort }) => hostPort === original.destinationPort && containerPort === reply.sourcePort,
    ),
  );
}

function udpOf(mappings: readonly PortMapping[]): readonly PortMapping[] {
  return mappings.filter(({ protocol }) => protocol === "udp");
}

function toPort(family: Family, { hostPort: destinationPort }: PortMapping): ConntrackFilter {
  return { family, protocol: "udp", original: { destinationPort } };
}

/** Returns the node's own addresses. @throws SyscallError, NetlinkError */
export function localAddresses(syscalls: Syscalls): ReadonlySet<Address> {
  const found = withRouteSocket(syscalls, (socket) => listAddresses(socket));
  return new Set(found.map(({ address }) => address.address));
}
