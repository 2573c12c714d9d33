import assert from "node:assert/strict";
import * as fc from "fast-check";
import { type Address, familyOf, formatAddress } from "../../../kernel/ip/address.ts";
import { cidrContains } from "../../../kernel/ip/cidr.ts";
import { evaluate } from "../../../policyd/semantics/services/evaluate.ts";
import type { Packet, SocketAddress } from "../../../policyd/semantics/services/packet.ts";
import { senderOf } from "../../../policyd/semantics/services/sender.ts";
import type { Candidate, Verdict } from "../../../policyd/semantics/services/verdict.ts";
import type { ServiceWorld } from "../../../policyd/semantics/services/world.ts";
import type { Flow, ProbeResult } from "../../lab/probe/prober.ts";
import { type RandomCluster, randomClusters } from "../evaluate/arbitrary_cluster.ts";
import { type RandomPacket, randomPackets, serviceCase } from "../evaluate/arbitrary_world.ts";
import type { Statistics } from "../evaluate/features.ts";
import type { PacketLab } from "./packet_lab.ts";

const PROTOCOLS = { TCP: "tcp", UDP: "udp", SCTP: "sctp" } as const;
/** The number of packets from which the rarest are chosen. */
const PACKETS_TO_CHOOSE_FROM = 5;

/** A packet of a cluster, and the evaluator's verdict on it. */
export interface PacketCase {
  readonly world: ServiceWorld;
  readonly packet: Packet;
  readonly verdict: Verdict;
  readonly flow: Flow;
}

/** A cluster, and packets that do not have its addresses yet. */
export interface PacketRound {
  readonly cluster: RandomCluster;
  readonly packets: readonly ((cluster: RandomCluster) => RandomPacket)[];
  readonly isIpv6: boolean;
}

/** Generates random clusters that fit into a lab; the same seed gives the same ones in labs with the same addresses. */
export function packetRounds(
  { places }: PacketLab,
  count: number,
  packets: number,
  seed: number,
): readonly PacketRound[] {
  const many = PACKETS_TO_CHOOSE_FROM * packets;
  const round = fc.record({
    cluster: randomClusters(places),
    packets: fc.array(randomPackets(places), { minLength: many, maxLength: many }),
    isIpv6: fc.boolean(),
  });
  return fc.sample(round, { numRuns: count, seed });
}

/** Returns `count` of a round's packets, those with the rarest features first, and counts their features. */
export function packetCases(
  lab: PacketLab,
  { cluster, packets, isIpv6 }: PacketRound,
  {
    count,
    tcpReset,
    statistics,
  }: { readonly count: number; readonly tcpReset: boolean; readonly statistics: Statistics },
): readonly PacketCase[] {
  const all = packets.map((packet) => caseOf(lab, cluster, packet(cluster), isIpv6, tcpReset));
  const left = all.filter((one, place) => all.findIndex((other) => isHeardTogether(one, other)) === place);
  return Array.from({ length: count }, () => {
    const rarities = left.map((one) => statistics.rarity(one.verdict, featuresOf(one)));
    const [chosen] = left.splice(rarities.indexOf(Math.min(...rarities)), 1);
    assert.ok(chosen !== undefined);
    statistics.count(chosen.verdict, featuresOf(chosen));
    return chosen;
  });
}

/**
 * Whether two packets receive each other's refusals: raw sockets, by which SCTP is sent, are distinguished only by
 * addresses.
 */
function isHeardTogether(one: PacketCase, other: PacketCase): boolean {
  if (one.packet.protocol !== "SCTP" || other.packet.protocol !== "SCTP") return one === other;
  return one.packet.source === other.packet.source && one.packet.destination === other.packet.destination;
}

/** Features that the verdict does not show. */
export const FURTHER_FEATURES = [
  "TCP",
  "UDP",
  "SCTP",
  "IPv4",
  "IPv6",
  "from pod",
  "from node",
  "from outside",
  "affinity",
];

function featuresOf({ packet: { protocol, destination, entry }, verdict }: PacketCase): readonly string[] {
  const hasAffinity = verdict.kind === "translate" && verdict.affinity.type !== "none";
  return [protocol, `IPv${familyOf(destination)}`, `from ${entry}`, ...(hasAffinity ? ["affinity"] : [])];
}

function caseOf(
  lab: PacketLab,
  cluster: RandomCluster,
  random: RandomPacket,
  isIpv6: boolean,
  tcpReset: boolean,
): PacketCase {
  const { places, parties, nodes } = lab;
  // The node has several addresses. A sender of TCP and UDP uses the wanted one; SCTP leaves the choice to the route,
  // by which the node sends to itself from the destination address.
  const isByRoute = random.entry === "node" && random.protocol === "SCTP";
  const routed = places.nodeIps.includes(random.destination) ? random.destination : places.nodeIps[0];
  const sent = isByRoute ? { ...random, source: routed } : random;
  const found = serviceCase(places, cluster, sent, (value) => (isIpv6 ? lab.twin(value) : value));
  const { configuration } = found.world;
  const world = { ...found.world, configuration: { ...configuration, tcpReset } };
  const { packet } = found;
  const party = parties.find(({ addresses }) => addresses[familyOf(packet.source)] === packet.source);
  const from = packet.entry === "node" ? nodes.node1.node : party?.namespace;
  assert.ok(from !== undefined, `nobody has ${formatAddress(packet.source)}`);
  const to = { address: packet.destination, port: packet.destinationPort };
  const source = packet.entry === "node" && !isByRoute ? { source: packet.source } : {};
  const flow = { protocol: PROTOCOLS[packet.protocol], from, to, ...source };
  return { world, packet, verdict: evaluate(world, packet), flow };
}

/** Returns the same packet from a client whose affinity has an endpoint. */
export function remembering(one: PacketCase, remembered: SocketAddress): PacketCase {
  return { ...one, verdict: evaluate(one.world, one.packet, remembered) };
}

/** The difference between a measured packet and the evaluator's verdict. */
export interface Disagreement {
  readonly problem: string;
  /** Whether the answer may only have been too late. */
  readonly isLoss: boolean;
}

/** Compares a measurement with the verdict; returns undefined where they agree. */
export function disagreement(lab: PacketLab, one: PacketCase, result: ProbeResult): Disagreement | undefined {
  const { seenAt, seenSource, why } = result;
  const isSilent = why.startsWith("no answer");
  if (one.verdict.kind === "translate" && seenAt !== undefined && seenSource !== undefined) {
    const problem = wrongPlace(lab, one, one.verdict.candidates, seenAt, seenSource);
    if (problem !== undefined) return { problem, isLoss: false };
  }
  const problem = wrongAnswer(lab, one, result);
  return problem === undefined ? undefined : { problem, isLoss: isSilent };
}

function wrongPlace(
  lab: PacketLab,
  one: PacketCase,
  candidates: readonly Candidate[],
  seenAt: SocketAddress,
  seenSource: Address,
): string | undefined {
  const candidate = candidateAt(candidates, seenAt);
  if (candidate === undefined || candidate.isRejected) return `no candidate, but seen at ${textOf(seenAt)}`;
  const sources = sourcesAt(lab, one, candidate);
  if (sources.includes(seenSource)) return undefined;
  const wanted = sources.map((address) => formatAddress(address)).join(" or ");
  return `from ${wanted}, but at ${textOf(seenAt)} from ${formatAddress(seenSource)}`;
}

function wrongAnswer(lab: PacketLab, one: PacketCase, { seenAt, reached, why }: ProbeResult): string | undefined {
  const { verdict, packet } = one;
  // When its own node drops a datagram, for any reason, send(2) reports it; counters distinguish the reasons.
  const isStopped = packet.entry === "node" && /not permitted/i.test(why);
  const isRefused = /refused/i.test(why);
  if (verdict.kind !== "translate") {
    if (seenAt !== undefined) return `${verdict.kind}, but seen at ${textOf(seenAt)}`;
    const isRight = { pass: true, drop: why.startsWith("no answer"), reject: isRefused }[verdict.kind];
    return isRight || (isStopped && verdict.kind !== "pass") ? undefined : `${verdict.kind}, but ${why}`;
  }
  const possible = seenAt === undefined ? verdict.candidates : [candidateAt(verdict.candidates, seenAt)];
  const mayBe = possible.some((candidate) => {
    if (candidate === undefined) return false;
    if (candidate.isRejected) return isRefused || isStopped;
    return seenAt === undefined
      ? !isRefused && (!isThere(lab, candidate) || isAnswerLost(lab, one, candidate))
      : reached || isAnswerLost(lab, one, candidate);
  });
  const places = verdict.candidates.map(({ destination }) => textOf(destination)).join(" or ");
  return mayBe
    ? undefined
    : `to ${places}, ${seenAt === undefined ? "not seen" : `seen at ${textOf(seenAt)}`}, but ${why}`;
}

function candidateAt(candidates: readonly Candidate[], { address, port }: SocketAddress): Candidate | undefined {
  return candidates.find(({ destination }) => destination.address === address && destination.port === port);
}

/** Returns the source addresses that an endpoint may see. */
function sourcesAt(
  { nodes: { node1 } }: PacketLab,
  { world, packet }: PacketCase,
  { destination, masquerade }: Candidate,
): readonly Address[] {
  if (!masquerade.masqueraded) return [packet.source];
  const ofFamily = (addresses: readonly Address[]): readonly Address[] =>
    addresses.filter((address) => familyOf(address) === familyOf(destination.address));
  // Over loopback any address of the node is right.
  if (node1.addresses.includes(destination.address)) return ofFamily([...world.nodeAddresses]);
  const isOnBridge = node1.podCidrs.some((range) => cidrContains(range, destination.address));
  return ofFamily(isOnBridge ? node1.gateways : node1.addresses);
}

function isThere({ parties }: PacketLab, { destination: { address } }: Candidate): boolean {
  return parties.some(({ addresses }) => addresses[familyOf(address)] === address);
}

/**
 * Whether the answer to a packet is lost: a pod of the other node that this node sends to an endpoint of that node, and
 * that is seen there as itself, gets its answer from the endpoint, to which it did not send. No packet of a real pod
 * takes this way, since its own node translates.
 */
function isAnswerLost({ nodes: { node2 } }: PacketLab, { world, packet }: PacketCase, candidate: Candidate): boolean {
  if (senderOf(world, packet) !== "other pod" || candidate.masquerade.masqueraded) return false;
  const { address } = candidate.destination;
  return node2.addresses.includes(address) || node2.podCidrs.some((range) => cidrContains(range, address));
}

function textOf({ address, port }: SocketAddress): string {
  return `${formatAddress(address)} ${port}`;
}
