import type { AttachmentRecord } from "../../../attachment/attachment.ts";
import { type Address, familyOf, FAMILIES } from "../../../kernel/ip/address.ts";
import { familyWords } from "../../../kernel/nftables/model/family_words.ts";
import { dropping, equals, inPrefix, inSet, not } from "../../../kernel/nftables/model/statement.ts";
import { LINK_LOCAL } from "../../../kernel/ip/special.ts";
import type { DesiredElement } from "../../ruleset/desired/desired_element.ts";
import { INET_TABLE, type TablePart } from "../../ruleset/table_part.ts";
import { DropReason } from "./drop_reasons.ts";

/** The set of the addresses of the bridge's pods; the digit of the family follows. */
const ATTACHED = "attached";

/**
 * Returns the part of the inet table that drops packets from an address of one of the bridge's pods that arrive by
 * another link (GUARD-16).
 *
 * The guard (guard.ts) binds the pods' addresses to their ports, but only for frames from these ports. The sender of
 * any other packet is known only by its address: a neighbour of the node, a pod on another bridge, or a packet out of a
 * tunnel could speak as a pod of this node, and policies and Services would take it for that pod. Of IPv4 the kernel's
 * reverse path filter drops such packets where it is strict; IPv6 has none.
 *
 * The rules come before connection tracking, so that such a packet does not become part of the pod's connections
 * either. A packet that the node sends to itself has come from nobody else.
 *
 * Nor does anybody speak to a pod as its node, whose packets policies always allow (GUARD-20). Of IPv4 the kernel drops
 * such packets unless `accept_local` is set. The rule is about forwarded packets, since further links of a node may lead
 * back to it. Link-local addresses are the same on every link.
 */
export function attachedAddresses(bridge: string): TablePart {
  const fromElsewhere = [not(equals("iifname", bridge)), not(equals("iifname", "lo"))];
  return {
    sets: FAMILIES.map((family) => ({ name: `${ATTACHED}${family}`, key: [familyWords[family].type] })),
    chains: [],
    shared: {
      before_reassembly: FAMILIES.map((family) =>
        dropping(DropReason.ELSEWHERE, ...fromElsewhere, inSet(familyWords[family].source, `${ATTACHED}${family}`)),
      ),
      filter_forward: FAMILIES.map((family) =>
        dropping(
          DropReason.OWN,
          not(equals("iifname", bridge)),
          inSet(familyWords[family].destination, `${ATTACHED}${family}`),
          ...(family === 6 ? [not(inPrefix("ip6 saddr", LINK_LOCAL[6]))] : []),
          equals("fib saddr type", "local"),
        ),
      ),
    },
  };
}

/** Returns the elements of an attachment; none on another bridge, since the pod's packets come from there. */
export function elementsOnBridge(
  { addresses, bridge }: Pick<AttachmentRecord, "addresses" | "bridge">,
  ofDaemon: string,
): readonly DesiredElement[] {
  return bridge === ofDaemon ? attachedElements(addresses.map(({ address }) => address)) : [];
}

/** Returns the elements of a pod of the bridge. */
export function attachedElements(addresses: readonly Address[]): readonly DesiredElement[] {
  return addresses.map((address) => ({
    table: INET_TABLE,
    set: `${ATTACHED}${familyOf(address)}`,
    element: { key: [address] },
  }));
}
