import type { Address } from "../../../kernel/ip/address.ts";
import type { AddressRange } from "./address_range.ts";
import { isWithin } from "./address_range.ts";
import type { Direction, Traffic } from "./flow.ts";
import type { IndexedPeer, IndexedRule, PortPattern } from "./indexed_policy.ts";
import type { ResolvedEnd, ResolvedFlow } from "./party.ts";

const ANY_PORT = Object.freeze({ index: undefined });

/** Which peer and which port of a rule fit; undefined for what the rule does not restrict. */
export interface Match {
  readonly peer: number | undefined;
  readonly port: number | undefined;
}

/** How a flow fits a rule: the first peer with the first port (POL-20); undefined where it does not. */
export function matchRule(
  { peers, ports }: IndexedRule,
  direction: Direction,
  { source, destination }: ResolvedFlow,
  traffic: Traffic,
): Match | undefined {
  if (peers === undefined) {
    const port = findPort(ports, traffic, destination);
    return port === undefined ? undefined : { peer: undefined, port: port.index };
  }
  const other = direction === "egress" ? destination : source;
  const peer = peers.find((one) => fitsPeer(one, other));
  if (peer === undefined) return undefined;
  // Whether a port fits depends on the destination, not on the peer that has it.
  const port = findPort(ports, traffic, destination);
  return port === undefined ? undefined : { peer: peer.index, port: port.index };
}

/** Whether the end that is no subject of the rule is one of a peer's. */
export function fitsPeer(peer: IndexedPeer, { subject, party, address }: ResolvedEnd): boolean {
  switch (peer.type) {
    case "pods":
      return subject !== undefined && peer.members[subject.identity.number] === 1;
    case "nodes":
      return party.type === "node" && party.name !== undefined && peer.names.has(party.name);
    case "addresses":
      return address !== undefined && isInOne(peer.ranges, address) && !isInOne(peer.except, address);
  }
}

function isInOne(ranges: readonly AddressRange[], address: Address): boolean {
  for (const range of ranges) if (isWithin(range, address)) return true;
  return false;
}

/**
 * Whether traffic to a destination fits: a name stands for what the destination's pod calls so, in the protocol it has there,
 * whichever peer has the pod. An address that is not a pod's has no names (POL-31).
 */
export function fitsPort({ protocol, port, endPort }: PortPattern, traffic: Traffic, { pod }: ResolvedEnd): boolean {
  if (traffic.port === undefined) return false;
  if (protocol !== undefined && protocol !== traffic.protocol) return false;
  if (port === undefined) return true;
  if (typeof port === "number") return traffic.port >= port && traffic.port <= (endPort ?? port);
  const named = pod?.ports ?? [];
  return named.some((one) => one.name === port && one.protocol === traffic.protocol && one.port === traffic.port);
}

/** The first port that fits; every port does where the rule names none. */
function findPort(
  ports: readonly PortPattern[] | undefined,
  traffic: Traffic,
  destination: ResolvedEnd,
): PortPattern | typeof ANY_PORT | undefined {
  if (ports === undefined) return ANY_PORT;
  return ports.find((pattern) => fitsPort(pattern, traffic, destination));
}
