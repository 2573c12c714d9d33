import type { Address } from "../../../../kernel/ip/address.ts";
import type { JenkinsHash } from "../../../../kernel/nftables/expression.ts";
import type { Device, WalkedPacket } from "./packet.ts";
import type { Value } from "./value.ts";

/** What rules ask of the machine around them, and chance. */
export interface Surroundings {
  /** The type the routing table gives an address, by nft's name: "local", "unicast". */
  readonly fib: (address: Address) => string;
  /**
   * A number below the modulus: a random one, or a hash of values. A hash may be chosen at will as long as the same values
   * give the same number; who wants the kernel's has all it is made of.
   */
  readonly choose: (modulus: number, hash?: HashInput) => number;
  /** Milliseconds, for the timeouts of elements. */
  readonly now: () => number;
  /** The interface the routing table sends a packet to this address by. */
  readonly outDevice: (address: Address) => Device;
  /** The address the node takes for a packet that leaves masqueraded, or is redirected to the node. */
  readonly ownAddress: (packet: WalkedPacket) => Address;
}

export interface HashInput {
  readonly expression: JenkinsHash;
  /** The values of its selectors. */
  readonly values: readonly Value[];
}
