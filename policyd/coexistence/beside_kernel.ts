import { type Family, familyOf, FAMILIES } from "../../kernel/ip/address.ts";
import type { ReceivedMessage, Request } from "../../kernel/netlink/message.ts";
import type { NetlinkSocket } from "../../kernel/netlink/socket.ts";
import { dumpAddresses, parseInterfaceAddress } from "../../kernel/route/interface_address.ts";
import { dumpLinks, type Link, parseLink } from "../../kernel/route/link.ts";
import {
  deleteProxyNeighbour,
  dumpProxyNeighbours,
  parseOwnProxy,
  type ProxyNeighbour,
  setProxyNeighbour,
} from "../../kernel/route/neighbour.ts";
import { deleteRoute, dumpRoutes, linkRoute, newRoute, parseRoute, type RouteSpec } from "../../kernel/route/route.ts";
import { findLink, openRouteSocket } from "../../kernel/route/socket.ts";
import type { FileCalls } from "../../kernel/syscall/file_calls.ts";
import type { Syscalls } from "../../kernel/syscall/syscalls.ts";
import type { Sysctl } from "../../kernel/sysctl.ts";
import { BESIDE_PRIORITY, isBeside } from "../routes/own_routes.ts";
import {
  type BesideChange,
  type BesideEntries,
  type BesideRoute,
  type NeighbouringBridge,
  neighbouringBridges,
} from "./neighbouring_bridges.ts";

/** Errors that mean the change is already made or the link is gone. */
const HARMLESS: readonly string[] = ["EEXIST", "ESRCH", "ENOENT", "ENODEV"];

/** The links, routes and proxy entries of this thread's network namespace, for bridges beside ours. */
export class BesideKernel {
  readonly #socket: NetlinkSocket;
  readonly #sysctl: Sysctl;
  readonly #own: string;

  /** @param own our bridge's name @throws SyscallError when refused a socket */
  constructor(syscalls: Syscalls & FileCalls, sysctl: Sysctl, own: string) {
    this.#socket = openRouteSocket(syscalls);
    this.#sysctl = sysctl;
    this.#own = own;
  }

  /** Returns all links. @throws DrawbridgeError when the kernel does not answer */
  links(): readonly Link[] {
    return this.#list(dumpLinks(), parseLink);
  }

  /** @throws DrawbridgeError when the kernel does not answer */
  bridges(): readonly NeighbouringBridge[] {
    return neighbouringBridges(this.links(), this.#list(dumpAddresses(), parseInterfaceAddress), this.#own);
  }

  /** Reads our entries. @throws DrawbridgeError when the kernel does not answer */
  read(): BesideEntries {
    const own = findLink(this.#socket, { name: this.#own })?.index;
    const routes: BesideRoute[] = [];
    const proxies: ProxyNeighbour[] = [];
    for (const family of this.#families()) {
      for (const route of this.#list(dumpRoutes(family), parseRoute)) {
        const { destination, outputInterface } = route;
        if (!isBeside(route) || destination === undefined) continue;
        routes.push({ destination, index: outputInterface === own ? undefined : outputInterface });
      }
      proxies.push(...this.#list(dumpProxyNeighbours(family), parseOwnProxy));
    }
    return { routes, proxies };
  }

  /** Applies changes. @returns the refusals, in words. @throws DrawbridgeError when the kernel does not answer */
  apply({ added, removed }: BesideChange, bridges: readonly NeighbouringBridge[]): readonly string[] {
    const own = findLink(this.#socket, { name: this.#own })?.index;
    const requests: Request[] = [
      ...removed.proxies.map((proxy) => deleteProxyNeighbour(proxy.index, proxy.address)),
      ...removed.routes.map((route) => deleteRoute(specOf(route, route.index))),
      // Without our bridge no pod could be reached.
      ...added.routes
        .filter(({ index }) => index !== undefined || own !== undefined)
        .map((route) => newRoute(specOf(route, route.index ?? own))),
      ...added.proxies.map((proxy) => setProxyNeighbour(proxy.index, proxy.address)),
    ];
    const refused = this.#socket
      .batch(requests)
      .flatMap(({ error }) => (error === undefined || HARMLESS.includes(error.errnoName) ? [] : [error.message]));
    const answering = new Set(
      added.proxies.filter(({ address }) => familyOf(address) === 6).map((proxy) => proxy.index),
    );
    for (const bridge of bridges) if (answering.has(bridge.index)) this.#answerSolicitations(bridge.name);
    return refused;
  }

  /** Enables the bridge's `proxy_ndp`: unlike in IPv4, proxy entries have no effect without it (ndisc_recv_ns). */
  #answerSolicitations(bridge: string): void {
    const key = `net/ipv6/conf/${bridge}/proxy_ndp`;
    if (this.#sysctl.read(key) === "0") this.#sysctl.write(key, "1");
  }

  close(): void {
    this.#socket.close();
  }

  #families(): readonly Family[] {
    return this.#sysctl.read("net/ipv6/conf/all/disable_ipv6") === undefined ? [4] : FAMILIES;
  }

  #list<T>(request: Request, parse: (message: ReceivedMessage) => T | undefined): readonly T[] {
    return this.#socket.dump(request).flatMap((message) => parse(message) ?? []);
  }
}

function specOf({ destination }: BesideRoute, outputInterface: number | undefined): RouteSpec {
  return { ...linkRoute(destination, outputInterface), priority: BESIDE_PRIORITY };
}
