import type { Address } from "../../../kernel/ip/address.ts";
import { familyOf, formatAddress } from "../../../kernel/ip/address.ts";
import { familyWords } from "../../../kernel/nftables/family_words.ts";
import type { SetDefinition } from "../../../kernel/nftables/object.ts";
import type { Match, Rule } from "../../../kernel/nftables/statement.ts";
import { anyFlag, dropping, equals, inSet } from "../../../kernel/nftables/statement.ts";
import type { Claim } from "../../dataplane/claim.ts";
import type { Ruleset } from "../../dataplane/ruleset.ts";
import { INET_TABLE } from "../table_part.ts";

const FAMILIES = [4, 6] as const;

/** Addresses of the nodes to which no router is on the way; followed by the number of the family. */
const ON_LINK = "on_link";

/** The comment of the rules that drop. */
export const KNOWN_PATH_REASON = "packet too big about a path without routers";

/** The end that a packet of the connection goes to, by the direction of an error about that packet. */
const QUOTED_DESTINATION = {
  4: { original: "ct original ip saddr", reply: "ct reply ip saddr" },
  6: { original: "ct original ip6 saddr", reply: "ct reply ip6 saddr" },
} as const;

/** "Packet too big", which lowers the MTU of the path to where the quoted packet goes. */
export const TOO_BIG: Readonly<Record<4 | 6, readonly Match[]>> = {
  4: [equals("icmp type", "destination-unreachable"), equals("icmp code", "frag-needed")],
  6: [equals("icmpv6 type", "packet-too-big")],
};

/** The sets of {@link knownPathRules}. */
export const knownPathSets: readonly SetDefinition[] = FAMILIES.map((family) => ({
  name: `${ON_LINK}${family}`,
  key: [familyWords[family].type],
}));

/**
 * The rules by which nobody lowers the MTU of a path to a node on the link (ENDS-06). Only routers say that a packet is too big, and
 * there is none on such a path, so this can only be forged, by whoever is on the link or may send there with another's address.
 * The connections of the node and those of its pods that leave with its address are meant, those of the tunnel among them.
 *
 * An error goes the way of the answers to the packet that it quotes: one of the direction "reply" is about a packet from the
 * first end to the second.
 */
export const knownPathRules: readonly Rule[] = FAMILIES.flatMap((family) =>
  (["original", "reply"] as const).map((direction) =>
    dropping(
      KNOWN_PATH_REASON,
      anyFlag("ct state", "related"),
      ...TOO_BIG[family],
      equals("ct direction", direction),
      inSet(QUOTED_DESTINATION[family][direction], `${ON_LINK}${family}`),
    ),
  ),
);

/** Claims the nodes to which no router is on the way, as routes and Nodes change. */
export class KnownPaths {
  readonly #ruleset: Pick<Ruleset, "claim">;
  #known: ReadonlySet<Address> = new Set();

  /** @param ruleset whose tables have {@link knownPathSets} */
  constructor(ruleset: Pick<Ruleset, "claim">) {
    this.#ruleset = ruleset;
  }

  /** Takes all addresses of such nodes. */
  set(addresses: ReadonlySet<Address>): void {
    for (const known of this.#known) if (!addresses.has(known)) this.#claim(known, []);
    for (const address of addresses) if (!this.#known.has(address)) this.#claim(address, [elementOf(address)]);
    this.#known = addresses;
  }

  #claim(address: Address, elements: readonly Claim[]): void {
    this.#ruleset.claim(`path to ${formatAddress(address)}`, elements);
  }
}

function elementOf(address: Address): Claim {
  return { table: INET_TABLE, set: `${ON_LINK}${familyOf(address)}`, element: { key: [address] } };
}
