import { type Address, tryParseAddress } from "../../../../kernel/ip/address.ts";
import type { SampleLink, SamplePacket } from "../../../../kernel/nftables/foreign/sample_packet.ts";
import { TUNNEL } from "../../../../policyd/routes/tunnel.ts";
import type { NodeFacts } from "../facts.ts";
import { type FlowSurroundings, flowSurroundings } from "./surroundings.ts";

/** The ends between which pods' packets have to pass. */
export const NEEDS = [
  "pod to pod",
  "pod to outside",
  "outside to pod",
  "pod of another node to pod",
  "node to pod",
  "pod to node",
  "node to node by the tunnel",
] as const;

export type Need = (typeof NEEDS)[number];

/** A packet, and the need that it represents. */
export interface Sample {
  readonly need: Need;
  /** Its protocol and family, for people. */
  readonly kind: string;
  readonly packet: SamplePacket;
  readonly isAnswer: boolean;
}

/** The port of clients, and the port that pods serve. */
const CLIENT = 45_000;
const POD_PORT = 8080;
/** DNS, and API servers. */
const NODE_PORTS: readonly { readonly protocol: "tcp" | "udp"; readonly port: number }[] = [
  { protocol: "udp", port: 53 },
  { protocol: "tcp", port: 53 },
  { protocol: "tcp", port: 443 },
  { protocol: "tcp", port: 6443 },
];
/** Documentation addresses (RFC 5737, RFC 3849), which nobody has. */
const OUTSIDE = { 4: tryParseAddress("203.0.113.7"), 6: tryParseAddress("2001:db8:ffff::7") } as const;

/** One flow, which gives a first packet and an answer. */
interface Flow {
  readonly need: Need;
  readonly protocol: "tcp" | "udp";
  readonly from: Address;
  readonly to: Address;
  readonly port: number;
  readonly sourcePort?: number;
  readonly in: SampleLink | undefined;
  readonly out: SampleLink | undefined;
  readonly translation?: SamplePacket["translation"];
  readonly isOneWay?: boolean;
}

/** Returns the packets with which other programs' rules are evaluated, for the families that the node has. */
export function samplePackets(facts: NodeFacts): readonly Sample[] {
  return flowSurroundings(facts).flatMap((surroundings) =>
    flowsOf(facts, surroundings)
      .flatMap((flow) => packetsOf(flow, surroundings))
      .flatMap((sample) => [sample, ...framesOf(sample, surroundings)]),
  );
}

/** Returns a bridged packet as frames at the ports of the pods that send and receive it. */
function framesOf({ packet, ...sample }: Sample, { bridge, port }: FlowSurroundings): readonly Sample[] {
  const isOfBridge = (link: SampleLink | undefined): boolean => link !== undefined && link.name === bridge.name;
  return [
    ...(isOfBridge(packet.in) ? (["from a port"] as const) : []),
    ...(isOfBridge(packet.out) ? (["to a port"] as const) : []),
  ].map((direction) => ({ ...sample, packet: { ...packet, frame: { direction, port, bridge } } }));
}

function flowsOf(facts: NodeFacts, around: FlowSurroundings): readonly Flow[] {
  const { bridge, pods, gateway, uplink, nodeAddress, remotes, tunnel } = around;
  const [pod, other] = pods;
  const outside = OUTSIDE[around.family];
  const flows: Flow[] = [];
  for (const protocol of ["tcp", "udp"] as const) {
    flows.push({ need: "pod to pod", protocol, from: pod, to: other, port: POD_PORT, in: bridge, out: bridge });
    if (uplink !== undefined && outside !== undefined) {
      const port = protocol === "tcp" ? 443 : 53;
      flows.push({
        need: "pod to outside",
        protocol,
        from: pod,
        to: outside,
        port,
        in: bridge,
        out: uplink,
        translation: "unknown",
      });
      flows.push({
        need: "outside to pod",
        protocol,
        from: outside,
        to: pod,
        port: POD_PORT,
        in: uplink,
        out: bridge,
        translation: "destination",
      });
    }
    for (const { pod: from, link } of remotes) {
      flows.push({
        need: "pod of another node to pod",
        protocol,
        from,
        to: pod,
        port: POD_PORT,
        in: link,
        out: bridge,
      });
    }
    if (gateway !== undefined) {
      flows.push({
        need: "node to pod",
        protocol,
        from: gateway,
        to: pod,
        port: POD_PORT,
        in: undefined,
        out: bridge,
      });
    }
  }
  const own = nodeAddress ?? gateway;
  for (const { protocol, port } of own === undefined ? [] : NODE_PORTS) {
    const listening = protocol === "udp" ? facts.udpPorts : facts.tcpPorts;
    if (own === undefined || !listening.has(port)) continue;
    flows.push({ need: "pod to node", protocol, from: pod, to: own, port, in: bridge, out: undefined });
  }
  if (tunnel !== undefined) {
    flows.push({
      need: "node to node by the tunnel",
      protocol: "udp",
      from: tunnel.other,
      to: tunnel.own,
      port: TUNNEL.port,
      in: around.linkTo(tunnel.other) ?? uplink,
      out: undefined,
      isOneWay: true,
    });
  }
  return flows;
}

function packetsOf(flow: Flow, around: FlowSurroundings): readonly Sample[] {
  const { need, protocol, from, to, port, sourcePort = CLIENT, translation = "none", isOneWay = false } = flow;
  const by = need === "pod of another node to pod" ? ` by ${flow.in?.name}` : "";
  const kind = `IPv${around.family} ${protocol.toUpperCase()}${need === "pod to node" ? ` ${port}` : by}`;
  const [isFromNode, isToNode] = [flow.in === undefined, flow.out === undefined];
  const first: SamplePacket = {
    path: isFromNode ? "output" : isToNode ? "input" : "forward",
    protocol,
    source: from,
    destination: to,
    sourcePort,
    destinationPort: port,
    in: flow.in,
    out: flow.out,
    isReply: false,
    // The source is translated after all chains that decide about a first packet.
    translation: translation === "unknown" ? "none" : translation,
    isSourceLocal: isFromNode,
    isDestinationLocal: isToNode,
    reverseLink: isFromNode ? undefined : around.linkTo(from),
  };
  if (isOneWay) return [{ need, kind, packet: first, isAnswer: false }];
  const answer: SamplePacket = {
    ...first,
    path: isFromNode ? "input" : isToNode ? "output" : "forward",
    source: to,
    destination: from,
    sourcePort: port,
    destinationPort: sourcePort,
    in: flow.out,
    out: flow.in,
    isReply: true,
    translation,
    isSourceLocal: isToNode,
    isDestinationLocal: isFromNode,
    reverseLink: isToNode ? undefined : around.linkTo(to),
  };
  return [
    { need, kind, packet: first, isAnswer: false },
    { need, kind, packet: answer, isAnswer: true },
  ];
}
