import { type Address, familyOf, formatAddress } from "../../kernel/ip/address.ts";
import type { Node } from "../model.ts";
import { usableOf } from "./node_addresses.ts";

/** A Node as it is used while its object names less than before. */
export interface KeptNode {
  readonly node: Node;
  /** The Node as the API has it. */
  readonly named: Node;
  /** The addresses that it does not name: InternalIPs and ExternalIPs. */
  readonly kept: readonly Address[];
  /** The report, with the way out. */
  readonly problem: string;
}

/**
 * Returns a Node with the addresses that it had before in a family of which it names none now, and with the family of
 * its first address still first; undefined where its object still names all of them. Cloud controllers that start again
 * report a Node without addresses, with one family or in another order for a while (kubernetes#68270). In such a family
 * it keeps its ExternalIPs as well.
 *
 * @param earlier the believed addresses
 * @param before the Node as it was used before
 * @param isTaken whether another Node names an address
 */
export function keptNode(
  named: Node,
  earlier: readonly Address[],
  before: Pick<Node, "addresses"> | undefined,
  isTaken: (address: Address) => boolean,
): KeptNode | undefined {
  const now = usableOf(named);
  const kept = earlier.filter(
    (address) => !now.some((one) => familyOf(one) === familyOf(address)) && !isTaken(address),
  );
  const [first] = earlier;
  const all = [...now, ...kept];
  const rank = (address: Address): number => Number(first === undefined || familyOf(address) !== familyOf(first));
  const isOrdered = all[0] === undefined || rank(all[0]) === Math.min(...all.map(rank));
  if (kept.length === 0 && isOrdered) return undefined;
  const external = (before?.addresses ?? []).filter(
    ({ type, address }) =>
      type === "ExternalIP" &&
      kept.some((one) => familyOf(one) === familyOf(address)) &&
      !named.addresses.some((one) => one.address === address) &&
      !isTaken(address),
  );
  const internal = kept.map((address) => ({ type: "InternalIP", address }) as const);
  const addresses = [...named.addresses, ...internal, ...external].sort((a, b) => rank(a.address) - rank(b.address));
  const what =
    kept.length === 0
      ? "names its InternalIPs in another order; the family that was first stays first until policyd restarts"
      : `names no InternalIP of IPv${kept.map(familyOf).join(" and IPv")} any more; ${kept.map(formatAddress).join(", ")} stays in use until it does`;
  return Object.freeze({
    node: { ...named, addresses },
    named,
    kept: [...internal, ...external].map(({ address }) => address),
    problem: `Node ${named.name}: ${what}`,
  });
}
