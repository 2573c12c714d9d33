import type { Address } from "../kernel/ip/address.ts";
import type { Cidr } from "../kernel/ip/cidr.ts";
import type { MacAddress } from "../kernel/ip/mac.ts";
import type { Transport } from "../kernel/ip/protocol.ts";

/** A published port: packets to `hostPort` of the node (of `hostIp`, if given) go to `containerPort`. */
export interface PortMapping {
  readonly hostPort: number;
  readonly containerPort: number;
  readonly protocol: Transport;
  readonly hostIp?: Address;
}

/** The bandwidth capability: rates in bits per second, bursts in bits; 0 means no limit. */
export interface Bandwidth {
  readonly ingressRate: number;
  readonly ingressBurst: number;
  readonly egressRate: number;
  readonly egressBurst: number;
}

/** The parts of a network's configuration that policyd needs for a pod's rules. */
export interface RecordedRules {
  /** Service addresses: a port of all the node's addresses does not include these. */
  readonly serviceCidrs: readonly Cidr[];
  /** Destinations to which the pod keeps its own address under ipMasq. */
  readonly nonMasqueradeCidrs: readonly Cidr[];
}

/** The node's side of an attachment as its ADD made it, beside names and addresses: the state the node must retain. */
export interface RecordedHost {
  readonly bridgeMac: MacAddress;
  /** The bridge's MTU in bytes. */
  readonly mtu: number;
  /** The bridge's addresses whose subnets lead to the pod. */
  readonly bridgeAddresses: readonly Cidr[];
  /** The pod's addresses that need a route of their own. */
  readonly routes: readonly Cidr[];
  readonly hairpin: boolean;
  /** Whether packets bypass the bridge where they can. */
  readonly bypass: boolean;
  /** The pod has requested its MAC address, so it does not replace an address that another pod has. */
  readonly isMacRequested: boolean;
}

/** The attachment record of one pod interface: everything that DEL, GC, CHECK, the audit and policyd need. */
export interface AttachmentRecord {
  readonly version: 1;
  /** `/proc/sys/kernel/random/boot_id` at the time of writing: nothing in a record of another boot still exists. */
  readonly bootId: string;
  readonly network: string;
  /** The directory with the reservations: DEL uses it even if the configuration has changed since. */
  readonly dataDir: string;
  readonly bridge: string;
  readonly containerId: string;
  readonly ifname: string;
  /** The pod's network namespace; `inode` as decimal text, since it may exceed 2^53. */
  readonly netns: { readonly path: string; readonly inode: string };
  readonly pod?: { readonly namespace: string; readonly name: string; readonly uid: string };
  /** The pod's addresses as they are set on its interface. */
  readonly addresses: readonly Cidr[];
  readonly mac: MacAddress;
  readonly hostInterface: string;
  readonly hostMac: MacAddress;
  readonly portMappings: readonly PortMapping[];
  /** Packets of the pod leave with the node's address. */
  readonly ipMasq?: boolean;
  /** Packets of the pod with another MAC address are dropped. */
  readonly macspoofchk?: boolean;
  readonly bandwidth?: Bandwidth;
  /** Present if policyd maintains the pod's rules; the plugin then has none in tables of its own. */
  readonly policyd?: RecordedRules;
  readonly host: RecordedHost;
}
