import type { DrawbridgeError } from "../../kernel/error.ts";
import type { Address, Family } from "../../kernel/ip/address.ts";
import type { Cidr } from "../../kernel/ip/cidr.ts";
import type { MacAddress } from "../../kernel/ip/mac.ts";
import type { ForwardingEntry } from "../../kernel/route/forwarding_entry.ts";
import type { InterfaceAddress } from "../../kernel/route/interface_address.ts";
import type { Route } from "../../kernel/route/route.ts";
import type { RoutingRule } from "../../kernel/route/rule.ts";
import type { VxlanParameters } from "../../kernel/route/vxlan.ts";
import type { Slices } from "../slices.ts";

/** A link, as far as routes depend on it. */
export interface NodeLink {
  readonly index: number;
  readonly name: string;
  readonly mtu: number;
  readonly up: boolean;
  /** Whether a gateway on it is reached by a MAC address; where not, the link looks at the packets' own addresses. */
  readonly hasLinkLayer: boolean;
}

/** A permanent neighbour entry of the tunnel. */
export interface TunnelNeighbour {
  readonly address: Address;
  readonly mac: MacAddress | undefined;
}

/** The link that has the tunnel's name. */
export interface TunnelState extends NodeLink {
  readonly mac: MacAddress | undefined;
  /** undefined for a link that is no VXLAN device, and so not ours. */
  readonly parameters: VxlanParameters | undefined;
  /** Whether it leaves checksums to others; undefined where the kernel cannot tell. */
  readonly checksumOffload: boolean | undefined;
  /** Whether packets from addresses that are routed elsewhere are dropped (rp_filter 1, in effect). */
  readonly hasStrictSourceCheck: boolean;
  /** Whether IPv6 is off on it alone. */
  readonly isWithoutIpv6: boolean;
  readonly forwarding: readonly ForwardingEntry[];
  /** Permanent ones. */
  readonly neighbours: readonly TunnelNeighbour[];
}

/** What the kernel has, as far as it is ours or ours depends on it. */
export interface KernelState {
  readonly links: readonly NodeLink[];
  /** Those that answer: none that is tentative. */
  readonly addresses: readonly InterfaceAddress[];
  /** Unicast routes of the main table and the table for pods, of anybody. */
  readonly routes: readonly Route[];
  /** Routes of the main table, of anybody, that discard packets. */
  readonly discarding?: readonly Route[];
  /** Ours. */
  readonly rules: readonly RoutingRule[];
  /** Whether IPv6 is on (net.ipv6.conf.all.disable_ipv6). */
  readonly hasIpv6: boolean;
  readonly tunnel: TunnelState | undefined;
}

/** A route of ours; its protocol and its metric are what {@link isOurs} says. */
export interface OwnRoute {
  readonly table: number;
  readonly family: Family;
  readonly destination: Cidr;
  readonly gateway: Address | undefined;
  readonly outputInterface: number;
  readonly source: Address | undefined;
  readonly onLink: boolean;
  /** Bytes; undefined for what the device takes. */
  readonly mtu?: number | undefined;
}

/** The tunnel as it is to be. */
export interface Tunnel {
  readonly local: Address;
  readonly mac: MacAddress;
  readonly mtu: number;
  /** The node's own, which are what is hidden behind leaves with, and a link-local one for IPv6 inside. */
  readonly addresses: readonly Cidr[];
}

/** One change of the kernel. */
export type Step =
  | { readonly type: "create-tunnel"; readonly tunnel: Tunnel }
  | { readonly type: "delete-tunnel"; readonly index: number }
  | { readonly type: "change-tunnel"; readonly index: number; readonly mac: MacAddress; readonly mtu: number }
  | { readonly type: "switch-checksum-offload-off"; readonly index: number }
  | { readonly type: "loosen-source-check" | "switch-ipv6-on" }
  | { readonly type: "add-tunnel-address" | "delete-tunnel-address"; readonly index: number; readonly address: Cidr }
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

/** The kernel's links and routes, as {@link ./routes_dataplane.ts} needs them. */
export interface RouteKernel {
  /**
   * Reads all of it, in slices since there may be tens of thousands of routes. Nothing else may be asked of the kernel before
   * the end.
   *
   * @throws DrawbridgeError when the kernel does not answer
   */
  read(): Slices<KernelState>;
  /**
   * Carries out steps in order, each of them whatever became of those before.
   *
   * @returns what was refused, apart from deletions of what is gone already
   * @throws DrawbridgeError when the kernel does not answer
   */
  apply(steps: readonly Step[]): readonly DrawbridgeError[];
  close(): void;
}
