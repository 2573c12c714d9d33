import { hiding } from "../../../cni/node_rules/masquerade.ts";
import { type Address, familyOf, FAMILIES } from "../../../kernel/ip/address.ts";
import { bothFamilies, EVERY_ADDRESS } from "../../../kernel/ip/special.ts";
import { type AddressRange, rangeOf } from "../../../kernel/ip/ranges.ts";
import { familyWords } from "../../../kernel/nftables/model/family_words.ts";
import type { Chain } from "../../../kernel/nftables/model/object.ts";
import { accept, drop, goTo, inSet, not, rule } from "../../../kernel/nftables/model/statement.ts";
import type { DesiredElement } from "../../ruleset/desired/desired_element.ts";
import { masqueradeInShare } from "./share_rules.ts";
import { INET_TABLE, type TablePart } from "../../ruleset/table_part.ts";

/** The set names, without the digit of the family. */
const SETS = {
  /** The addresses of this node's pods. */
  pods: "leaving_pods",
  /** The destinations that see pods' own addresses. */
  kept: "kept_networks",
  /** Matches every address once {@link SETS.kept} is filled. Packets that match no element there are looked up here. */
  ready: "kept_networks_ready",
} as const;

const EVERYTHING = bothFamilies(EVERY_ADDRESS).map(rangeOf);

/**
 * Returns the part of the inet table that gives pods' packets the node's address when they leave the cluster, since
 * nothing outside knows a route back to pods (POD-19). The source port is of the pod's own share (POD-25), and none of
 * the node's services ({@link hiding}).
 *
 * The rules see the destination after DNAT, so a pod that calls a Service keeps its address at every endpoint in the
 * cluster. Packets that Services masquerade by their mark are translated before these rules.
 *
 * When the whole table is written, packets meet the new rules some milliseconds before lookups in new interval sets
 * find anything: the kernel fills those at the end of the commit, one after the other (nf_tables_api.c,
 * nft_set_commit_update). A connection masqueraded by mistake would stay so, while a lost first packet is sent again.
 * So the rules drop a packet until the `ready` set, which is filled after the `kept` set, has elements.
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
          // Both sets may have been filled since this packet was looked up in the first one.
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

/** Returns the elements that masquerade a pod of this node. */
export function leavingPodElements(addresses: readonly Address[]): readonly DesiredElement[] {
  return addresses.map((address) => ({
    table: INET_TABLE,
    set: `${SETS.pods}${familyOf(address)}`,
    element: { key: [address] },
  }));
}

/** Returns the element for a range where pods keep their own address. */
export function keptRangeElement(range: AddressRange): DesiredElement {
  return rangeElement(SETS.kept, range);
}

/** Returns the elements that put the sets into effect ({@link clusterMasquerade}). */
export function readyElements(): readonly DesiredElement[] {
  return EVERYTHING.map((range) => rangeElement(SETS.ready, range));
}

function rangeElement(set: string, range: AddressRange): DesiredElement {
  return { table: INET_TABLE, set: `${set}${familyOf(range.first)}`, element: { key: [range] } };
}
