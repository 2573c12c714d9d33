import { addressToBytes } from "../../ip/address.ts";
import { type ExtensionTest, type TestedPorts, UNTRACKED } from "./extension.ts";
import {
  AddressType,
  ConnectionState,
  connectionStateOf,
  type PacketState,
  type SamplePacket,
  tcpFlags,
  wordBytes,
} from "./sample_packet.ts";
import { both, either, equals, isBetween, masked, opposite, type Ternary, ternary } from "./ternary.ts";

/** XT_CONNTRACK_STATE_BIT of each state. */
const STATE_BITS: Readonly<Record<number, number | undefined>> = {
  [ConnectionState.ESTABLISHED]: 1 << 1,
  [ConnectionState.NEW]: 1 << 3,
  [ConnectionState.UNTRACKED]: UNTRACKED,
};
/** XT_CONNTRACK_STATE_SNAT, …_DNAT. */
const TRANSLATED = 0xc0;
const DESTINATION_TRANSLATED = 0x80;

/** Tells whether a packet passes an iptables match. */
export function evaluateTest(test: ExtensionTest, packet: SamplePacket, state: PacketState): Ternary {
  switch (test.kind) {
    case "always":
      return "yes";
    case "never":
      return "no";
    case "unknown":
      return "unknown";
    case "state":
      return negated(evaluateState(test.mask, packet, state), test.isNegated);
    case "ports":
      return evaluatePorts(test, packet);
    case "flags":
      return evaluateFlags(test, packet, state);
    case "address type":
      return evaluateAddressType(test, packet);
    case "mark": {
      const bytes = test.of === "packet" ? state.mark : state.connectionMark;
      return negated(equals(masked(bytes, wordBytes(test.mask), NONE), wordBytes(test.value)), test.isNegated);
    }
    case "addresses":
      return evaluateAddresses(test, packet);
    case "packet type":
      return negated(ternary(test.type === 0), test.isNegated);
    case "reverse path":
      return evaluateReversePath(test, packet);
  }
}

const NONE = [0, 0, 0, 0];

type TestOf<K extends ExtensionTest["kind"]> = Extract<ExtensionTest, { readonly kind: K }>;

function evaluateFlags(test: TestOf<"flags">, packet: SamplePacket, state: PacketState): Ternary {
  if (packet.protocol !== "tcp") return "no";
  const fits = ternary((tcpFlags(packet.isReply) & test.mask) === test.value);
  return both(evaluateTest(test.ports, packet, state), negated(fits, test.isNegated));
}

function evaluateAddressType(test: TestOf<"address type">, packet: SamplePacket): Ternary {
  if (test.isOfLink) return "unknown";
  return both(
    negated(isOfType(test.source, packet.isSourceLocal), test.isSourceNegated),
    negated(isOfType(test.destination, packet.isDestinationLocal), test.isDestinationNegated),
  );
}

function evaluateAddresses(test: TestOf<"addresses">, packet: SamplePacket): Ternary {
  return both(
    negated(isInRange(test.source, addressToBytes(packet.source)), test.isSourceNegated),
    negated(isInRange(test.destination, addressToBytes(packet.destination)), test.isDestinationNegated),
  );
}

function evaluateReversePath(test: TestOf<"reverse path">, { reverseLink, in: incoming }: SamplePacket): Ternary {
  if (reverseLink === undefined) return "unknown";
  return negated(ternary(test.isLoose || reverseLink.index === incoming?.index), test.isNegated);
}

function negated(answer: Ternary, isNegated: boolean): Ternary {
  return isNegated ? opposite(answer) : answer;
}

function evaluateState(mask: number, packet: SamplePacket, state: PacketState): Ternary {
  const current = connectionStateOf(packet, state);
  if (current === undefined) return "unknown";
  const bit = STATE_BITS[current] ?? 0;
  if ((mask & bit) !== 0) return "yes";
  if (packet.translation === "destination") return ternary((mask & DESTINATION_TRANSLATED) !== 0);
  return (mask & TRANSLATED) !== 0 && packet.translation === "unknown" ? "unknown" : "no";
}

function evaluatePorts(test: TestOf<"ports">, packet: SamplePacket): Ternary {
  if (test.protocol !== undefined && test.protocol !== packet.protocol) return "no";
  const source = negated(isOneOf(test.source, packet.sourcePort), test.isSourceNegated);
  const destination = negated(isOneOf(test.destination, packet.destinationPort), test.isDestinationNegated);
  return test.isEither ? either(source, destination) : both(source, destination);
}

function isOneOf(ranges: readonly TestedPorts[], port: number): Ternary {
  return ternary(ranges.some(([first, last]) => first <= port && port <= last));
}

function isOfType(mask: number, isLocal: boolean): Ternary {
  const bit = 1 << (isLocal ? AddressType.LOCAL : AddressType.UNICAST);
  return ternary(mask === 0 || (mask & bit) !== 0);
}

function isInRange(range: readonly [Uint8Array, Uint8Array] | undefined, address: Uint8Array): Ternary {
  if (range === undefined) return "yes";
  const [first, last] = range;
  return isBetween([...address], first.subarray(0, address.length), last.subarray(0, address.length));
}
