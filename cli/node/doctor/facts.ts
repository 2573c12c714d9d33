import type { AttachmentRecord, UnreadableAttachment } from "../../../ipam/attachment.ts";
import type { DesiredBridge } from "../../../cni/node_state/desired.ts";
import type { ObservedBridge } from "../../../cni/node_state/observed.ts";
import type { PolicydStatus } from "../../../ipam/policyd_messages.ts";
import type { RangeSet } from "../../../ipam/range.ts";
import type { Reservation } from "../../../ipam/reservation.ts";
import type { Address } from "../../../kernel/ip/address.ts";
import type { Cidr } from "../../../kernel/ip/cidr.ts";
import type { ForeignTable } from "../../../kernel/nftables/foreign/foreign_ruleset.ts";
import type { RulesetOverview } from "../../../kernel/nftables/overview.ts";
import type { Trial } from "../../../kernel/nftables/trial.ts";
import type { Link } from "../../../kernel/route/link.ts";
import type { Route } from "../../../kernel/route/route.ts";
import type { VxlanParameters } from "../../../kernel/route/vxlan.ts";
import type { NodePlace } from "../place.ts";

/** A fact, or why it could not be seen. */
export type Seen<T> =
  | { readonly value: T }
  /** `needsRoot` where root would have seen it. */
  | { readonly unseen: string; readonly needsRoot?: boolean };

/** A link with what of it matters here. */
export interface NodeLink extends Link {
  readonly vxlan: VxlanParameters | undefined;
}

/** A direct route of ours to the pods of another node, over which that node was asked for an answer. */
export interface DirectRoute {
  readonly destination: Cidr;
  readonly gateway: Address;
  /** The other node's address among those of its pods. */
  readonly to: Address;
  readonly isAnswered: boolean;
}

export interface NodeAddress {
  readonly link: string;
  readonly address: Cidr;
}

/** What of the daemon's configuration a check depends on. */
export interface Expectation {
  /** Tables the daemon should have loaded, with their base chains. */
  readonly tables: readonly {
    readonly family: string;
    readonly name: string;
    readonly hooks: readonly { readonly chain: string; readonly hook: string; readonly priority: number }[];
  }[];
  readonly markBits: number;
  /** Where the executables that belong to the daemon are. */
  readonly sourceDirectory: string;
  /** The configuration that is to come before ours (`cniPrimary`). */
  readonly primary: string | undefined;
  /** False where kube-proxy is to stay. */
  readonly servesServices: boolean;
}

/** Our network configuration as far as it can be read. */
export type NetworkFile =
  | { readonly kind: "missing" }
  | { readonly kind: "broken"; readonly reason: string }
  | {
      readonly kind: "network";
      readonly name: string;
      readonly bridge: string | undefined;
      readonly types: readonly string[];
      readonly ranges: readonly RangeSet[];
      /** Bytes; undefined leaves it to the kernel. */
      readonly mtu: number | undefined;
    };

/** A program of the directory of plugins. */
export interface PluginFile {
  readonly name: string;
  readonly isFile: boolean;
  readonly isExecutable: boolean;
  /** Whether it is as the file that belongs to this release; undefined where that is not at hand. */
  readonly isAsShipped: boolean | undefined;
  /** What the plugin answers to VERSION; undefined for those that are not asked. */
  readonly version: { readonly answer: string } | { readonly failure: string } | undefined;
}

/** What is known about a node, as a value. Nothing in it was changed by looking. */
export interface NodeFacts {
  readonly place: NodePlace;
  readonly expected: Expectation;
  /** Milliseconds since 1970. */
  readonly now: number;
  readonly bootId: Seen<string>;
  readonly release: Seen<string>;
  readonly trials: Seen<readonly Trial[]>;
  readonly linkKinds: Seen<readonly { readonly kind: string; readonly isKnown: boolean }[]>;
  readonly hasPacketLog: boolean;
  /** Settings by key, as far as the kernel has them. */
  readonly settings: ReadonlyMap<string, string>;
  readonly links: Seen<readonly NodeLink[]>;
  readonly addresses: Seen<readonly NodeAddress[]>;
  readonly routes: Seen<readonly Route[]>;
  /** Some of our direct routes to other nodes' pods. */
  readonly directRoutes: Seen<readonly DirectRoute[]>;
  /** Routes of the main table whose packets are discarded. */
  readonly discarding: Seen<readonly Route[]>;
  readonly ruleset: Seen<RulesetOverview>;
  /** The rules that other programs have put into nftables. */
  readonly foreignTables: Seen<readonly ForeignTable[]>;
  /** Tables of the older iptables, whose rules netlink does not show. */
  readonly legacyTables: readonly string[];
  /** Their rules, as its own program prints them. */
  readonly legacyRules: Seen<readonly ForeignTable[]>;
  /** Ports that UDP sockets of the namespace listen on, tunnels of the kernel among them. */
  readonly udpPorts: ReadonlySet<number>;
  /** Ports that TCP sockets of the namespace listen on. */
  readonly tcpPorts: ReadonlySet<number>;
  readonly daemon: Seen<{ readonly status: PolicydStatus } | { readonly away: string }>;
  /** Names in the directory of network configurations that runtimes take for such. */
  readonly configurations: Seen<readonly string[]>;
  /** Whether the first of them, where that is not ours, attaches pods by ours, as Multus' does. */
  readonly firstLeadsToOurs: Seen<boolean>;
  readonly network: Seen<NetworkFile>;
  readonly plugins: Seen<readonly PluginFile[]>;
  readonly records: Seen<{
    readonly records: readonly AttachmentRecord[];
    readonly unreadable: readonly UnreadableAttachment[];
  }>;
  /** The desired and the observed state of each bridge with pods. */
  readonly nodeState: Seen<readonly { readonly desired: DesiredBridge; readonly observed: ObservedBridge }[]>;
  readonly reservations: Seen<{
    readonly directory: string;
    readonly reservations: readonly Reservation[];
    /** Files that are neither reservations nor what the store keeps besides. */
    readonly strange: readonly string[];
  }>;
}
