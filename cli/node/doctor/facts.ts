import type { listAttachments } from "../../../attachment/attachment_reader.ts";
import type { DesiredBridge } from "../../../cni/node_state/desired.ts";
import type { ObservedBridge } from "../../../cni/node_state/observed.ts";
import type { PolicydStatus } from "../../../attachment/policyd_messages.ts";
import type { RangeSet } from "../../../ipam/range.ts";
import type { Reservation } from "../../../ipam/reservation.ts";
import type { Address } from "../../../kernel/ip/address.ts";
import type { Cidr } from "../../../kernel/ip/cidr.ts";
import type { InterfaceAddress } from "../../../kernel/route/interface_address.ts";
import type { RulesetOverview } from "../../../kernel/nftables/decode/overview.ts";
import type { Route } from "../../../kernel/route/route.ts";
import type { Check as CheckOf, MachineFacts, Seen } from "../../../policyd/problems/check.ts";
import type { NodePlace } from "../place.ts";
import type { Probed } from "./probe/loss.ts";

/** A direct route of ours to the pods of another node, and whether that node answered over it. */
export interface DirectRoute {
  readonly destination: Cidr;
  readonly gateway: Address;
  /** The other node's address in its pod network. */
  readonly to: Address;
  readonly isAnswered: boolean;
}

/** An address of this node, by the index of its link. */
export type NodeAddress = Pick<InterfaceAddress, "index" | "address">;

/** The parts of the daemon's configuration that checks depend on. */
export interface Expectation {
  /** Tables that the daemon should have loaded, with their base chains. */
  readonly tables: readonly {
    readonly family: string;
    readonly name: string;
    readonly hooks: readonly { readonly chain: string; readonly hook: string; readonly priority: number }[];
  }[];
  readonly markBits: number;
  /** The directory with the executable of the daemon's release. */
  readonly sourceDirectory: string;
  /** The configuration that comes before ours on purpose (`cniPrimary`). */
  readonly primary: string | undefined;
  /** False where kube-proxy stays. */
  readonly servesServices: boolean;
  /** The mebibytes of each family that the daemon gives to fragments; 0 where it changes nothing. */
  readonly fragmentMemory: number;
}

/** The readable content of our network configuration. */
export type NetworkFile =
  | { readonly kind: "missing" }
  | { readonly kind: "broken"; readonly reason: string }
  | {
      readonly kind: "network";
      readonly name: string;
      readonly types: readonly string[];
      readonly ranges: readonly RangeSet[];
      /** Bytes; undefined leaves the MTU to the kernel. */
      readonly mtu: number | undefined;
    };

/** A program in the directory of plugins. */
export interface PluginFile {
  readonly name: string;
  readonly isFile: boolean;
  readonly isExecutable: boolean;
  /** Whether it equals the file of this release; undefined where that is not available. */
  readonly isAsShipped: boolean | undefined;
  /** The plugin's answer to VERSION; undefined for those that are not asked. */
  readonly version: { readonly answer: string } | { readonly failure: string } | undefined;
}

/** The facts about a node, as data. Reading them changes nothing, except for a probe. */
export interface NodeFacts extends MachineFacts {
  readonly place: NodePlace;
  readonly expected: Expectation;
  /** The outcome of a probe; undefined where none was asked for. */
  readonly probed: Seen<Probed | undefined>;
  readonly addresses: Seen<readonly NodeAddress[]>;
  readonly routes: Seen<readonly Route[]>;
  /** Some of our direct routes to other nodes' pods. */
  readonly directRoutes: Seen<readonly DirectRoute[]>;
  /** Routes of the main table whose packets are discarded. */
  readonly discarding: Seen<readonly Route[]>;
  readonly ruleset: Seen<RulesetOverview>;
  /** Tables of the older iptables, whose rules netlink does not show. */
  readonly legacyTables: readonly string[];
  /** Ports that TCP sockets of the namespace listen on. */
  readonly tcpPorts: ReadonlySet<number>;
  readonly daemon: Seen<{ readonly status: PolicydStatus } | { readonly away: string }>;
  /** Names of files that runtimes take for network configurations. */
  readonly configurations: Seen<readonly string[]>;
  /** Whether the first of them, where it is not ours, attaches pods by ours, as Multus' does. */
  readonly firstLeadsToOurs: Seen<boolean>;
  readonly network: Seen<NetworkFile>;
  readonly plugins: Seen<readonly PluginFile[]>;
  readonly records: Seen<ReturnType<typeof listAttachments>>;
  /** The desired and the observed state of each bridge with pods. */
  readonly nodeState: Seen<readonly { readonly desired: DesiredBridge; readonly observed: ObservedBridge }[]>;
  /** The names of bridges with pods that do not have the filter of checksums (GUARD-18). */
  readonly unfilteredBridges: Seen<readonly string[]>;
  readonly reservations: Seen<{
    readonly directory: string;
    readonly reservations: readonly Reservation[];
    /** Files that are neither reservations nor other files of the store. */
    readonly strange: readonly string[];
  }>;
}

/** One check of the doctor. */
export type Check = CheckOf<NodeFacts>;
