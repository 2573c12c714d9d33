import type { Address } from "../../kernel/ip/address.ts";
import { familyOf } from "../../kernel/ip/address.ts";
import type { Cidr } from "../../kernel/ip/cidr.ts";
import { cidrFamily, hostCidr, parseCidr } from "../../kernel/ip/cidr.ts";
import { joinedRanges } from "../../kernel/ip/ranges.ts";
import { familyWords } from "../../kernel/nftables/family_words.ts";
import { drop, inSet, not, rule } from "../../kernel/nftables/statement.ts";
import type { Claim } from "../dataplane/claim.ts";
import type { TablePart } from "./table_part.ts";
import { INET_TABLE } from "./table_part.ts";

const FAMILIES = [4, 6] as const;

/** Sets by these names and the family's number. */
const SETS = {
  /** The addresses of this node's pods. */
  pods: "leaving_pods",
  /** Where they are seen with their own address. */
  kept: "kept_networks",
  /** Everything, and no packet is looked for in it before it could be found in {@link SETS.kept}. */
  ready: "kept_networks_ready",
} as const;

const EVERYTHING = ["0.0.0.0/0", "::/0"].map((text) => parseCidr(text));
/** Link-local addresses and multicast: what has them is no farther than the link, or many. */
const NEVER_HIDDEN = ["169.254.0.0/16", "224.0.0.0/4", "fe80::/10", "ff00::/8"].map((text) => parseCidr(text));

/** Where the cluster is. */
export interface ClusterNetworks {
  /** Of all nodes. */
  readonly podCidrs: readonly Cidr[];
  /** Of all nodes. */
  readonly nodeAddresses: readonly Address[];
  /** What else knows the way to pods, by the configuration. */
  readonly further: readonly Cidr[];
}

/**
 * The part of the inet table by which pods leave the cluster with the node's address, since nobody out there knows the way
 * back to theirs (POD-19). Fully random ports: many pods behind one address collide less often.
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
    chains: [
      {
        name: "masquerade_cluster",
        base: { type: "nat", hook: "postrouting", priority: 100, policy: "accept" },
        rules: FAMILIES.flatMap((family) => {
          const { source, destination } = familyWords[family];
          const isLeaving = inSet(source, `${SETS.pods}${family}`);
          return [
            rule(isLeaving, not(inSet(source, `${SETS.ready}${family}`)), drop),
            rule(
              isLeaving,
              not(inSet(destination, `${SETS.kept}${family}`)),
              not(inSet(destination, `${SETS.pods}${family}`)),
              { kind: "masquerade", isFullyRandom: true },
            ),
          ];
        }),
      },
    ],
  };
}

/** What a pod of this node contributes. */
export function leavingPodElements(addresses: readonly Address[]): readonly Claim[] {
  return addresses.map((address) => ({
    table: INET_TABLE,
    set: `${SETS.pods}${familyOf(address)}`,
    element: { key: [address] },
  }));
}

/**
 * Where pods keep their own address: in the cluster, at link-local addresses and at multicast's; everywhere in a family of
 * which no pod network is known, as then nobody can tell what is outside.
 */
export function keptNetworkElements({ podCidrs, nodeAddresses, further }: ClusterNetworks): readonly Claim[] {
  const networks = [...podCidrs, ...further];
  const kept = [...networks, ...nodeAddresses.map((address) => hostCidr(address)), ...NEVER_HIDDEN];
  return FAMILIES.flatMap((family) => {
    const isKnown = networks.some((network) => cidrFamily(network) === family);
    const claims = (set: string, of: readonly Cidr[]): readonly Claim[] =>
      joinedRanges(of, family).map((range) => ({
        table: INET_TABLE,
        set: `${set}${family}`,
        element: { key: [range] },
      }));
    return [...claims(SETS.kept, isKnown ? kept : EVERYTHING), ...claims(SETS.ready, EVERYTHING)];
  });
}
