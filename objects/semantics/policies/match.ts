import type { Address, Family } from "../../../kernel/ip/address.ts";
import { type Cidr, cidrFamily } from "../../../kernel/ip/cidr.ts";
import { matchesOne } from "../../domain_name.ts";
import type { ContainerPort } from "../../model.ts";
import type { Direction, Traffic } from "./flow.ts";
import { type IndexedPeer, type IndexedRule, isWithin, type PortPattern, type PrefixRange } from "./indexed_policy.ts";
import { ANY_NAME, eachOf, type ResolvedEnd, type ResolvedFlow } from "./party.ts";

const ANY_PORT = Object.freeze({ index: undefined });

/** The peer and the port of a rule that match; undefined if the rule does not restrict them. */
export interface Match {
  readonly peer: number | undefined;
  readonly port: number | undefined;
}

/** Returns the first matching peer and port of a rule (POL-20); undefined if the flow does not match. */
export function matchRule(
  rule: IndexedRule,
  direction: Direction,
  flow: ResolvedFlow,
  traffic: Traffic,
): Match | undefined {
  for (const one of flowsToMatch(rule, direction, flow)) {
    const match = matchFlow(rule, direction, one, traffic);
    if (match !== undefined) return match;
  }
  return undefined;
}

/**
 * Returns the flows of which one has to match a rule. Where several have the peer's address, a rule that denies matches
 * if it does for one of them; any other rule needs a peer and a port that match for all (POL-95).
 */
export function flowsToMatch(
  { isDenying }: IndexedRule,
  direction: Direction,
  flow: ResolvedFlow,
): readonly ResolvedFlow[] {
  const end = direction === "egress" ? "destination" : "source";
  if (!isDenying || flow[end].others.length === 0) return [flow];
  return eachOf(flow[end]).map((one) => ({ ...flow, [end]: one }));
}

function matchFlow(
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
  // Whether a port matches depends on the destination, not on the matching peer.
  const port = findPort(ports, traffic, destination);
  return port === undefined ? undefined : { peer: peer.index, port: port.index };
}

/** Returns whether a peer contains the other end of a flow, whoever has its address. */
export function fitsPeer(peer: IndexedPeer, end: ResolvedEnd): boolean {
  return fitsOne(peer, end) && end.others.every((one) => fitsOne(peer, one));
}

function fitsOne(peer: IndexedPeer, { subject, party, address, family, asked }: ResolvedEnd): boolean {
  switch (peer.type) {
    case "pods":
      return subject !== undefined && peer.members[subject.identity.number] === 1;
    case "nodes":
      return party.type === "node" && party.name !== undefined && peer.names.has(party.name);
    case "names":
      // An address of the cluster never counts, whatever an answer says.
      if (asked === undefined || party.type !== "outside") return false;
      return asked === ANY_NAME || matchesOne(peer.names, asked);
    case "addresses":
      if (address === undefined) return hasEveryAddress(peer, family);
      return isInOne(peer.ranges, address) && !isInOne(peer.except, address);
  }
}

/** Returns whether a peer contains an end without an address yet, whichever it gets of a family, or of any if unknown. */
export function hasEveryAddress(
  { ranges, except }: { readonly ranges: readonly { readonly cidr: Cidr }[]; readonly except: readonly unknown[] },
  family: Family | undefined,
): boolean {
  if (except.length > 0) return false;
  return ranges.some(({ cidr }) => cidr.prefixLength === 0 && (family ?? cidrFamily(cidr)) === cidrFamily(cidr));
}

function isInOne(ranges: readonly PrefixRange[], address: Address): boolean {
  for (const range of ranges) if (isWithin(range, address)) return true;
  return false;
}

/**
 * Returns whether traffic to a destination matches a port. A name stands for the ports that the destination's pod gives
 * this name, in their protocols, whichever peer contains the pod. Only a pod's address has named ports (POL-31).
 */
export function fitsPort({ protocol, port, endPort }: PortPattern, traffic: Traffic, end: ResolvedEnd): boolean {
  if (traffic.port === undefined) return false;
  if (protocol !== undefined && protocol !== traffic.protocol) return false;
  if (port === undefined) return true;
  if (typeof port === "number") return traffic.port >= port && traffic.port <= (endPort ?? port);
  return isNamed(end, { name: port, protocol: traffic.protocol, port: traffic.port });
}

/** Returns whether the pod at an address gives a port a name, or each pod that has the address. */
export function isNamed({ pod, others }: ResolvedEnd, port: ContainerPort): boolean {
  const text = textOf(port);
  return [pod, ...others.map((other) => other.pod)].every((one) => one !== undefined && namedIn(one.ports).has(text));
}

/** The texts of the named ports of pods: a pod may have hundreds, and policies thousands of names. */
const namedPorts = new WeakMap<readonly ContainerPort[], ReadonlySet<string>>();

function namedIn(ports: readonly ContainerPort[]): ReadonlySet<string> {
  const known = namedPorts.get(ports) ?? new Set(ports.map(textOf));
  namedPorts.set(ports, known);
  return known;
}

function textOf({ name, protocol, port }: ContainerPort): string {
  return `${protocol} ${port} ${name}`;
}

/** Returns the first matching port; every port matches if the rule has none. */
function findPort(
  ports: readonly PortPattern[] | undefined,
  traffic: Traffic,
  destination: ResolvedEnd,
): PortPattern | typeof ANY_PORT | undefined {
  if (ports === undefined) return ANY_PORT;
  return ports.find((pattern) => fitsPort(pattern, traffic, destination));
}
