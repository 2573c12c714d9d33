import type { Address } from "../../../kernel/ip/address.ts";
import { addressFromValue } from "../../../kernel/ip/address.ts";
import type { Element, SetDefinition } from "../../../kernel/nftables/object.ts";
import { tableKey } from "../../dataplane/claim.ts";
import type { Commit } from "../../dataplane/commit.ts";
import { POLICY_TABLE } from "../compile/policy_table.ts";

/** Flows from or to these addresses, as policies see them; "all" also where it is not known which. */
export type AffectedAddresses = ReadonlySet<Address> | "all";

/** What depends on the verdicts of policies. */
export interface PolicyFollower {
  /** All policies are known, and the rules may be written when this settles. It never fails. */
  prepare?(): Promise<void>;
  /** The kernel has all rules that follow from what was told by now. */
  rulesInForce?(): void;
  /** These flows may be judged otherwise than before by the rules that are in force. */
  verdictsChanged(addresses: AffectedAddresses): void;
  /** What is wrong now, for the status. */
  problems?(): readonly string[];
  stop(): void;
}

/**
 * The flows whose verdict may be another one by a commit. Sets and maps of policies that change begin their keys with an
 * address of a flow's: that of the local pod whose profile is another now, or of whoever entered or left a group.
 */
export function affectedBy({ isWhole, differences }: Commit): AffectedAddresses {
  if (isWhole) return "all";
  const addresses = new Set<Address>();
  for (const { table, set, deleted, added } of differences) {
    if (tableKey(table) !== tableKey(POLICY_TABLE)) continue;
    for (const element of [...deleted, ...added]) {
      const address = addressOf(set, element);
      if (address !== undefined) addresses.add(address);
    }
  }
  return addresses;
}

/** Undefined for the sets of connections, and for ranges: those are as old as the profile that asks for them. */
function addressOf({ key: [type] }: SetDefinition, { key: [first] }: Element): Address | undefined {
  if (type === "ipv4_addr" && typeof first === "number") return addressFromValue(4, BigInt(first));
  return type === "ipv6_addr" && typeof first === "bigint" ? addressFromValue(6, first) : undefined;
}
