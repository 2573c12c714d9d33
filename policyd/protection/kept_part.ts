import type { Address } from "../../kernel/ip/address.ts";
import { familyOf } from "../../kernel/ip/address.ts";
import { concatenation, lookup } from "../../kernel/nftables/expression.ts";
import { familyWords } from "../../kernel/nftables/family_words.ts";
import type { Chain, SetDefinition } from "../../kernel/nftables/object.ts";
import type { Rule } from "../../kernel/nftables/statement.ts";
import { rule } from "../../kernel/nftables/statement.ts";
import type { Claim } from "../dataplane/claim.ts";
import type { TablePart } from "../node/table_part.ts";
import { INET_TABLE } from "../node/table_part.ts";
import type { ProtectedSocket } from "./refusal.ts";

const FAMILIES = [4, 6] as const;
const NFT_PROTOCOLS = { TCP: "tcp", UDP: "udp", SCTP: "sctp" } as const;

/** Before all hooks that translate destinations: ours, kube-proxy's, portmap's and Docker's are at -110 to -99. */
const PRIORITY = -120;

/** By address, protocol and port the same address; each by this name and the family's number. */
const KEPT = "kept";

/** The maps of {@link keptChains}. */
export const keptSets: readonly SetDefinition[] = FAMILIES.map((family) => {
  const { type } = familyWords[family];
  return { name: `${KEPT}${family}`, key: [type, "inet_proto", "inet_service"], data: [type] };
});

/**
 * Gives a connection to a protected socket the destination that it has. With this the kernel has decided about its destination
 * (nf_nat_inet_fn asks no further chain of a connection that has a translation), so that no rule of a Service or a host port, of ours
 * or of another program, leads it elsewhere. The packet stays as it is, and so does `ct status`.
 */
const keep: readonly Rule[] = FAMILIES.map((family) =>
  rule({
    kind: "dnat",
    target: {
      kind: "map",
      lookup: lookup(concatenation(familyWords[family].destination, "meta l4proto", "th dport"), `${KEPT}${family}`),
      family: family === 4 ? "ip" : "ip6",
      hasPort: false,
    },
  }),
);

/** The hooks, there while a socket is protected: each new connection pays one lookup, and no other packet pays anything. */
export const keptChains: readonly Chain[] = (["prerouting", "output"] as const).map((hook) => ({
  name: `${KEPT}_${hook}`,
  base: { type: "nat", hook, priority: PRIORITY, policy: "accept" },
  rules: keep,
}));

/** The part of the inet table by which connections to protected sockets go where they are sent (CLAIM-04), without {@link keptChains}. */
export function keptSockets(): TablePart {
  return { sets: keptSets, chains: [] };
}

/** The element of one socket in {@link keptSets}. */
export function keptElement({ address, protocol, port }: ProtectedSocket): Claim {
  const key = [address, NFT_PROTOCOLS[protocol], port];
  return { table: INET_TABLE, set: setOf(address), element: { key, data: [address] } };
}

function setOf(address: Address): string {
  return `${KEPT}${familyOf(address)}`;
}
