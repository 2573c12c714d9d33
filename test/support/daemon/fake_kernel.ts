import path from "node:path";
import type { PluginMachine } from "../../../cni/host.ts";
import { systemFileSystem } from "../../../ipam/file_system.ts";
import { addressFromBytes, formatAddress } from "../../../kernel/ip/address.ts";
import { parseMac } from "../../../kernel/ip/mac.ts";
import { ControlType, decodeMessages, MessageFlag, type ReceivedMessage } from "../../../kernel/netlink/message.ts";
import { messageType, Subsystem } from "../../../kernel/netlink/netfilter_message.ts";
import { littleEndian } from "../../../kernel/byte_order.ts";
import { createBridge, parseLink, RTM_DELLINK, RTM_NEWLINK } from "../../../kernel/route/link.ts";
import { parseNeighbour } from "../../../kernel/route/neighbour.ts";
import { Errno } from "../../../kernel/syscall/errno.ts";
import { type FakeNode, fakeNode } from "../cni/fake_node.ts";

const RTM_GETLINK = 18;
const RTM_GETADDR = 22;
const RTM_NEWROUTE = 24;
const RTM_GETROUTE = 26;
const RTM_NEWNEIGH = 28;
const RTM_DELNEIGH = 29;
const RTM_GETNEIGH = 30;
/** NUD_PERMANENT, and the offset of the state in struct ndmsg. */
const PERMANENT = 0x80;
const STATE_OFFSET = 8;
/** IPCTNL_MSG_CT_GET (include/uapi/linux/netfilter/nfnetlink_conntrack.h). */
const GET_CONNECTIONS = messageType(Subsystem.CONNTRACK, 1);
const RTN_UNICAST = 1;
const RTN_LOCAL = 2;
/** RTM_F_FIB_MATCH, in the second byte of its field: such a lookup finds the default route. */
const FIB_MATCH = 0x20;
const RTA_OIF = 4;
/** IFLA_OPERSTATE, 5 bytes with its padding: IF_OPER_UP. */
const OPERATIONAL = Uint8Array.of(5, 0, 16, 0, 6, 0, 0, 0);
/** IFLA_MTU: 1500 bytes. */
const MTU = Uint8Array.of(8, 0, 4, 0, 0xdc, 5, 0, 0);
const FIRST_SOCKET = 100_000;
/** The index 1 is the loopback interface's. */
const FIRST_INDEX = 2;

/** The name of every pod's interface in the fake kernel. */
export const POD_INTERFACE = "eth0";

/** Stands for SIGKILL: no code of ours may catch it. */
export class Killed extends Error {}

/**
 * The fault of the events from a number on: `fail` refuses the event of this number (from 0) with EIO, `kill` ends the
 * process there, `silence` makes the kernel do what is requested but answer nothing from there on.
 */
export interface Fault {
  readonly kind: "fail" | "kill" | "silence";
  readonly at: number;
}

/**
 * A node with files and links, on which calls can be made to fail.
 *
 * Links exist in two namespaces, the node's and one pod's; a veth's peer is always {@link POD_INTERFACE}. Neighbour
 * entries stay until they are deleted, or the pod's with its link; the node's are on the bridge, which stays. Addresses
 * and routes are acknowledged and forgotten; every link has a carrier. An address with a neighbour entry on the node is
 * reached by that link, and every other address is local. Files are real, below one directory.
 */
export class FakeKernel {
  readonly node: PluginMachine;
  /** The changes since the last {@link restart}, in order: "create dbv…", "claim 10.244.1.2", "record", "delete …". */
  readonly journal: string[] = [];
  /** The questions since the last restart: "link NAME" or "route", and the number of events before each. */
  readonly questions: { readonly subject: string; readonly namespace: "node" | "pod"; readonly afterEvents: number }[] =
    [];
  readonly links = { node: new Set<string>(), pod: new Set<string>() };
  /** Addresses with a neighbour entry. */
  readonly neighbours = { node: new Set<string>(), pod: new Set<string>() };
  /** The link of each of the node's neighbour entries. */
  readonly #wayTo = new Map<string, number>();
  readonly #queues = new Map<number, Uint8Array[]>();
  readonly #namespaceOf = new Map<number, "node" | "pod">();
  /** The request with which each link except a bridge was made. */
  readonly #made = new Map<string, Uint8Array>();
  #inside: "node" | "pod" = "node";
  #fault: Fault | undefined;
  #isSilent = false;
  #events = 0;
  #listsOfFlows = 0;

  constructor(root: string) {
    const fake = fakeNode(root);
    const files = fake.syscalls;
    const changing = (label: string, call: () => number): number => this.#event(label) ?? call();
    const syscalls: FakeNode["syscalls"] = {
      ...files,
      setns: () => {
        this.#inside = this.#inside === "node" ? "pod" : "node";
        return 0;
      },
      socket: () => {
        const fd = FIRST_SOCKET + this.#queues.size;
        this.#queues.set(fd, []);
        this.#namespaceOf.set(fd, this.#inside);
        return fd;
      },
      setsockopt: () => 0,
      bind: () => 0,
      send: (fd, data) => {
        for (const message of decodeMessages(data)) this.#queues.get(fd)?.push(...this.#answers(fd, message));
        return data.length;
      },
      receiveFrom: (fd, buffer, _flags, sender) => {
        const next = this.#queues.get(fd)?.shift();
        if (next === undefined || this.#isSilent) return -Errno.EAGAIN;
        buffer.set(next);
        sender.fill(0);
        return next.length;
      },
      close: (fd) => (fd >= FIRST_SOCKET ? 0 : files.close(fd)),
      link: (existing, name) => changing(`claim ${path.basename(name)}`, () => files.link(existing, name)),
      rename: (from, to) =>
        changing(to.endsWith(".json") ? "record" : `write ${path.basename(to)}`, () => files.rename(from, to)),
      unlink: (file) => changing(`unlink ${path.basename(file)}`, () => files.unlink(file)),
    };
    this.node = { ...fake, syscalls, files: systemFileSystem(syscalls) };
  }

  /** Begins another process: the next call runs in it, and the journal is empty again. */
  restart(fault?: Fault): void {
    this.#fault = fault;
    this.#isSilent = false;
    this.#events = 0;
    this.#inside = "node";
    this.journal.length = 0;
    this.questions.length = 0;
    this.#listsOfFlows = 0;
  }

  /** The number of times that flows were listed since the last {@link restart}. */
  get listsOfFlows(): number {
    return this.#listsOfFlows;
  }

  /**
   * Counts an event that does not belong to the kernel: the execution of another program. @returns as for the kernel's
   * own events
   */
  happens(label: string): number | undefined {
    return this.#event(label);
  }

  /** Counts an event that changes something; returns the negated errno when this event is to fail. */
  #event(label: string): number | undefined {
    const number = this.#events++;
    if (this.#fault?.kind === "silence" && number >= this.#fault.at) this.#isSilent = true;
    if (this.#fault?.kind === "kill" && number >= this.#fault.at) throw new Killed(label);
    if (this.#fault?.kind === "fail" && number === this.#fault.at) return -Errno.EIO;
    this.journal.push(label);
    return undefined;
  }

  #answers(fd: number, message: ReceivedMessage): readonly Uint8Array[] {
    const namespace = this.#namespaceOf.get(fd) ?? "node";
    if (message.type === RTM_GETLINK || message.type === RTM_GETROUTE) {
      const subject = message.type === RTM_GETLINK ? `link ${parseLink(message).name}` : "route";
      this.questions.push({ subject, namespace, afterEvents: this.#events });
      if (message.type === RTM_GETLINK) return this.#describe(namespace, message);
      if (((message.body[9] ?? 0) & FIB_MATCH) !== 0) return routeAnswer(message, RTN_UNICAST);
      const link = namespace === "node" ? this.#wayTo.get(destinationOf(message)) : undefined;
      return link === undefined ? routeAnswer(message, RTN_LOCAL) : routeAnswer(message, RTN_UNICAST, link);
    }
    if (message.type === RTM_GETNEIGH) return this.#describeNeighbour(namespace, message);
    if (message.type === RTM_GETADDR || message.type === GET_CONNECTIONS) {
      // There are no flows to list.
      if (message.type === GET_CONNECTIONS) this.#listsOfFlows++;
      return [datagram(ControlType.DONE, message.sequence, new Uint8Array(4), MessageFlag.MULTI)];
    }
    const refused = this.#event(this.#labelOf(namespace, message));
    return [acknowledge(message, refused ?? this.#change(namespace, message))];
  }

  #labelOf(namespace: "node" | "pod", message: ReceivedMessage): string {
    if (message.type !== RTM_NEWLINK && message.type !== RTM_DELLINK) return `request ${message.type}`;
    const { index } = parseLink(message);
    const name = this.#nameIn(namespace, message);
    const verb =
      message.type === RTM_DELLINK ? "delete" : (message.flags & MessageFlag.CREATE) !== 0 ? "create" : "change";
    return `${verb} ${name === "" ? index : name}`;
  }

  #change(namespace: "node" | "pod", message: ReceivedMessage): number {
    if (message.type === RTM_NEWNEIGH || message.type === RTM_DELNEIGH)
      return this.#changeNeighbour(namespace, message);
    if (message.type !== RTM_NEWLINK && message.type !== RTM_DELLINK) return 0;
    const { kind } = parseLink(message);
    const name = this.#nameIn(namespace, message);
    const links = this.links[namespace];
    if (message.type === RTM_DELLINK) {
      if (!links.delete(name)) return -Errno.ENODEV;
      if (parseLink({ ...message, body: this.#made.get(name) ?? message.body }).kind === "ifb") return 0;
      this.links.pod.delete(POD_INTERFACE);
      this.neighbours.pod.clear();
      return 0;
    }
    if ((message.flags & MessageFlag.CREATE) === 0) return 0;
    if (links.has(name)) return -Errno.EEXIST;
    links.add(name);
    if (kind !== "bridge") this.#made.set(name, message.body);
    if (kind === "veth") this.links.pod.add(POD_INTERFACE);
    return 0;
  }

  /** Returns the name of the link that a message is about; the message may contain only its index. */
  #nameIn(namespace: "node" | "pod", message: ReceivedMessage): string {
    const { name, index } = parseLink(message);
    return name === "" ? ([...this.links[namespace]][index - FIRST_INDEX] ?? "") : name;
  }

  #changeNeighbour(namespace: "node" | "pod", message: ReceivedMessage): number {
    const neighbour = parseNeighbour(message);
    if (neighbour === undefined) return -Errno.EINVAL;
    const address = formatAddress(neighbour.address);
    if (message.type === RTM_DELNEIGH) return this.neighbours[namespace].delete(address) ? 0 : -Errno.ENOENT;
    this.neighbours[namespace].add(address);
    if (namespace === "node") this.#wayTo.set(address, neighbour.index);
    return 0;
  }

  #describeNeighbour(namespace: "node" | "pod", message: ReceivedMessage): readonly Uint8Array[] {
    const neighbour = parseNeighbour(message);
    const isKnown = neighbour !== undefined && this.neighbours[namespace].has(formatAddress(neighbour.address));
    if (!isKnown) return [acknowledge(message, -Errno.ENOENT)];
    const body = Uint8Array.from(message.body);
    body[STATE_OFFSET] = PERMANENT;
    return [datagram(RTM_NEWNEIGH, message.sequence, body), acknowledge(message, 0)];
  }

  #describe(namespace: "node" | "pod", message: ReceivedMessage): readonly Uint8Array[] {
    const { name, index } = parseLink(message);
    const names = [...this.links[namespace]];
    const position = name === "" ? index - FIRST_INDEX : names.indexOf(name);
    const found = names[position];
    if (found === undefined) return [acknowledge(message, -Errno.ENODEV)];
    const body = this.#made.get(found) ?? createBridge({ name: found, mac: parseMac("ce:00:00:00:00:01") }).body;
    const described = Uint8Array.of(...body, ...MTU, ...OPERATIONAL);
    // In struct ifinfomsg the index is at offset 4.
    new DataView(described.buffer).setInt32(4, position + FIRST_INDEX, littleEndian);
    return [datagram(RTM_NEWLINK, message.sequence, described), acknowledge(message, 0)];
  }
}

/** Returns the address that is looked up: the first attribute, after struct rtmsg and the attribute's header. */
function destinationOf({ body }: ReceivedMessage): string {
  return formatAddress(addressFromBytes(body.subarray(16)));
}

/**
 * Answers a route lookup: in struct rtmsg the family is at offset 0 and the type at 7; RTA_OIF follows where there is a
 * link.
 */
function routeAnswer(message: ReceivedMessage, type: number, link?: number): readonly Uint8Array[] {
  const body = new Uint8Array(link === undefined ? 12 : 20);
  body[0] = message.body[0] ?? 0;
  body[7] = type;
  if (link !== undefined) body.set([8, 0, RTA_OIF, 0, link], 12);
  return [datagram(RTM_NEWROUTE, message.sequence, body), acknowledge(message, 0)];
}

function datagram(type: number, sequence: number, body: Uint8Array, flags = 0): Uint8Array {
  const whole = new Uint8Array(16 + body.length);
  const view = new DataView(whole.buffer);
  view.setUint32(0, whole.length, littleEndian);
  view.setUint16(4, type, littleEndian);
  view.setUint16(6, flags, littleEndian);
  view.setUint32(8, sequence, littleEndian);
  whole.set(body, 16);
  return whole;
}

/** Returns an NLMSG_ERROR with the negated errno and the header of the request; 0 acknowledges. */
function acknowledge(message: ReceivedMessage, errno: number): Uint8Array {
  const NLM_F_CAPPED = 0x100;
  const body = new Uint8Array(20);
  const view = new DataView(body.buffer);
  view.setInt32(0, errno, littleEndian);
  view.setUint32(4, 16 + message.body.length, littleEndian);
  view.setUint16(8, message.type, littleEndian);
  view.setUint32(12, message.sequence, littleEndian);
  return datagram(ControlType.ERROR, message.sequence, body, NLM_F_CAPPED);
}
