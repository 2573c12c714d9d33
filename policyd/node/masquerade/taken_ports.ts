import { Buffer } from "node:buffer";
import { type Address, addressFromBytes } from "../../../kernel/ip/address.ts";
import { cidrContains, IPV4_MAPPED } from "../../../kernel/ip/cidr.ts";
import { readTextFile } from "../../../kernel/file.ts";
import { Errno } from "../../../kernel/syscall/errno.ts";
import { type FileReadCalls, OpenFlag } from "../../../kernel/syscall/file_calls.ts";
import { check } from "../../../kernel/syscall/syscalls.ts";
import type { PortRange } from "../../../kernel/ip/port_range.ts";
import { PROTOCOL_OF } from "../../../objects/protocol.ts";
import type { NodeSocket } from "../../services/yielded_frontends.ts";
import type { NodePorts } from "./port_ranges.ts";

/** The kernel's default of `ip_local_port_range`. */
const DEFAULT_LOCAL: PortRange = { first: 32_768, last: 60_999 };
/** Maximum size of a list of reserved ports. */
const LONGEST_LIST = 64 * 1024;
/** Maximum bytes read of a socket file. The kernel writes listening sockets first; 100,000 others may follow. */
const MOST_BYTES = 1024 * 1024;
const CHUNK = 32 * 1024;
/** The state of a listening TCP socket (include/net/tcp_states.h). */
const LISTEN = "0A";

/** Reads the ports of the network namespace of the calling thread. @throws SyscallError on failure */
export function kernelNodePorts(files: FileReadCalls): NodePorts {
  const setting = (name: string): string => readTextFile(files, `/proc/sys/net/ipv4/${name}`, LONGEST_LIST) ?? "";
  const bound = (name: string, protocol: "tcp" | "udp"): readonly PortRange[] =>
    boundPorts(startOf(files, `/proc/thread-self/net/${name}`), protocol);
  return {
    local: portRanges(setting("ip_local_port_range").trim().replaceAll(/\s+/g, "-"))[0] ?? DEFAULT_LOCAL,
    taken: [
      ...portRanges(setting("ip_local_reserved_ports")),
      ...(["tcp", "udp"] as const).flatMap((protocol) => [
        ...bound(protocol, protocol),
        ...bound(`${protocol}6`, protocol),
      ]),
    ],
  };
}

/** Returns the complete lines at the start of a file that may be large; empty where the file is missing. */
function startOf(files: FileReadCalls, path: string): string {
  const fd = files.open(path, OpenFlag.RDONLY | OpenFlag.CLOEXEC, 0);
  if (fd === -Errno.ENOENT) return "";
  check(fd, `open ${path}`);
  try {
    const decoder = new TextDecoder();
    const buffer = new Uint8Array(CHUNK);
    let text = "";
    while (text.length < MOST_BYTES) {
      const length = check(files.read(fd, buffer), `read ${path}`);
      if (length === 0) return text;
      text += decoder.decode(buffer.subarray(0, length), { stream: true });
    }
    // The last line may be incomplete.
    return text.slice(0, text.lastIndexOf("\n"));
  } finally {
    files.close(fd);
  }
}

/** Parses a list of ports and port ranges in the kernel's format ("8080,9148-9150"); other text is skipped. */
export function portRanges(text: string): readonly PortRange[] {
  return text.split(",").flatMap((part): readonly PortRange[] => {
    const [, from, to] = /^\s*(\d{1,5})(?:-(\d{1,5}))?\s*$/.exec(part) ?? [];
    if (from === undefined) return [];
    const [first, last] = [Number(from), Number(to ?? from)];
    return first <= last && last <= 0xffff ? [{ first, last }] : [];
  });
}

/** A socket that receives: a listening one of TCP, or any bound one of UDP. */
interface BoundSocket {
  /** In words of the processor's order. */
  readonly address: string;
  readonly port: number;
  /** Whether it receives only from one other socket. */
  readonly isConnected: boolean;
}

/** Returns the sockets of a socket file of the kernel (`/proc/net/tcp` and the like). */
function boundSockets(text: string, protocol: "tcp" | "udp"): readonly BoundSocket[] {
  return text
    .split("\n")
    .slice(1)
    .flatMap((line) => {
      const [, local = "", remote = "", state] = line.trim().split(/\s+/);
      if (state === undefined || (protocol === "tcp" && state !== LISTEN)) return [];
      const [address = "", port = ""] = local.split(":");
      return [{ address, port: Number.parseInt(port, 16), isConnected: !remote.endsWith(":0000") }];
    });
}

/** Returns the ports of the sockets in such a file that receive: listening TCP sockets, and all bound UDP sockets. */
export function boundPorts(text: string, protocol: "tcp" | "udp"): readonly PortRange[] {
  const ports = new Set(boundSockets(text, protocol).map(({ port }) => port));
  return [...ports].flatMap((port) => (port > 0 ? [{ first: port, last: port }] : []));
}

/** Returns those that receive from anywhere. A socket at `::` receives IPv4, too, unless its program forbids it. */
export function receivingSockets(text: string, protocol: "tcp" | "udp"): readonly NodeSocket[] {
  return boundSockets(text, protocol).flatMap(({ address: words, port, isConnected }) => {
    if (isConnected) return [];
    const address = addressOf(words);
    const where = address === 0n ? undefined : address === 0 ? "IPv4" : address;
    return [{ protocol: PROTOCOL_OF[protocol], port, address: where, owner: "a program of the node" }];
  });
}

/** Reads an address in words of the processor's order; an IPv4-mapped one is of IPv4. */
function addressOf(text: string): Address {
  const words = text.match(/.{8}/g) ?? [];
  const bytes = words.flatMap((word) => [...Buffer.from(word, "hex")].toReversed());
  const address = addressFromBytes(Uint8Array.from(bytes));
  return cidrContains(IPV4_MAPPED, address) ? addressFromBytes(Uint8Array.from(bytes.slice(12))) : address;
}

/** Reads the {@link receivingSockets} of the network namespace of the calling thread. @throws SyscallError */
export function kernelSockets(files: FileReadCalls): readonly NodeSocket[] {
  return (["tcp", "udp"] as const).flatMap((protocol) =>
    [protocol, `${protocol}6`].flatMap((name) =>
      receivingSockets(startOf(files, `/proc/thread-self/net/${name}`), protocol),
    ),
  );
}
