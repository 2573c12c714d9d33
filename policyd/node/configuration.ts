import type { PolicyOptions } from "../policy/compile/options.ts";
import type { Encapsulation } from "../routes/mtu.ts";
import type { ServiceRules } from "../services/compile/context.ts";

/** How the names of pods' host interfaces begin (cni/names.ts). */
export const HOST_INTERFACE_PREFIX = "dbv";

/** The two bits of packets' marks that are ours; all others belong to whoever set them. */
export interface MarkBits {
  /** Leaves with the node's address. */
  readonly masquerade: number;
  /** Translated by a NAT rule, so that it may go from one pod's port to another's. */
  readonly bridged: number;
}

/** What a node's tables depend on; the daemon's configuration has the fields under the same names. */
export interface NodeConfiguration {
  /** The bridge whose ports the pods' host interfaces are. */
  readonly bridge: string;
  readonly markBits: MarkBits;
  /** The tables are owned by this process (kernel >= 6.9). */
  readonly tableOwner: boolean;
  /** Pods leave the cluster with the node's address. */
  readonly masquerade?: boolean;
  /** Mebibytes of each family for fragments that wait to be put together; 0 when absent: then pods are not limited. */
  readonly fragmentMemory?: number;
  /** TCP ports of the daemon's own, to which a source may connect only a few times a second; no ports when absent. */
  readonly askedPorts?: readonly number[];
  /** How packets get to pods of other nodes; "never" when absent. */
  readonly encapsulation?: Encapsulation;
  /** How Services are served; undefined where another program does it. */
  readonly services?: ServiceRules | undefined;
  /** How policies are enforced; undefined where another program does it. */
  readonly policyOptions?: Omit<PolicyOptions, "bridge"> | undefined;
  /** {@link HOST_INTERFACE_PREFIX} when absent. Ports whose names begin otherwise are others' and left alone. */
  readonly hostInterfacePrefix?: string;
}
