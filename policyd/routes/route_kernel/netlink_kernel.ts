import { attempt, DrawbridgeError, problemOf } from "../../../kernel/error.ts";
import {
  type EthtoolSocket,
  isFeatureActive,
  openEthtoolSocket,
  switchFeatureOff,
  TX_CHECKSUM_OFFLOAD,
} from "../../../kernel/ethtool.ts";
import { FAMILIES, type Family } from "../../../kernel/ip/address.ts";
import { NetlinkError } from "../../../kernel/netlink/error.ts";
import type { ReceivedMessage, Request } from "../../../kernel/netlink/message.ts";
import type { NetlinkSocket } from "../../../kernel/netlink/socket.ts";
import {
  deleteForwardingEntry,
  dumpForwarding,
  parseForwardingEntry,
  setForwardingEntry,
} from "../../../kernel/route/forwarding_entry.ts";
import {
  deleteAddress,
  dumpAddresses,
  newAddress,
  parseInterfaceAddress,
} from "../../../kernel/route/interface_address.ts";
import { changeLink, deleteLink, dumpLinks, getLink, parseLink } from "../../../kernel/route/link.ts";
import { deleteNeighbour, dumpNeighbours, parseNeighbour, setNeighbour } from "../../../kernel/route/neighbour.ts";
import {
  deleteRoute,
  dumpRoutes,
  type FoundRoute,
  lookUpRoute,
  MAIN_TABLE,
  newRoute,
  parseRouteOfAnyTable,
  parseRouteOrDiscard,
  replaceRoute,
  type Route,
  ROUTE_PROTOCOL,
  type RouteSpec,
} from "../../../kernel/route/route.ts";
import { deleteRule, dumpRules, newRule, parseOtherRule, parseRule } from "../../../kernel/route/rule.ts";
import { openRouteSocket } from "../../../kernel/route/socket.ts";
import { createVxlan, parseVxlan } from "../../../kernel/route/vxlan.ts";
import { Errno } from "../../../kernel/syscall/errno.ts";
import type { FileCalls } from "../../../kernel/syscall/file_calls.ts";
import type { Syscalls } from "../../../kernel/syscall/syscalls.ts";
import { procSysctl, type Sysctl } from "../../../kernel/sysctl.ts";
import { atOnce, type Slices } from "../../lib/sliced_work.ts";
import type { KernelState, Lookup, OwnRoute, RouteKernel, Step, TunnelNeighbour, TunnelState } from "./kernel_state.ts";
import { PODS_TABLE, ROUTE_PRIORITY } from "../own_routes.ts";
import { TUNNEL } from "../tunnel.ts";

/** Attempts to read a list that changes while it is read. */
const LIST_ATTEMPTS = 10;
/** The first attempts read in slices. A slow read is more likely to be interrupted, so the later ones do not. */
const SLICED_ATTEMPTS = 2;

const STRICT = 1;
const LOOSE = 2;

/** Errors of a deletion whose target is already gone. */
const GONE: readonly string[] = ["ESRCH", "ENOENT", "ENODEV", "EADDRNOTAVAIL"];

/** The links and routes of the calling thread's network namespace. */
export class NetlinkRouteKernel implements RouteKernel {
  readonly #socket: NetlinkSocket;
  readonly #sysctl: Sysctl;
  /** Undefined where the kernel has no ethtool netlink: then checksum offload stays on, which is reported. */
  readonly #ethtool: EthtoolSocket | undefined;

  /** @throws SyscallError when the kernel refuses a socket */
  constructor(syscalls: Syscalls & FileCalls) {
    this.#socket = openRouteSocket(syscalls);
    this.#sysctl = procSysctl(syscalls);
    this.#ethtool = tryOpenEthtool(syscalls);
  }

  *read(): Slices<KernelState> {
    const disabled = this.#sysctl.read("net/ipv6/conf/all/disable_ipv6");
    const families: readonly Family[] = disabled === undefined ? [4] : FAMILIES;
    const links = yield* this.#list(dumpLinks(), parseLink);
    const routes: Route[] = [];
    const discarding: Route[] = [];
    for (const family of families) {
      for (const found of yield* this.#list(dumpRoutes(family), parsePodRoute)) {
        (found.discards ? discarding : routes).push(found.route);
      }
    }
    const tunnel = links.find(({ name }) => name === TUNNEL.name);
    const vrfs = new Map(links.flatMap(({ index, name, kind }) => (kind === "vrf" ? [[index, name]] : [])));
    const found = families.flatMap((family) => this.#socket.dump(dumpRules(family)));
    const addresses = yield* this.#list(dumpAddresses(), parseInterfaceAddress);
    const rules = found.map(parseRule).filter((rule) => rule !== undefined);
    return {
      links: links.map(({ index, name, kind, mtu, up, hasLinkLayer, master }) => {
        const vrf = vrfs.get(index) ?? vrfs.get(master ?? 0);
        return { index, name, isBridge: kind === "bridge", mtu, up, hasLinkLayer, vrf };
      }),
      addresses: addresses.filter(({ tentative, duplicateDetected }) => !tentative && !duplicateDetected),
      unused: addresses.filter(({ tentative, duplicateDetected }) => tentative || duplicateDetected),
      routes,
      discarding,
      rules,
      otherRules: found.map(parseOtherRule).filter((rule) => rule !== undefined),
      hasIpv6: disabled === "0",
      tunnel: tunnel === undefined ? undefined : yield* this.#readTunnel(tunnel.index, families),
    };
  }

  /**
   * Reads a list, again if the kernel marks it as interrupted.
   *
   * @param parse returns undefined for an entry to omit
   */
  *#list<T>(request: Request, parse: (message: ReceivedMessage) => T | undefined): Slices<readonly T[]> {
    for (let tried = 0; tried < LIST_ATTEMPTS; tried++) {
      const list = this.#listOnce(request, parse);
      const found = tried < SLICED_ATTEMPTS ? yield* list : atOnce(list);
      if (found !== undefined) return found;
    }
    throw new NetlinkError(request.operation, Errno.EINTR, `changed during each of ${LIST_ATTEMPTS} lists`);
  }

  /** @returns undefined when the kernel marked the list as interrupted */
  *#listOnce<T>(
    request: Request,
    parse: (message: ReceivedMessage) => T | undefined,
  ): Slices<readonly T[] | undefined> {
    const found: T[] = [];
    let failure: { readonly error: unknown } | undefined;
    const datagrams = this.#socket.datagrams(request);
    let step = datagrams.next();
    for (; step.done !== true; step = datagrams.next()) {
      try {
        // The rest, which may take seconds, is read in slices all the same, or the socket could not list anything else.
        if (failure === undefined) found.push(...step.value.map(parse).filter((value) => value !== undefined));
      } catch (error) {
        failure = { error };
      }
      yield;
    }
    if (failure !== undefined) throw failure.error;
    return step.value ? found : undefined;
  }

  /** @returns undefined when the device has disappeared */
  *#readTunnel(index: number, families: readonly Family[]): Slices<TunnelState | undefined> {
    const [reply] = this.#socket.batch([getLink({ index })]);
    if (reply?.error !== undefined && !GONE.includes(reply.error.errnoName)) throw reply.error;
    const message = reply?.messages[0];
    if (message === undefined) return undefined;
    const { name, mtu, up, hasLinkLayer, mac } = parseLink(message);
    const parameters = parseVxlan(message);
    const isVxlan = parameters !== undefined;
    const neighbours: TunnelNeighbour[] = [];
    for (const family of families) {
      neighbours.push(...(yield* this.#list(dumpNeighbours(family, index), (one) => permanentOf(one, index))));
    }
    return {
      index,
      name,
      mtu,
      up,
      hasLinkLayer,
      mac,
      parameters,
      checksumOffload: isVxlan ? this.#checksumOffload(index) : undefined,
      hasStrictSourceCheck: this.#sourceCheck() === STRICT,
      isWithoutIpv6: this.#sysctl.read(`net/ipv6/conf/${TUNNEL.name}/disable_ipv6`) === "1",
      forwarding: isVxlan ? yield* this.#list(dumpForwarding(index), parseForwardingEntry) : [],
      neighbours,
    };
  }

  #checksumOffload(index: number): boolean | undefined {
    if (this.#ethtool === undefined) return undefined;
    try {
      return isFeatureActive(this.#ethtool, index, TX_CHECKSUM_OFFLOAD);
    } catch (error) {
      if (error instanceof NetlinkError && (error.errnoName === "ENODEV" || error.errnoName === "EOPNOTSUPP")) {
        return undefined;
      }
      throw error;
    }
  }

  /** Returns the rp_filter value in effect: the larger of `all` and the device's own (IN_DEV_MAXCONF). */
  #sourceCheck(): number {
    const values = ["all", TUNNEL.name].map((name) => Number(this.#sysctl.read(`net/ipv4/conf/${name}/rp_filter`)));
    return Math.max(...values);
  }

  apply(steps: readonly Step[]): readonly DrawbridgeError[] {
    const errors: DrawbridgeError[] = [];
    let requests: Request[] = [];
    const send = (): void => {
      for (const { error, request } of this.#socket.batch(requests)) {
        if (error === undefined) continue;
        const isGone = request.operation.startsWith("delete") && GONE.includes(error.errnoName);
        // An address that exists and was not listed is waiting for duplicate address detection.
        const isWaiting = request.operation.startsWith("add address") && error.errnoName === "EEXIST";
        if (!isGone && !isWaiting) errors.push(error);
      }
      requests = [];
    };
    for (const step of steps) {
      const made = requestsOf(step);
      if (made !== undefined) {
        requests.push(...made);
        continue;
      }
      send();
      errors.push(...this.#set(step));
    }
    send();
    return errors;
  }

  /** Carries out a step that is not an rtnetlink request. A setting without effect shows in the next read. */
  #set(step: Step): readonly DrawbridgeError[] {
    try {
      switch (step.type) {
        case "create-tunnel":
          this.#create(step);
          return [];
        case "switch-checksum-offload-off":
          if (this.#ethtool !== undefined) {
            this.#ethtool.socket.request(switchFeatureOff(this.#ethtool, step.index, TX_CHECKSUM_OFFLOAD));
          }
          return [];
        case "loosen-source-check":
          this.#sysctl.write(`net/ipv4/conf/${TUNNEL.name}/rp_filter`, String(LOOSE));
          return [];
        case "switch-ipv6-on":
          this.#sysctl.write(`net/ipv6/conf/${TUNNEL.name}/disable_ipv6`, "0");
          return [];
        default:
          return [];
      }
    } catch (error) {
      if (error instanceof DrawbridgeError) return [error];
      throw error;
    }
  }

  /** Creates the device, down. It gets no automatic link-local address and ignores router advertisements. */
  #create({ tunnel }: Extract<Step, { type: "create-tunnel" }>): void {
    const { local, mac, mtu } = tunnel;
    this.#socket.request(createVxlan({ ...TUNNEL, local, mac, mtu }));
    // A kernel without IPv6 refuses this. Where IPv6 is only off, it may be switched on later.
    this.#socket.batch([changeLink({ name: TUNNEL.name }, { linkLocalAddress: false })]);
    // Where it cannot be written: a node that forwards, as all of ours do, accepts none by default either.
    problemOf(() => this.#sysctl.write(`net/ipv6/conf/${TUNNEL.name}/accept_ra`, "0"));
  }

  lookUp(packets: readonly Lookup[]): readonly (number | undefined)[] {
    const replies = this.#socket.batch(packets.map((packet) => lookUpRoute(packet.destination, packet)));
    return replies.map(({ messages: [message] }) => (message && parseRouteOfAnyTable(message)?.outputInterface) ?? 0);
  }

  close(): void {
    this.#socket.close();
    this.#ethtool?.socket.close();
  }
}

/** Returns the rtnetlink requests of a step; undefined for a step that needs something else. */
function requestsOf(step: Step): readonly Request[] | undefined {
  switch (step.type) {
    case "delete-tunnel":
      return [deleteLink({ index: step.index })];
    case "change-tunnel":
      return [changeLink({ index: step.index }, { mac: step.mac, mtu: step.mtu, up: true })];
    case "add-tunnel-address":
      return [newAddress(step.index, step.address)];
    case "delete-address":
      return [deleteAddress(step.index, step.address)];
    case "set-forwarding":
      return [setForwardingEntry(step.index, step.entry)];
    case "delete-forwarding":
      return [deleteForwardingEntry(step.index, step.entry)];
    case "set-neighbour":
      return [setNeighbour(step.index, step.address, step.mac)];
    case "delete-neighbour":
      return [deleteNeighbour(step.index, step.address)];
    case "add-route":
      return [newRoute(specOf(step.route))];
    case "replace-route":
      return [replaceRoute(specOf(step.route))];
    case "delete-route":
      return [deleteRoute(specOf(step.route))];
    case "add-rule":
      return [newRule(step.rule)];
    case "delete-rule":
      return [deleteRule(step.rule)];
    default:
      return undefined;
  }
}

function specOf({ outputInterface, ...route }: OwnRoute): RouteSpec {
  return {
    ...route,
    outputInterface: outputInterface === 0 ? undefined : outputInterface,
    protocol: ROUTE_PROTOCOL,
    priority: ROUTE_PRIORITY,
  };
}

function parsePodRoute(message: ReceivedMessage): FoundRoute | undefined {
  const found = parseRouteOrDiscard(message);
  const isOfPods = found?.route.table === PODS_TABLE && !found.discards;
  return isOfPods || found?.route.table === MAIN_TABLE ? found : undefined;
}

function permanentOf(message: ReceivedMessage, index: number): TunnelNeighbour | undefined {
  const entry = parseNeighbour(message);
  return entry?.permanent === true && entry.index === index ? { address: entry.address, mac: entry.mac } : undefined;
}

function tryOpenEthtool(syscalls: Syscalls): EthtoolSocket | undefined {
  return attempt<EthtoolSocket | undefined>(
    () => openEthtoolSocket(syscalls),
    () => undefined,
  );
}
