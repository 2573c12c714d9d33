import type { Address } from "../../../kernel/ip/address.ts";
import { familyOf } from "../../../kernel/ip/address.ts";
import { lookup } from "../../../kernel/nftables/expression.ts";
import { familyWords } from "../../../kernel/nftables/family_words.ts";
import type { Chain } from "../../../kernel/nftables/object.ts";
import type { Statement } from "../../../kernel/nftables/statement.ts";
import { anyFlag, hasBit, jumpTo, oneOf, rule } from "../../../kernel/nftables/statement.ts";
import type { Claim } from "../../dataplane/claim.ts";
import type { TablePart } from "../table_part.ts";
import { INET_TABLE } from "../table_part.ts";
import type { PortRange } from "./port_ranges.ts";

const FAMILIES = [4, 6] as const;

/** The map from a pod's address to its share, by the share's first port; followed by the family's digit. */
const POD_SHARES = "pod_ports";
/** The map from the first port of a share to the chain that masquerades with it. */
const SHARE_CHAINS = "port_shares";

/** Where packets go that Services hide. */
export const HIDDEN_PODS = "hidden_pods";

/** The protocols of which a connection takes a port of the node, or an identifier that is one per connection, too. */
const PORTED = ["icmp", "tcp", "udp", "ipv6-icmp", "sctp"] as const;

/** The priority of a packet has nothing of ours any more when it leaves. */
export const clearPriority: Statement = { kind: "clear priority" };

const masquerade = { kind: "masquerade", isFullyRandom: true } as const satisfies Statement;

/**
 * The part of the inet table by which each pod that leaves with the node's address has ports of its own (POD-25): one pod
 * never uses up the ports of another or of the node. The chains of shares come and go with their number
 * ({@link shareChain}), so a pod is an element in a map.
 *
 * The kernel could count a pod's connections to a destination (`ct count`): it then walks through all of them for each new one, and
 * a set of all pairs of a pod and a destination is one more table that a pod can fill.
 *
 * @param hiddenBit of the mark of packets to which Services give the address of the node; undefined where another program serves them
 */
export function portShares(hiddenBit: number | undefined): TablePart {
  return {
    sets: [
      ...FAMILIES.map((family) => ({
        name: `${POD_SHARES}${family}`,
        key: [familyWords[family].type],
        data: ["classid"] as const,
      })),
      { name: SHARE_CHAINS, key: ["classid"], data: "verdict" },
    ],
    ...(hiddenBit === undefined
      ? { chains: [] }
      : {
          chains: [{ name: HIDDEN_PODS, rules: FAMILIES.map((family) => rule(...masqueradeInShare(family))) }],
          // Before the rule of Services, which hides all other senders.
          shared: {
            nat_postrouting: [rule(anyFlag("ct status", "dnat"), hasBit("meta mark", hiddenBit), jumpTo(HIDDEN_PODS))],
          },
        }),
  };
}

/**
 * The end of a rule of NAT after routing: the source of the packet becomes the node's, with a port of the pod's share. A packet that is
 * of no pod goes on to the next rule.
 */
export function masqueradeInShare(family: 4 | 6): readonly Statement[] {
  return [
    { kind: "set priority from", from: lookup(familyWords[family].source, `${POD_SHARES}${family}`) },
    { kind: "vmap", key: "meta priority", map: SHARE_CHAINS },
  ];
}

/** The chain of a share. Its name says what it does, as that of everything that comes and goes. */
export function shareChain({ first, last }: PortRange): Chain {
  return {
    name: `ports_${first}_${last}`,
    rules: [
      rule(oneOf("meta l4proto", PORTED), clearPriority, { ...masquerade, ports: { first, last } }),
      rule(clearPriority, masquerade),
    ],
  };
}

/** The element that leads to a share's chain. */
export function shareElement(share: PortRange): Claim {
  const data = { kind: "jump", chain: shareChain(share).name } as const;
  return { table: INET_TABLE, set: SHARE_CHAINS, element: { key: [share.first], data } };
}

/** The element that gives a pod's address its share. */
export function podShareElement(address: Address, { first }: PortRange): Claim {
  return {
    table: INET_TABLE,
    set: `${POD_SHARES}${familyOf(address)}`,
    element: { key: [address], data: [first] },
  };
}
