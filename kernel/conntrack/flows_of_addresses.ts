import { type Address, familyOf } from "../ip/address.ts";
import type { ConntrackFilter } from "./filter.ts";
import type { FlowTuples } from "./flow_tuples.ts";

/**
 * Returns filters for lists that include all flows from and to the addresses. The kernel cannot filter by IPv6
 * addresses (filter.ts).
 */
export function flowQuestions(addresses: ReadonlySet<Address>): readonly ConntrackFilter[] {
  const v4 = [...addresses].filter((address) => familyOf(address) === 4);
  return [
    ...v4.flatMap((source) => [{ original: { source } }, { reply: { source } }]),
    ...(v4.length < addresses.size ? [{ family: 6 } as const] : []),
  ];
}

/** Tells whether one of the addresses began or answers a flow, before or after NAT. */
export function isFlowOf({ original, reply }: FlowTuples, addresses: ReadonlySet<Address>): boolean {
  return addresses.has(original.source) || addresses.has(reply.source);
}
