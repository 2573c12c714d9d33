import { type Address, familyOf, formatAddress } from "../../../kernel/ip/address.ts";
import { primaryAddresses } from "../../../objects/semantics/services/node_port.ts";
import type { Packet } from "../../../objects/semantics/services/packet.ts";
import type { Verdict } from "../../../objects/semantics/services/verdict.ts";
import type { ServiceWorld } from "../../../objects/semantics/services/world.ts";
import type { Device, WalkedPacket } from "../nftables/interpreter/packet.ts";
import type { Surroundings } from "../nftables/interpreter/surroundings.ts";
import { type Machine, walkThrough } from "../nftables/interpreter/walk.ts";

const LOOPBACK: Device = { index: 1, name: "lo" };
const UPLINK: Device = { index: 2, name: "eth0" };
const PROTOCOLS = { TCP: "tcp", UDP: "udp", SCTP: "sctp" } as const;

/**
 * Returns the outcomes that the evaluator allows, each one of: "pass", "drop", "reject", "tcp reset", an endpoint, or
 * "<endpoint> masqueraded".
 */
export function allowedOutcomes(verdict: Verdict): ReadonlySet<string> {
  switch (verdict.kind) {
    case "pass":
    case "drop":
      return new Set([verdict.kind]);
    case "reject":
      return new Set([verdict.reply === "tcp reset" ? "tcp reset" : "reject"]);
    case "translate":
      return new Set(
        verdict.candidates.map(({ destination, masquerade, isRejected }) =>
          isRejected ? "reject" : endText(destination.address, destination.port, masquerade.masqueraded),
        ),
      );
  }
}

/** Returns the outcome of a packet by the rules, in the words of {@link allowedOutcomes}. */
export function walkedOutcome(machine: Machine, packet: Packet, bridge: string): string {
  const walked = walkedPacket(packet, bridge);
  const { verdict, decision, translations } = walkThrough(
    machine,
    walked,
    packet.entry === "node" ? "node" : "outside",
  );
  if (verdict === "drop") return "drop";
  if (verdict === "reject") return decision?.reply === "tcp reset" ? "tcp reset" : "reject";
  if (translations.length === 0) return "pass";
  const isMasqueraded = translations.some(({ half }) => half === "source");
  return endText(walked.tuple.destination, walked.tuple.destinationPort, isMasqueraded);
}

/** Returns the packet as it arrives at the first hook. */
export function walkedPacket(packet: Packet, bridge: string): WalkedPacket {
  const { entry, protocol, source, sourcePort, destination, destinationPort } = packet;
  const tuple = { protocol: PROTOCOLS[protocol], source, sourcePort, destination, destinationPort };
  const devices = { node: undefined, pod: { index: 3, name: bridge }, outside: UPLINK };
  return { tuple, mark: 0, in: devices[entry] };
}

/**
 * Returns the machine around the rules that a world describes: pods on the bridge, all others at the uplink.
 */
export function surroundingsOf(
  { localPods, nodeAddresses, ...world }: ServiceWorld,
  bridge: string,
  choose: Surroundings["choose"],
): Surroundings {
  const outDevice = (address: Address): Device => {
    if (nodeAddresses.has(address)) return LOOPBACK;
    return localPods.has(address) ? { index: 3, name: bridge } : UPLINK;
  };
  return {
    choose,
    now: () => 0,
    fib: (address) => (nodeAddresses.has(address) ? "local" : "unicast"),
    outDevice,
    ownAddress: ({ tuple }) => {
      const own = primaryAddresses({ localPods, nodeAddresses, ...world });
      return own.find((address) => familyOf(address) === familyOf(tuple.source)) ?? tuple.source;
    },
  };
}

function endText(address: Address, port: number, isMasqueraded: boolean): string {
  return `${formatAddress(address)} ${port}${isMasqueraded ? " masqueraded" : ""}`;
}
