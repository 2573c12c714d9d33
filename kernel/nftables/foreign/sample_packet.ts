import { type Address, addressToBytes, type Family, familyOf } from "../../ip/address.ts";
import { littleEndian } from "../../byte_order.ts";
import type { ForeignHook } from "./foreign_ruleset.ts";
import type { ForeignField } from "./step.ts";
import { type KnownBytes, unknownBytes } from "./ternary.ts";

/** A link by which a packet arrives or leaves. */
export interface SampleLink {
  readonly index: number;
  readonly name: string;
}

/** RTN_* of an address, from the node's point of view. */
export const AddressType = { UNICAST: 1, LOCAL: 2 } as const;

/** A frame at a bridge port, on its way from the port to the node or from the node to the port. */
export interface FrameSide {
  readonly direction: "from a port" | "to a port";
  readonly port: SampleLink;
  readonly bridge: SampleLink;
}

/** A packet for which other programs' rules are evaluated. */
export interface SamplePacket {
  readonly path: "forward" | "input" | "output";
  readonly protocol: "tcp" | "udp";
  readonly source: Address;
  readonly destination: Address;
  readonly sourcePort: number;
  readonly destinationPort: number;
  readonly in: SampleLink | undefined;
  readonly out: SampleLink | undefined;
  /** Whether it is the answer to a first packet in the other direction. */
  readonly isReply: boolean;
  /** The half of the connection that NAT has changed; "unknown" when that depends on the configuration. */
  readonly translation: "none" | "destination" | "unknown";
  readonly isSourceLocal: boolean;
  readonly isDestinationLocal: boolean;
  /** The link by which the node would send to the source; undefined when that is unknown. */
  readonly reverseLink: SampleLink | undefined;
  /** Set when rules of the bridge family are evaluated for the packet's frame. */
  readonly frame?: FrameSide;
}

/** The properties of a packet that rules may change on its way. */
export interface PacketState {
  readonly mark: KnownBytes;
  readonly connectionMark: KnownBytes;
  /** undefined when a rule may have ended the tracking. */
  readonly isTracked: boolean | undefined;
}

/** The states of a connection as rules see them (NF_CT_STATE_*). */
export const ConnectionState = { ESTABLISHED: 2, NEW: 8, UNTRACKED: 64 } as const;

const PROTOCOLS = { tcp: 6, udp: 17 } as const;
const ETHERTYPES = { 4: 0x0800, 6: 0x86dd } as const;
const NFPROTO = { 4: 2, 6: 10 } as const;
const NFPROTO_BRIDGE = 7;
const NAME_LENGTH = 16;
/** IPS_SEEN_REPLY, IPS_ASSURED, IPS_CONFIRMED. */
const REPLIED = 0x0e;
/** IPS_SRC_NAT and IPS_DST_NAT. */
const TRANSLATIONS = 0x30;
const DESTINATION_TRANSLATED = 0x20;

/** Returns the state in which a packet arrives at the node. */
export function initialState({ isReply, frame }: SamplePacket): PacketState {
  // Whether a bridge tracks connections depends on the kernel.
  if (frame !== undefined) return { mark: unknownBytes(4), connectionMark: unknownBytes(4), isTracked: undefined };
  return {
    mark: [0, 0, 0, 0],
    connectionMark: isReply ? unknownBytes(4) : [0, 0, 0, 0],
    isTracked: true,
  };
}

/**
 * Reads the value that an expression loads from a packet.
 *
 * @returns the loaded bytes; undefined when the packet has no such value, so that the rule does not match
 */
export function readField(
  packet: SamplePacket,
  state: PacketState,
  hook: ForeignHook,
  field: ForeignField,
): KnownBytes | undefined {
  switch (field.kind) {
    case "payload":
      return readPayload(packet, field);
    case "meta":
      return readMeta(packet, state, hook, field.key);
    case "ct":
      return readConnection(packet, state, field.key, field.direction);
    case "fib":
      return readFib(packet, field);
    case "extension header":
      return field.isPresence ? [0] : undefined;
    case "other":
      return unknownBytes(NAME_LENGTH);
  }
}

function readPayload(
  packet: SamplePacket,
  { base, offset, length }: { readonly base: number; readonly offset: number; readonly length: number },
): KnownBytes {
  const header = base === 1 ? networkHeader(packet) : base === 2 ? transportHeader(packet) : frameHeader(packet);
  return Array.from({ length }, (_, i) => header[offset + i]);
}

/** Returns the frame's header. MAC addresses are unknown, and without a frame everything is. */
function frameHeader(packet: SamplePacket): KnownBytes {
  if (packet.frame === undefined) return [];
  const type = ETHERTYPES[familyOf(packet.source)];
  return [...unknownBytes(12), type >> 8, type & 0xff];
}

function networkHeader({ source, destination, protocol }: SamplePacket): KnownBytes {
  const [from, to] = [addressToBytes(source), addressToBytes(destination)];
  const number = PROTOCOLS[protocol];
  // The length, identification, time to live and checksum are unknown.
  return familyOf(source) === 4
    ? [
        0x45,
        0,
        undefined,
        undefined,
        undefined,
        undefined,
        0x40,
        0,
        undefined,
        number,
        undefined,
        undefined,
        ...from,
        ...to,
      ]
    : [0x60, 0, undefined, undefined, undefined, undefined, number, undefined, ...from, ...to];
}

function transportHeader({ sourcePort, destinationPort, protocol, isReply }: SamplePacket): KnownBytes {
  const ports = [sourcePort >> 8, sourcePort & 0xff, destinationPort >> 8, destinationPort & 0xff];
  if (protocol === "udp") return ports;
  return [...ports, ...unknownBytes(9), tcpFlags(isReply)];
}

/** Returns SYN for a first packet, ACK for an answer. */
export function tcpFlags(isReply: boolean): number {
  return isReply ? 0x10 : 0x02;
}

/** Reads NFT_META_*. */
function readMeta(packet: SamplePacket, { mark }: PacketState, hook: ForeignHook, key: number): KnownBytes | undefined {
  const { incoming, outgoing } = linksAt(packet, hook);
  const family = familyOf(packet.source);
  switch (key) {
    case 1:
      return [ETHERTYPES[family] >> 8, ETHERTYPES[family] & 0xff];
    case 3:
      return mark;
    case 4:
      return indexBytes(incoming);
    case 5:
      return indexBytes(outgoing);
    case 6:
      return nameBytes(incoming);
    case 7:
      return nameBytes(outgoing);
    case 10:
    case 11:
      return socketOwner(packet);
    case 15:
      return [protocolFamily(packet)];
    case 16:
      return [PROTOCOLS[packet.protocol]];
    case 19:
    case 25:
      return [0];
    default:
      return readBridgeMeta(packet, key);
  }
}

/** Only packets that the node itself sends have a socket. */
function socketOwner({ path }: SamplePacket): KnownBytes | undefined {
  return path === "output" ? unknownBytes(4) : undefined;
}

/** Returns NFPROTO_* as rules see it. */
function protocolFamily({ source, frame }: SamplePacket): number {
  return frame === undefined ? NFPROTO[familyOf(source)] : NFPROTO_BRIDGE;
}

/** Reads NFT_META_BRI_*: the bridge of the port by which a frame arrives or leaves. Any other key is unknown. */
function readBridgeMeta({ frame }: SamplePacket, key: number): KnownBytes | undefined {
  if (key !== 17 && key !== 18) return unknownBytes(NAME_LENGTH);
  return frame?.direction === (key === 17 ? "from a port" : "to a port") ? nameBytes(frame.bridge) : undefined;
}

/** Returns the links as a hook sees them: "unknown" where kernels differ. */
function linksAt(
  packet: SamplePacket,
  hook: ForeignHook,
): { readonly incoming: SampleLink | "unknown" | undefined; readonly outgoing: SampleLink | undefined } {
  if (packet.frame !== undefined) {
    const { direction, port } = packet.frame;
    return direction === "from a port"
      ? { incoming: port, outgoing: undefined }
      : { incoming: undefined, outgoing: port };
  }
  const isBeforeRouting = hook === "prerouting" || hook === "ingress";
  const outgoing = isBeforeRouting || hook === "input" ? undefined : packet.out;
  const isAfterRouting = hook === "postrouting" || hook === "egress";
  return { incoming: isAfterRouting && packet.in !== undefined ? "unknown" : packet.in, outgoing };
}

function indexBytes(link: SampleLink | "unknown" | undefined): KnownBytes {
  return link === "unknown" ? unknownBytes(4) : wordBytes(link?.index ?? 0);
}

function nameBytes(link: SampleLink | "unknown" | undefined): KnownBytes {
  if (link === "unknown") return unknownBytes(NAME_LENGTH);
  const name = link?.name ?? "";
  return Array.from({ length: NAME_LENGTH }, (_, i) => (i < name.length ? name.charCodeAt(i) & 0xff : 0));
}

/** NFT_CT_* of the addresses of a direction, under each of their names. */
const CT_SOURCES: readonly number[] = [8, 19, 21];
const CT_DESTINATIONS: readonly number[] = [9, 20, 22];

function readConnection(
  packet: SamplePacket,
  state: PacketState,
  key: number,
  direction: number | undefined,
): KnownBytes | undefined {
  if (key === 0) return hostWord(connectionStateOf(packet, state));
  if (state.isTracked === false) return undefined;
  if (state.isTracked === undefined) return unknownBytes(NAME_LENGTH);
  switch (key) {
    case 1:
      return [packet.isReply ? 1 : 0];
    case 2:
      return statusOf(packet);
    case 3:
      return state.connectionMark;
    case 7:
      return [NFPROTO[familyOf(packet.source)]];
    case 10:
      return [PROTOCOLS[packet.protocol]];
    case 17:
      return [0, 0];
    default:
      return readConnectionAddress(packet, key, direction ?? 0) ?? unknownBytes(NAME_LENGTH);
  }
}

/** Returns an address of a direction; undefined for other keys, and when NAT may have changed it. */
function readConnectionAddress(packet: SamplePacket, key: number, direction: number): KnownBytes | undefined {
  if (packet.translation !== "none") return undefined;
  const isThisWay = (direction === 1) === packet.isReply;
  const { source, destination } = isThisWay ? packet : reversed(packet);
  if (CT_SOURCES.includes(key)) return [...addressToBytes(source)];
  return CT_DESTINATIONS.includes(key) ? [...addressToBytes(destination)] : undefined;
}

function reversed({ source, destination }: SamplePacket): { readonly source: Address; readonly destination: Address } {
  return { source: destination, destination: source };
}

/** Returns the connection's state as rules see it (NF_CT_STATE_*); undefined when a rule may have untracked it. */
export function connectionStateOf({ isReply }: SamplePacket, { isTracked }: PacketState): number | undefined {
  if (isTracked === undefined) return undefined;
  if (!isTracked) return ConnectionState.UNTRACKED;
  return isReply ? ConnectionState.ESTABLISHED : ConnectionState.NEW;
}

function statusOf({ isReply, translation }: SamplePacket): KnownBytes {
  const known = wordBytes((isReply ? REPLIED : 0) | (translation === "destination" ? DESTINATION_TRANSLATED : 0));
  if (translation !== "unknown") return known;
  // The bits of both translations are unknown, and with them their byte.
  const place = wordBytes(TRANSLATIONS);
  return known.map((byte, i) => (place[i] === 0 ? byte : undefined));
}

/** Reads NFT_FIB_RESULT_OIF, …_OIFNAME, …_ADDRTYPE. */
function readFib(
  packet: SamplePacket,
  { result, flags }: { readonly result: number; readonly flags: number },
): KnownBytes {
  if (packet.frame !== undefined) return unknownBytes(NAME_LENGTH);
  const isSource = (flags & 1) !== 0;
  if (result === 3) {
    const isLocal = isSource ? packet.isSourceLocal : packet.isDestinationLocal;
    return wordBytes(isLocal ? AddressType.LOCAL : AddressType.UNICAST);
  }
  const { reverseLink } = packet;
  if (!isSource || reverseLink === undefined) return unknownBytes(NAME_LENGTH);
  const isByLink = (flags & 8) !== 0;
  const found = isByLink && reverseLink.index !== packet.in?.index ? undefined : reverseLink;
  const isPresence = (flags & 32) !== 0;
  if (isPresence) return [found === undefined ? 0 : 1];
  return result === 1 ? indexBytes(found) : nameBytes(found);
}

/** Returns the bytes of a 32-bit number in host order. */
export function wordBytes(value: number): readonly number[] {
  const bytes = [value & 0xff, (value >>> 8) & 0xff, (value >>> 16) & 0xff, (value >>> 24) & 0xff];
  return littleEndian ? bytes : bytes.toReversed();
}

function hostWord(value: number | undefined): KnownBytes {
  return value === undefined ? unknownBytes(4) : wordBytes(value);
}

export function packetFamily({ source }: SamplePacket): Family {
  return familyOf(source);
}
