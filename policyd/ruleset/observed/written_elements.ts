import { NetlinkError } from "../../../kernel/netlink/error.ts";
import type { Change } from "../../../kernel/nftables/encode/change.ts";
import type { Element, SetDefinition, TableReference } from "../../../kernel/nftables/model/object.ts";
import type { Nftables } from "../../../kernel/nftables/socket.ts";

/** How often the elements are listed again when some have expired before their deletion. */
const ATTEMPTS = 5;

/** A set whose elements rules write, and the functions that read and change it. */
export interface WrittenSet {
  readonly kernel: Pick<Nftables, "elements">;
  readonly commit: (changes: readonly Change[]) => void;
  readonly table: TableReference;
  readonly set: SetDefinition;
}

/**
 * Deletes elements that rules have written.
 *
 * @returns the number of deleted elements
 * @throws DrawbridgeError when the kernel refuses; an element that has expired meanwhile is not an error
 */
export function deleteWritten(
  { kernel, commit, table, set }: WrittenSet,
  isMeant: (element: Element) => boolean,
): number {
  for (let attempt = 1; ; attempt++) {
    const meant = kernel.elements(table, set).filter(isMeant);
    if (meant.length === 0) return 0;
    try {
      commit([{ kind: "delete elements", table, set, elements: meant.map(({ key }) => ({ key })) }]);
      return meant.length;
    } catch (error) {
      const hasEnded = error instanceof NetlinkError && error.errnoName === "ENOENT";
      if (!hasEnded || attempt === ATTEMPTS) throw error;
    }
  }
}
