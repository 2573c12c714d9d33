import { hiding } from "../../cni/masquerade.ts";
import type { Address } from "../../kernel/ip/address.ts";
import { familyOf } from "../../kernel/ip/address.ts";
import { parseCidr } from "../../kernel/ip/cidr.ts";
import type { AddressRange } from "../../kernel/ip/ranges.ts";
import { rangeOf } from "../../kernel/ip/ranges.ts";
import { familyWords } from "../../kernel/nftables/family_words.ts";
import type { Chain } from "../../kernel/nftables/object.ts";
import { accept, drop, goTo, inSet, not, rule } from "../../kernel/nftables/statement.ts";
import type { Claim } from "../dataplane/claim.ts";
import { masqueradeInShare } from "./masquerade_ports/share_rules.ts";
import type { TablePart } from "./table_part.ts";
import { INET_TABLE } from "./table_part.ts";

const FAMILIES = [4, 6] as const;

/** Sets by these names and the family's number. */
const SETS = {
  /** The addresses of this node's pods. */
  pods: "leaving_pods",
  /** Where they are seen with their own address. */
  kept: "kept_networks",
  /** Everything, once {@link SETS.kept} is filled. A packet that is not found there is looked up here. */
  ready: "kept_networks_ready",
} as const;

const EVERYTHING = ["0.0.0.0/0", "::/0"].map((text) => rangeOf(parseCidr(text)));

/**
 * The part of the inet table by which pods leave the cluster with the node's address, since nobody out there knows the way
 * back to theirs (POD-19), with a port of their own share (POD-25), and with none of the ports of its services ({@link hiding}).
 *
 * It looks at what a packet's destination is behind NAT, so a pod that calls a Service is hidden from no endpoint in the
 * cluster; what Services hide by their mark is hidden already.
 *
 * When the table is written as a whole, packets meet the new rules some milliseconds before they find anything in new sets of
 * ranges: those are filled at the end of the kernel's commit, one after the other (nf_tables_api.c, nft_set_commit_update). A
 * connection that was hidden by mistake would stay so; one whose first packet is lost is tried again. Hence the set that is
 * filled behind the one that counts.
 */
export function clusterMasquerade(): TablePart {
  return {
    sets: FAMILIES.flatMap((family) => [
      { name: `${SETS.pods}${family}`, key: [familyWords[family].type] },
      { name: `${SETS.kept}${family}`, key: [familyWords[family].type], isInterval: true },
      { name: `${SETS.ready}${family}`, key: [familyWords[family].type], isInterval: true },
    ]),
    chains: FAMILIES.map((family): Chain => {
      const { source, destination } = familyWords[family];
      return {
        name: `masquerade_cluster${family}`,
        rules: [
          // The cheap lookups come first: most packets of a pod stay on the node or in the cluster.
          rule(inSet(destination, `${SETS.pods}${family}`), accept),
          rule(inSet(destination, `${SETS.kept}${family}`), accept),
          rule(not(inSet(source, `${SETS.ready}${family}`)), drop),
          // Both sets may have been filled since the packet was looked for in the first one.
          rule(inSet(destination, `${SETS.kept}${family}`), accept),
          rule(...masqueradeInShare(family)),
          ...hiding(),
        ],
      };
    }),
    shared: {
      nat_postrouting: FAMILIES.map((family) =>
        rule(inSet(familyWords[family].source, `${SETS.pods}${family}`), goTo(`masquerade_cluster${family}`)),
      ),
    },
  };
}

/** Returns the elements of a pod of this node. */
export function leavingPodElements(addresses: readonly Address[]): readonly Claim[] {
  return addresses.map((address) => ({
    table: INET_TABLE,
    set: `${SETS.pods}${familyOf(address)}`,
    element: { key: [address] },
  }));
}

/** A range where pods keep their own address. */
export function keptRangeElement(range: AddressRange): Claim {
  return rangeElement(SETS.kept, range);
}

/** With these the sets count ({@link clusterMasquerade}). */
export function readyElements(): readonly Claim[] {
  return EVERYTHING.map((range) => rangeElement(SETS.ready, range));
}

function rangeElement(set: string, range: AddressRange): Claim {
  return { table: INET_TABLE, set: `${set}${familyOf(range.first)}`, element: { key: [range] } };
}
