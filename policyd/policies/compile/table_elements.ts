import { type Address, familyOf } from "../../../kernel/ip/address.ts";
import type { AddressRange } from "../../../kernel/ip/ranges.ts";
import type { DesiredElement } from "../../ruleset/desired/desired_element.ts";
import { CROWDING_SETS } from "../connection_limit/limit_rules.ts";
import { POLICY_SETS, POLICY_TABLE } from "./policy_table.ts";
import type { Direction } from "./profile.ts";

/** Returns the elements of addresses with verdicts in both directions ({@link verdictElement}). Others pass nothing. */
export function knownElements(addresses: readonly Address[]): readonly DesiredElement[] {
  return addresses.map((address) => claim(`${POLICY_SETS.known}${familyOf(address)}`, [address]));
}

/** Returns the element for a range of addresses of this node's pods. */
export function ownRangeElement(range: AddressRange): DesiredElement {
  return claim(`${POLICY_SETS.own}${familyOf(range.first)}`, [range]);
}

/** Returns the pairs of a local pod with itself (POL-06). @param addresses all of one pod */
export function selfElements(addresses: readonly Address[]): readonly DesiredElement[] {
  return addresses.flatMap((first) =>
    addresses
      .filter((second) => familyOf(first) === familyOf(second))
      .map((second) => claim(`${POLICY_SETS.self}${familyOf(first)}`, [first, second])),
  );
}

/**
 * Returns the verdict of a local pod's address in a direction: a profile's chain, or that everything is allowed.
 *
 * @param chain undefined if no policy applies
 */
export function verdictElement(direction: Direction, address: Address, chain: string | undefined): DesiredElement {
  return {
    table: POLICY_TABLE,
    set: `${POLICY_SETS[direction]}${familyOf(address)}`,
    element: { key: [address], data: chain === undefined ? { kind: "return" } : { kind: "goto", chain } },
  };
}

/** Returns the element by which no new connections of a local pod begin. */
export function crowdedElement(address: Address): DesiredElement {
  return claim(`${CROWDING_SETS.crowded}${familyOf(address)}`, [address]);
}

/** Returns the element for a connection, by the kernel's number of it, in the set of cut ones or of unlabelled ones. */
export function connectionElement(set: "cut" | "settled", id: number): DesiredElement {
  return claim(POLICY_SETS[set], [id]);
}

function claim(set: string, key: DesiredElement["element"]["key"]): DesiredElement {
  return { table: POLICY_TABLE, set, element: { key } };
}
