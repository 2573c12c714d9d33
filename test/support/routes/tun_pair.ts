import { type Address, addressFromBytes, formatAddress } from "../../../kernel/ip/address.ts";
import { littleEndian } from "../../../kernel/byte_order.ts";
import { OpenFlag } from "../../../kernel/syscall/file_calls.ts";
import { check } from "../../../kernel/syscall/syscalls.ts";
import type { LabNamespace } from "../../lab/namespace.ts";

/** TUNSETIFF, IFF_TUN and IFF_NO_PI (include/uapi/linux/if_tun.h); struct ifreq has 40 bytes. */
const TUNSETIFF = 0x400454ca;
const IFF_TUN = 0x0001;
const IFF_NO_PI = 0x1000;
const IFREQ_SIZE = 40;
const LARGEST_PACKET = 65_536;
/** The largest number of packets that are carried in one turn; the others wait in the device. */
const MOST_AT_ONCE = 200;

/** One end of a pair. */
export interface TunEnd {
  readonly namespace: LabNamespace;
  /** The addresses of the end, with their prefix lengths. */
  readonly addresses: readonly string[];
  /** The addresses that the other end accepts from this one, and sends to it: WireGuard's AllowedIPs. */
  readonly allowed: readonly Address[];
}

/**
 * Two TUN devices between which this process carries packets. It drops packets whose inner addresses are not allowed,
 * as WireGuard does: such a link has no MAC addresses and reads only the packet.
 */
export class TunPair implements Disposable {
  /** Packets that were dropped, by source and destination. */
  readonly dropped = new Set<string>();
  readonly #ends: readonly { readonly end: TunEnd; readonly fd: number }[];
  readonly #timer: NodeJS.Timeout;
  readonly #buffer = new Uint8Array(LARGEST_PACKET);

  constructor(name: string, a: TunEnd, b: TunEnd) {
    this.#ends = [a, b].map((end) => ({ end, fd: open(name, end) }));
    this.#timer = setInterval(() => this.#carry(), 1);
  }

  #carry(): void {
    const [a, b] = this.#ends;
    if (a === undefined || b === undefined) return;
    for (const [from, to] of [
      [a, b],
      [b, a],
    ] as const) {
      for (let i = 0; i < MOST_AT_ONCE; i++) {
        const length = from.end.namespace.calls.read(from.fd, this.#buffer);
        if (length <= 0) break;
        this.#deliver(this.#buffer.subarray(0, length), from.end, to);
      }
    }
  }

  #deliver(packet: Uint8Array, from: TunEnd, to: { readonly end: TunEnd; readonly fd: number }): void {
    const [source, destination] = addressesOf(packet);
    if (from.allowed.includes(source) && to.end.allowed.includes(destination)) {
      to.end.namespace.calls.write(to.fd, packet);
    } else {
      this.dropped.add(`${formatAddress(source)} to ${formatAddress(destination)}`);
    }
  }

  [Symbol.dispose](): void {
    clearInterval(this.#timer);
    for (const { end, fd } of this.#ends) end.namespace.calls.close(fd);
  }
}

function addressesOf(packet: Uint8Array): readonly [Address, Address] {
  const [start, length] = (packet[0] ?? 0) >> 4 === 4 ? [12, 4] : [8, 16];
  return [
    addressFromBytes(packet.slice(start, start + length)),
    addressFromBytes(packet.slice(start + length, start + 2 * length)),
  ];
}

function open(name: string, { namespace, addresses }: TunEnd): number {
  const fd = namespace.inside(() => {
    const opened = check(
      namespace.calls.open("/dev/net/tun", OpenFlag.RDWR | OpenFlag.NONBLOCK | OpenFlag.CLOEXEC, 0),
      "open /dev/net/tun",
    );
    const request = new Uint8Array(IFREQ_SIZE);
    request.set(new TextEncoder().encode(name));
    new DataView(request.buffer).setUint16(16, IFF_TUN | IFF_NO_PI, littleEndian);
    check(namespace.calls.ioctl(opened, TUNSETIFF, request), "TUNSETIFF");
    return opened;
  });
  for (const address of addresses) {
    namespace.exec("ip", ["address", "add", address, "dev", name, ...(address.includes(":") ? ["nodad"] : [])]);
  }
  namespace.exec("ip", ["link", "set", name, "mtu", "1420", "up"]);
  return fd;
}
