import { type Address, addressFromValue } from "../../../../kernel/ip/address.ts";
import type { Element, SetDefinition } from "../../../../kernel/nftables/model/object.ts";
import { tableKey } from "../../../ruleset/desired/desired_element.ts";
import type { Commit } from "../../../ruleset/difference.ts";
import { POLICY_SETS, POLICY_TABLE } from "../../compile/policy_table.ts";

/** The addresses from or to which flows are affected, as policies see them; "all" also when they are not known. */
export type AffectedAddresses = ReadonlySet<Address> | "all";

/**
 * The effect of a commit on addresses. The keys of sets and maps of policies that change begin with an address: that of
 * a local pod with a new profile, or of a member that entered or left a group. Nothing passes from or to an address that
 * is not known (POL-09).
 */
export interface CommitEffect {
  /** The verdicts of flows from or to them may have changed. */
  readonly affected: ReadonlySet<Address>;
  /** They became known, or ceased to be known, or both. */
  readonly changed: ReadonlySet<Address>;
  /** They became known, and nothing about them was deleted: one set of rules applies from the first packet. */
  readonly entered: ReadonlySet<Address>;
  /** They ceased to be known, and nothing about them was added. */
  readonly left: ReadonlySet<Address>;
}

/**
 * Returns the effect of a commit, which may be several transactions: an address may become known and change. Undefined
 * if the table was missing: then every address is affected.
 */
export function effectOf({ isWhole, differences }: Pick<Commit, "isWhole" | "differences">): CommitEffect | undefined {
  if (isWhole) return undefined;
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
    affected: new Set([...all.deleted, ...all.added]),
    changed: new Set([...known.added, ...known.deleted]),
    entered: new Set([...known.added].filter((address) => !all.deleted.has(address))),
    left: new Set([...known.deleted].filter((address) => !all.added.has(address))),
  };
}

const KNOWN_SETS: ReadonlySet<string> = new Set([`${POLICY_SETS.known}4`, `${POLICY_SETS.known}6`]);

/** Skips sets of connections and sets of ranges: these are as old as the profile that uses them. */
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
