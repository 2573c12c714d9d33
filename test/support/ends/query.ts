import assert from "node:assert/strict";
import { type Address, type Family, familyOf, formatAddress } from "../../../kernel/ip/address.ts";
import type { LabNamespace } from "../../lab/namespace.ts";
import { encodeUdp, type IpPacket } from "../../lab/probe/frame.ts";
import { ProbeSocket, SocketType } from "../../lab/probe/socket.ts";
import { check } from "../../../kernel/syscall/syscalls.ts";
import { eventually } from "../guard/guarded_node.ts";

const IPPROTO_IP = 0;
const IP_TTL = 2;
const IPPROTO_IPV6 = 41;
const IPV6_UNICAST_HOPS = 16;

/** Both ends of a query. They use one port, so that an attacker's guess of the other port is right. */
export interface QueryEnds {
  readonly from: { readonly namespace: LabNamespace; readonly address: Address };
  readonly to: { readonly namespace: LabNamespace; readonly address: Address };
  readonly port: number;
  /** The address to which the client sends, where it is translated. */
  readonly via?: Address;
}

/** A UDP query that has arrived and waits for its answer. */
export class Query implements Disposable {
  readonly #ends: QueryEnds;
  readonly #client: ProbeSocket;
  readonly #server: ProbeSocket;

  constructor(ends: QueryEnds) {
    const { from, to, port, via = to.address } = ends;
    const family = familyOf(to.address);
    this.#ends = ends;
    this.#server = ProbeSocket.open(to.namespace, family, SocketType.DATAGRAM);
    this.#server.bind({ address: to.address, port });
    this.#client = ProbeSocket.open(from.namespace, family, SocketType.DATAGRAM);
    this.#client.bind({ address: from.address, port });
    this.#client.connect({ address: via, port });
  }

  get family(): Family {
    return familyOf(this.#ends.to.address);
  }

  /** Sends the query until the server has received it. */
  async send(): Promise<void> {
    for (const socket of [this.#client, this.#server]) while (socket.receive().kind !== "nothing");
    const isThere = (): boolean => {
      this.#client.send(Uint8Array.of(1));
      return this.#server.receive().kind === "data";
    };
    assert.ok(await eventually(isThere), "the query arrives");
  }

  /** Limits the further packets to this number of hops, as traceroute does. */
  limitHops(hops: number): void {
    const [level, option] = this.family === 4 ? [IPPROTO_IP, IP_TTL] : [IPPROTO_IPV6, IPV6_UNICAST_HOPS];
    const { calls } = this.#ends.from.namespace;
    check(calls.setsockopt(this.#client.fd, level, option, new Uint8Array(Int32Array.of(hops).buffer)), "limit hops");
  }

  /** The packet of the query, as an attacker quotes it who has not seen it. */
  get packet(): IpPacket {
    const { from, to, port } = this.#ends;
    return encodeUdp(from.address, to.address, port, Uint8Array.of(1));
  }

  /** The packet of an answer. */
  get answer(): IpPacket {
    const { from, to, port } = this.#ends;
    return encodeUdp(to.address, from.address, port, Uint8Array.of(1));
  }

  /** Returns the errno by which the client learned of the end of its query; undefined while it still waits. */
  failure(): number | undefined {
    const received = this.#client.receive();
    return received.kind === "refused" ? received.errno : undefined;
  }

  /** Closes the server's socket, and sends the query again. */
  sendToNobody(): void {
    this.#server.close();
    this.sendAgain();
  }

  /** Sends the query again, with this size in bytes. */
  sendAgain(size = 1): void {
    this.#client.send(new Uint8Array(size));
  }

  [Symbol.dispose](): void {
    this.#client.close();
    this.#server.close();
  }
}

/** Returns the MTU that a namespace has learned for the path to an address; undefined when it has learned none. */
export function learnedMtu(namespace: LabNamespace, address: Address): number | undefined {
  const family = familyOf(address) === 4 ? "-4" : "-6";
  const [, mtu] = / mtu (\d+)/.exec(namespace.exec("ip", [family, "route", "get", formatAddress(address)])) ?? [];
  return mtu === undefined ? undefined : Number(mtu);
}

/** Deletes what a namespace has learned about paths. */
export function forgetMtus(namespace: LabNamespace): void {
  for (const family of ["-4", "-6"]) namespace.exec("ip", [family, "route", "flush", "cache"]);
}
