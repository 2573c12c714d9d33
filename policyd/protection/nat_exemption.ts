import { TRANSPORT_OF } from "../../objects/protocol.ts";
import { familyOf, FAMILIES } from "../../kernel/ip/address.ts";
import { concatenation, lookup } from "../../kernel/nftables/model/expression.ts";
import { familyWords } from "../../kernel/nftables/model/family_words.ts";
import type { Chain, SetDefinition } from "../../kernel/nftables/model/object.ts";
import { type Rule, rule } from "../../kernel/nftables/model/statement.ts";
import type { DesiredElement } from "../ruleset/desired/desired_element.ts";
import { INET_TABLE, type TablePart } from "../ruleset/table_part.ts";
import type { ProtectedSocket } from "../../objects/socket_refusal.ts";

/** Before all hooks that translate destinations: ours, kube-proxy's, portmap's and Docker's are at -110 to -99. */
const PRIORITY = -120;

/** Name of the maps from address, protocol and port to the same address; the family's digit follows. */
const KEPT = "kept";

/** The maps of {@link keptChains}. */
export const keptSets: readonly SetDefinition[] = FAMILIES.map((family) => {
  const { type } = familyWords[family];
  return { name: `${KEPT}${family}`, key: [type, "inet_proto", "inet_service"], data: [type] };
});

/**
 * The rules that translate a connection to a protected socket to its own destination. This settles the destination in
 * the kernel: nf_nat_inet_fn evaluates no further chain for a connection that has a translation. So no rule of a
 * Service or host port, ours or another program's, redirects it. The packet and `ct status` stay unchanged.
 */
const keep: readonly Rule[] = FAMILIES.map((family) =>
  rule({
    kind: "dnat",
    target: {
      lookup: lookup(concatenation(familyWords[family].destination, "meta l4proto", "th dport"), `${KEPT}${family}`),
      family: family === 4 ? "ip" : "ip6",
      hasPort: false,
    },
  }),
);

/** The hooks, present while a socket is protected: each new connection costs one lookup, other packets nothing. */
export const keptChains: readonly Chain[] = (["prerouting", "output"] as const).map((hook) => ({
  name: `${KEPT}_${hook}`,
  base: { type: "nat", hook, priority: PRIORITY, policy: "accept" },
  rules: keep,
}));

/** Returns the inet table's part that exempts protected sockets from NAT (CLAIM-04), without {@link keptChains}. */
export function keptSockets(): TablePart {
  return { sets: keptSets, chains: [] };
}

/** Returns the element of one socket in {@link keptSets}. */
export function keptElement({ address, protocol, port }: ProtectedSocket): DesiredElement {
  const key = [address, TRANSPORT_OF[protocol], port];
  return { table: INET_TABLE, set: `${KEPT}${familyOf(address)}`, element: { key, data: [address] } };
}
