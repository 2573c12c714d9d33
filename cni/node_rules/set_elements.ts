import { type Cidr, lastAddress, networkAddress } from "../../kernel/ip/cidr.ts";
import type { Interval } from "../../kernel/nftables/model/expression.ts";
import type { Element, SetDefinition } from "../../kernel/nftables/model/object.ts";

/** Elements of one set or map. */
export interface SetElements {
  readonly set: SetDefinition;
  readonly elements: readonly Element[];
}

/** Returns all addresses of a prefix, as a field of an element's key. */
export function intervalOf(cidr: Cidr): Interval {
  return { first: networkAddress(cidr), last: lastAddress(cidr) };
}
