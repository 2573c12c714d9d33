import type { Address } from "../../../../kernel/ip/address.ts";
import type { JenkinsHash } from "../../../../kernel/nftables/model/expression.ts";
import type { Device, WalkedPacket } from "./packet.ts";
import type { Value } from "./value.ts";

/** The answers that rules get from the machine around them, and random numbers. */
export interface Surroundings {
  /** Returns the type that the routing table gives an address, by nft's name: "local", "unicast". */
  readonly fib: (address: Address) => string;
  /**
   * Returns a number below the modulus: a random one, or a hash of values. Any function will do as a hash as long as
   * the same values give the same number; `hash` holds all that is needed to compute the kernel's.
   */
  readonly choose: (modulus: number, hash?: HashInput) => number;
  /** Returns the time in milliseconds, for the timeouts of elements. */
  readonly now: () => number;
  /** Returns the interface by which the routing table sends a packet to this address. */
  readonly outDevice: (address: Address) => Device;
  /** Returns the node's address for a packet that leaves masqueraded, or is redirected to the node. */
  readonly ownAddress: (packet: WalkedPacket) => Address;
}

export interface HashInput {
  readonly expression: JenkinsHash;
  /** The values of its selectors. */
  readonly values: readonly Value[];
}
