import type { DrawbridgeError } from "../../../kernel/error.ts";
import type { Address, Family } from "../../../kernel/ip/address.ts";
import type { Cidr } from "../../../kernel/ip/cidr.ts";
import type { MacAddress } from "../../../kernel/ip/mac.ts";
import type { ForwardingEntry } from "../../../kernel/route/forwarding_entry.ts";
import type { InterfaceAddress } from "../../../kernel/route/interface_address.ts";
import type { LookedUp, Route } from "../../../kernel/route/route.ts";
import type { OtherRule, RoutingRule } from "../../../kernel/route/rule.ts";
import type { VxlanParameters } from "../../../kernel/route/vxlan.ts";
import type { Slices } from "../../lib/sliced_work.ts";

/** A link, as far as routes depend on it. */
export interface NodeLink {
  readonly index: number;
  readonly name: string;
  readonly mtu: number;
  readonly up: boolean;
  /** Whether the link resolves a gateway to a MAC address; without that it forwards by the packets' own addresses. */
  readonly hasLinkLayer: boolean;
  readonly isBridge?: boolean;
  /** The name of the VRF that the link is in, or is. */
  readonly vrf?: string | undefined;
}

/** A permanent neighbour entry of the tunnel. */
export interface TunnelNeighbour {
  readonly address: Address;
  readonly mac: MacAddress | undefined;
}

/** The link that has the tunnel's name. */
export interface TunnelState extends NodeLink {
  readonly mac: MacAddress | undefined;
  /** Undefined for a link that is not a VXLAN device, and so not ours. */
  readonly parameters: VxlanParameters | undefined;
  /** Whether checksum offload is on; undefined where the kernel cannot report it. */
  readonly checksumOffload: boolean | undefined;
  /** Whether packets from addresses that are routed elsewhere are dropped (rp_filter 1, in effect). */
  readonly hasStrictSourceCheck: boolean;
  /** Whether IPv6 is off on this device (its own `disable_ipv6`). */
  readonly isWithoutIpv6: boolean;
  readonly forwarding: readonly ForwardingEntry[];
  /** Only permanent entries. */
  readonly neighbours: readonly TunnelNeighbour[];
}

/** The observed state of the kernel: what is ours, and what our state depends on. */
export interface KernelState {
  readonly links: readonly NodeLink[];
  /** Addresses in use: none that is tentative or a duplicate. */
  readonly addresses: readonly InterfaceAddress[];
  /** Addresses that are not in use: those that the kernel still looks for on other hosts, and those it has found there. */
  readonly unused?: readonly InterfaceAddress[];
  /** Unicast routes of the main table and of the table for pods, of all programs. */
  readonly routes: readonly Route[];
  /** Routes of the main table that discard packets, of all programs. */
  readonly discarding?: readonly Route[];
  /** Only our own rules. */
  readonly rules: readonly RoutingRule[];
  /** The rules of other programs; where there are some, routes of any table count. */
  readonly otherRules?: readonly OtherRule[];
  /** Whether IPv6 is on (net.ipv6.conf.all.disable_ipv6). */
  readonly hasIpv6: boolean;
  readonly tunnel: TunnelState | undefined;
  /** The links by which packets from the node's own address leave to other nodes, where that address is on none. */
  readonly outward?: readonly number[];
}

/** A packet whose way is asked for. */
export type Lookup = LookedUp & { readonly destination: Address };

/** A route of ours; its protocol and metric are those that `isOurs` (numbers.ts) checks. */
export interface OwnRoute {
  readonly table: number;
  readonly family: Family;
  readonly destination: Cidr;
  readonly gateway: Address | undefined;
  readonly outputInterface: number;
  readonly source: Address | undefined;
  readonly onLink: boolean;
  /** In bytes; undefined for the device's MTU. */
  readonly mtu?: number | undefined;
}

/** The desired tunnel. */
export interface Tunnel {
  readonly local: Address;
  readonly mac: MacAddress;
  readonly mtu: number;
  /** The node's own addresses, which masqueraded packets have as source, and a link-local address for IPv6 inside. */
  readonly addresses: readonly Cidr[];
}

/** One change of the kernel. */
export type Step =
  | { readonly type: "create-tunnel"; readonly tunnel: Tunnel }
  | { readonly type: "delete-tunnel"; readonly index: number }
  | { readonly type: "change-tunnel"; readonly index: number; readonly mac: MacAddress; readonly mtu: number }
  | { readonly type: "switch-checksum-offload-off"; readonly index: number }
  | { readonly type: "loosen-source-check" | "switch-ipv6-on" }
  | { readonly type: "add-tunnel-address" | "delete-address"; readonly index: number; readonly address: Cidr }
  | {
      readonly type: "set-forwarding" | "delete-forwarding";
      readonly index: number;
      readonly entry: ForwardingEntry;
    }
  | {
      readonly type: "set-neighbour";
      readonly index: number;
      readonly address: Address;
      readonly mac: MacAddress;
    }
  | { readonly type: "delete-neighbour"; readonly index: number; readonly address: Address }
  | { readonly type: "add-route" | "replace-route" | "delete-route"; readonly route: OwnRoute }
  | { readonly type: "add-rule" | "delete-rule"; readonly rule: RoutingRule };

/** Access to the kernel's links and routes, as route_reconciler.ts needs it. */
export interface RouteKernel {
  /**
   * Reads the whole state, in slices since there may be tens of thousands of routes. Call no other method meanwhile.
   *
   * @throws DrawbridgeError when the kernel does not answer
   */
  read(): Slices<KernelState>;
  /**
   * Carries out all steps in order, also after one that fails.
   *
   * @returns what the kernel refused, except for deletions of what is already gone
   * @throws DrawbridgeError when the kernel does not answer
   */
  apply(steps: readonly Step[]): readonly DrawbridgeError[];
  /** Returns the index of the link by which each packet leaves; 0 for one that the kernel would not send. */
  lookUp(packets: readonly Lookup[]): readonly (number | undefined)[];
  close(): void;
}
