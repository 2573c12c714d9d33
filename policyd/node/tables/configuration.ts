import type { Family } from "../../../kernel/ip/address.ts";
import type { PolicyOptions } from "../../policies/compile/options.ts";
import type { Encapsulation } from "../../configuration/schema.ts";
import type { Reassembly } from "./fragment_share.ts";
import type { ServiceRules } from "../../services/rules/context.ts";

/** The two bits of packet marks that are ours; all other bits belong to whoever set them. */
export interface MarkBits {
  /** Marks a packet that leaves with the node's address. */
  readonly masquerade: number;
  /** Marks a packet translated by NAT, so that it may be bridged from one pod's port to another's. */
  readonly bridged: number;
}

/** The configuration that a node's tables depend on; the daemon's configuration has the fields under the same names. */
export interface NodeConfiguration {
  /** The bridge that pods' host interfaces are ports of. */
  readonly bridge: string;
  readonly markBits: MarkBits;
  /** Whether this process owns the tables (kernel >= 6.9). */
  readonly tableOwner: boolean;
  /** Whether pods leave the cluster with the node's address. */
  readonly masquerade?: boolean;
  /** Mebibytes for each family that hold fragments until reassembly; 0 when absent, which leaves pods without a limit.
   */
  readonly fragmentMemory?: number;
  /** The memory and the time that the kernel has for fragments; all of {@link fragmentMemory} when absent. */
  readonly reassembly?: Readonly<Record<Family, Reassembly>>;
  /** The daemon's own TCP ports, to which one source may connect only a few times a second; none when absent. */
  readonly askedPorts?: readonly number[];
  /** How packets get to pods of other nodes; "never" when absent. */
  readonly encapsulation?: Encapsulation;
  /** How Services are served; undefined where another program does it. */
  readonly services?: ServiceRules | undefined;
  /** How policies are enforced; undefined where another program does it. */
  readonly policyOptions?: Omit<PolicyOptions, "bridge"> | undefined;
}
