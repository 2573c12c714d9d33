import type { Address } from "../../../kernel/ip/address.ts";
import { addressFromValue } from "../../../kernel/ip/address.ts";
import type { Element, SetDefinition } from "../../../kernel/nftables/object.ts";
import { tableKey } from "../../dataplane/claim.ts";
import type { Commit } from "../../dataplane/commit.ts";
import type { SetDifference } from "../../dataplane/difference.ts";
import { POLICY_SETS, POLICY_TABLE } from "../compile/policy_table.ts";

/** Flows from or to these addresses, as policies see them; "all" also where it is not known which. */
export type AffectedAddresses = ReadonlySet<Address> | "all";

/**
 * The flows whose verdict may be another one by a commit. Sets and maps of policies that change begin their keys with an
 * address of a flow's: that of the local pod whose profile is another now, or of whoever entered or left a group.
 */
export function affectedBy({ isWhole, differences }: Commit): AffectedAddresses {
  if (isWhole) return "all";
  const addresses = new Set<Address>();
  for (const { table, set, deleted, added } of differences) {
    if (tableKey(table) !== tableKey(POLICY_TABLE)) continue;
    collect(set, deleted, addresses);
    collect(set, added, addresses);
  }
  return addresses;
}

/** What a commit makes of addresses that are known, of all others than which nothing passes (POL-09). */
export interface KnownChanges {
  /** They came into force or ceased to be, or both. */
  readonly changed: ReadonlySet<Address>;
  /** They came, and all else that was done about them was adding, too: one set of rules holds for them from the first packet. */
  readonly entered: ReadonlySet<Address>;
  /** They ceased to be, and all else was deleting. */
  readonly left: ReadonlySet<Address>;
}

/** A commit may be several of the kernel's transactions, so that an address can come and change by one. */
export function knownChanges(differences: readonly SetDifference[]): KnownChanges {
  const all = { added: new Set<Address>(), deleted: new Set<Address>() };
  const known = { added: new Set<Address>(), deleted: new Set<Address>() };
  for (const { table, set, deleted, added } of differences) {
    if (tableKey(table) !== tableKey(POLICY_TABLE)) continue;
    for (const into of KNOWN_SETS.has(set.name) ? [all, known] : [all]) {
      collect(set, deleted, into.deleted);
      collect(set, added, into.added);
    }
  }
  return {
    changed: new Set([...known.added, ...known.deleted]),
    entered: new Set([...known.added].filter((address) => !all.deleted.has(address))),
    left: new Set([...known.deleted].filter((address) => !all.added.has(address))),
  };
}

const KNOWN_SETS: ReadonlySet<string> = new Set([`${POLICY_SETS.known}4`, `${POLICY_SETS.known}6`]);

/** None of the sets of connections, and of ranges: those are as old as the profile that asks for them. */
function collect({ key: [type] }: SetDefinition, elements: readonly Element[], addresses: Set<Address>): void {
  for (const { key } of elements) {
    const address = addressOf(type, key);
    if (address !== undefined) addresses.add(address);
  }
}

function addressOf(type: SetDefinition["key"][number] | undefined, [first]: Element["key"]): Address | undefined {
  if (type === "ipv4_addr" && typeof first === "number") return addressFromValue(4, BigInt(first));
  return type === "ipv6_addr" && typeof first === "bigint" ? addressFromValue(6, first) : undefined;
}
