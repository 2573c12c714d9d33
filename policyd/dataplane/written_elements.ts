import { NetlinkError } from "../../kernel/netlink/error.ts";
import type { Change } from "../../kernel/nftables/change.ts";
import type { Element, SetDefinition, TableReference } from "../../kernel/nftables/object.ts";
import type { Nftables } from "../../kernel/nftables/socket.ts";

/** How often elements that end by themselves are looked for anew. */
const ATTEMPTS = 5;

/** A set whose elements rules write, with what changes it. */
export interface WrittenSet {
  readonly kernel: Pick<Nftables, "elements">;
  readonly commit: (changes: readonly Change[]) => void;
  readonly table: TableReference;
  readonly set: SetDefinition;
}

/**
 * Deletes elements that rules have written.
 *
 * @returns how many there were
 * @throws DrawbridgeError when the kernel refuses; that one of them has ended by itself meanwhile is no refusal
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
