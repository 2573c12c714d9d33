import { type Address, familyOf } from "../../../../kernel/ip/address.ts";
import { keyText } from "../../../../kernel/nftables/encode/element.ts";
import type { ContainerPort } from "../../../../objects/model.ts";
import type { DesiredElement } from "../../../ruleset/desired/desired_element.ts";
import { memberKeys, type MemberSet, type MemberSource, portsNamed } from "../../compile/sets/member_set.ts";
import { POLICY_TABLE } from "../../compile/policy_table.ts";
import type { Identity } from "../index/group_index.ts";
import type { ActiveSet } from "./active_set.ts";

/** A pod or a node as a member of sets. */
export interface Member {
  readonly identity: Identity;
  /** Without duplicates. */
  readonly addresses: readonly Address[];
  /** Empty for a node. */
  readonly ports: readonly ContainerPort[];
  /** The others that have its addresses as much as it does, undefined for one that no selector selects (POL-95). */
  readonly shared: ReadonlyMap<Address, readonly (Member | undefined)[]>;
}

/** The state from which a member's elements were computed, one for all sets that it is in. */
export interface Claimed {
  readonly sets: readonly SourcesOfSet[];
  readonly addresses: readonly Address[];
  readonly ports: readonly ContainerPort[];
  readonly isShared: boolean;
}

/** The sources of a set that apply to the members of an identity. */
export interface SourcesOfSet {
  readonly active: ActiveSet;
  readonly sources: readonly MemberSource[];
}

const NOBODY: readonly never[] = [];

/** Returns the elements that sources of a set give a member. */
export function elementsOf(
  { definitions, isDenying }: MemberSet,
  sources: readonly MemberSource[],
  { addresses, ports, shared }: Member,
): readonly DesiredElement[] {
  const claims = new Map<string, DesiredElement>();
  for (const address of addresses) {
    const set = definitions[familyOf(address)].name;
    const others = isDenying ? NOBODY : (shared.get(address) ?? NOBODY);
    for (const source of sources) {
      for (const key of memberKeys(source, address, ports)) {
        if (others.length > 0 && !others.every((other) => isGiven(source, address, other, key))) continue;
        claims.set(keyText(key), { table: POLICY_TABLE, set, element: { key } });
      }
    }
  }
  return [...claims.values()];
}

/** Returns whether a source gives another member with the address the same key. */
function isGiven(
  source: MemberSource,
  address: Address,
  other: Member | undefined,
  key: Parameters<typeof keyText>[0],
): boolean {
  if (other === undefined || (source.group !== undefined && !other.identity.groups.has(source.group.key))) return false;
  return memberKeys(source, address, other.ports).some((one) => keyText(one) === keyText(key));
}

/** Returns how many elements a member has in a set. An element that several sources give counts for each. */
export function sizeOf(
  sources: readonly MemberSource[],
  member: Pick<Member, "addresses" | "ports"> | undefined,
): number {
  if (member === undefined) return 0;
  let each = 0;
  for (const { ports } of sources) {
    if (ports.type === "none") each++;
    else if (ports.type === "numbers") each += ports.ports.length;
    else each += portsNamed(member.ports, ports).length;
  }
  return each * member.addresses.length;
}

/** Returns whether a member has the same elements by the same sources as before. */
export function isSame(before: Claimed, { addresses, ports, shared }: Member, hasNames: boolean): boolean {
  if (before.isShared || shared.size > 0) return false;
  if (before.addresses.length !== addresses.length || (hasNames && before.ports !== ports)) return false;
  return before.addresses.every((address) => addresses.includes(address));
}
