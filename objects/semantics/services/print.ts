import { type Address, familyOf, formatAddress } from "../../../kernel/ip/address.ts";
import type { Packet, SocketAddress } from "./packet.ts";
import { candidateText, hintText, missText, routeText } from "./reason_text.ts";
import type { Drop, EndpointReport, Frontend, Reject, Translate, Verdict } from "./verdict.ts";

const entries = { node: "a process of this node", pod: "a pod of this node", outside: "outside of this node" } as const;

/** Describes a verdict in lines for `explain`: the packet, what happens to it, and why. */
export function describeVerdict(packet: Packet, verdict: Verdict): readonly string[] {
  const { protocol, source, sourcePort, destination, destinationPort, entry } = packet;
  const from = socketText(source, sourcePort);
  const to = socketText(destination, destinationPort);
  return [`${protocol} ${from} -> ${to} from ${entries[entry]}`, ...verdictLines(verdict)];
}

function verdictLines(verdict: Verdict): readonly string[] {
  switch (verdict.kind) {
    case "pass":
      return ["passes unchanged: no Service has this address and port", ...verdict.nearMisses.map(missText)];
    case "drop":
      return [`dropped: ${dropText(verdict)}`, ...aboutLines(verdict)];
    case "reject":
      return [`refused (${verdict.reply}): ${rejectText(verdict)}`, ...aboutLines(verdict)];
    case "translate":
      return translateLines(verdict);
  }
}

function translateLines({
  frontend,
  sourceRanges,
  route,
  affinity,
  candidates,
  endpoints,
}: Translate): readonly string[] {
  const kept = affinity.type === "none" ? [] : [`session affinity for ${affinity.timeoutSeconds} s: ${affinity.type}`];
  return [
    frontendText(frontend),
    ...(sourceRanges === "within" ? ["the source is within loadBalancerSourceRanges"] : []),
    routeText(route),
    hintText(endpoints.hints, route),
    ...kept,
    `goes to one of ${candidates.length}:`,
    ...candidates.map((one) => `  ${socketOf(one.destination)} ${candidateText(one)}`),
    ...reportLines(endpoints),
  ];
}

function aboutLines({ frontend, endpoints }: Drop | Reject): readonly string[] {
  return [
    ...(frontend === undefined ? [] : [frontendText(frontend)]),
    ...(endpoints === undefined ? [] : reportLines(endpoints)),
  ];
}

function reportLines({ omitted, ignoredSlices }: EndpointReport): readonly string[] {
  return [
    ...omitted.map(({ endpoint, slice, because }) => `  not ${socketOf(endpoint)} (${slice}): ${because}`),
    ...ignoredSlices.map(({ slice, because }) => `  EndpointSlice ${slice} does not count: ${because}`),
  ];
}

function frontendText({ type, service, portName, address, port }: Frontend): string {
  const name = portName === "" ? "" : ` (${portName})`;
  return `${type} ${socketText(address, port)} of Service ${service}${name}`;
}

/** Returns why a packet is dropped. */
export function dropText({ reason }: Drop): string {
  switch (reason.type) {
    case "loopback address from elsewhere":
      return "a loopback address, and it does not come from this node itself";
    case "source not of a local pod":
      return "the source is not an address of a pod of this node";
    case "source range":
      return `the source is not within loadBalancerSourceRanges of Service ${reason.service}`;
    case "no local endpoint":
      return `${reason.policy}TrafficPolicy Local, and no endpoint on this node`;
  }
}

/** Returns why a packet is refused. */
export function rejectText({ reason }: Reject): string {
  if (reason.type === "no endpoints") return "no endpoint anywhere";
  return `a cluster IP of Service ${reason.service}, which has no such port`;
}

function socketOf({ address, port }: SocketAddress): string {
  return socketText(address, port);
}

function socketText(address: Address, port: number): string {
  const text = formatAddress(address);
  return familyOf(address) === 6 ? `[${text}]:${port}` : `${text}:${port}`;
}
