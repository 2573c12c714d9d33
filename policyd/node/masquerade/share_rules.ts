import { hash } from "node:crypto";
import { type Address, FAMILIES, familyOf } from "../../../kernel/ip/address.ts";
import { lookup, randomNumber } from "../../../kernel/nftables/model/expression.ts";
import { familyWords } from "../../../kernel/nftables/model/family_words.ts";
import type { Chain } from "../../../kernel/nftables/model/object.ts";
import {
  anyFlag,
  clearMarkBits,
  equals,
  hasBit,
  jumpTo,
  oneOf,
  returnToCaller,
  rule,
  type Statement,
} from "../../../kernel/nftables/model/statement.ts";
import type { DesiredElement } from "../../ruleset/desired/desired_element.ts";
import { INET_TABLE, type TablePart } from "../../ruleset/table_part.ts";
import { fromLocalPod } from "../../services/rules/nat_part.ts";
import { toPod } from "../tables/tunnel_guard.ts";
import type { Share } from "./port_ranges.ts";
import { hiding, masqueradeConditions, masqueradeSets } from "../../../cni/node_rules/masquerade.ts";

/** The map from a pod's address to the first port of its share; the digit of the family follows. */
const POD_SHARES = "pod_ports";
/** The map from the first port of a share to the chain that masquerades with it. */
const SHARE_CHAINS = "port_shares";

/** The chain for packets that Services masquerade. */
export const HIDDEN_PODS = "hidden_pods";

/** The protocols whose connections take a port of the node, or an identifier that is likewise one per connection. */
const PORTED = ["icmp", "tcp", "udp", "ipv6-icmp", "sctp"] as const;

/** Clears the priority, in which the rules carry the share, before the packet leaves. */
export const clearPriority: Statement = { kind: "clear priority" };

const masquerade = { kind: "masquerade" } as const satisfies Statement;

/**
 * Returns the part of the inet table that gives each pod leaving with the node's address its own ports (POD-25), so
 * that no pod uses up the ports of another or of the node. The chains of shares change with their number ({@link
 * shareChain}); a pod is only an element in a map.
 *
 * The kernel could count a pod's connections to a destination (`ct count`) instead, but it then walks all of them for
 * each new one, and a set of all pairs of pod and destination would be one more table for a pod to fill.
 *
 * A pod that a Service sends to another pod needs no port of the node: it keeps its address (XIP-02).
 *
 * @param hiddenBit mark bit of packets that Services masquerade; undefined where another program serves Services
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
          chains: [
            {
              name: HIDDEN_PODS,
              rules: [
                ...FAMILIES.map((family) =>
                  rule(fromLocalPod(family), ...toPod(family), clearMarkBits(hiddenBit), returnToCaller),
                ),
                ...FAMILIES.map((family) => rule(...masqueradeInShare(family))),
              ],
            },
          ],
          // Comes before the rule of Services that masquerades all other senders.
          shared: {
            nat_postrouting: [rule(anyFlag("ct status", "dnat"), hasBit("meta mark", hiddenBit), jumpTo(HIDDEN_PODS))],
          },
        }),
  };
}

/**
 * Returns the end of a postrouting NAT rule: the packet's source becomes the node's address with a port of the pod's
 * share. A packet that comes from no pod continues with the next rule.
 */
export function masqueradeInShare(family: 4 | 6): readonly Statement[] {
  return [
    { kind: "set priority from", from: lookup(familyWords[family].source, `${POD_SHARES}${family}`) },
    { kind: "vmap", key: "meta priority", map: SHARE_CHAINS },
  ];
}

/**
 * Returns the chain of a share. Its name states its content, like the name of every chain that comes and goes. Packets of
 * other protocols go on with the next rule, which drops them (cni/node_rules/masquerade.ts).
 */
export function shareChain(share: Share): Chain {
  const drawn = share.map((ports, index) => {
    const left = share.length - index;
    const chosen = left === 1 ? [] : [equals(randomNumber(left), 0)];
    return rule(oneOf("meta l4proto", PORTED), ...chosen, clearPriority, { ...masquerade, ports });
  });
  const [{ first, last }, ...others] = share;
  const further = others.length === 0 ? "" : `_${hash("sha256", JSON.stringify(others)).slice(0, 24)}`;
  return { name: `ports_${first}_${last}${further}`, rules: drawn };
}

/** Returns the element that leads to a share's chain. */
export function shareElement(share: Share): DesiredElement {
  const data = { kind: "jump", chain: shareChain(share).name } as const;
  return { table: INET_TABLE, set: SHARE_CHAINS, element: { key: [share[0].first], data } };
}

/** Returns the element that assigns a share to a pod's address. */
export function podShareElement(address: Address, [{ first }]: Share): DesiredElement {
  return {
    table: INET_TABLE,
    set: `${POD_SHARES}${familyOf(address)}`,
    element: { key: [address], data: [first] },
  };
}

/** Returns the part of the inet table that gives packets of pods with `ipMasq` the node's address (B11). */
export function podMasquerade(): TablePart {
  return { sets: masqueradeSets, chains: [] };
}

/** The hook of `ipMasq`, which exists while a pod of the node has it; ports come from the pod's own share (POD-25). */
export const podMasqueradeHooks: readonly Chain[] = [
  {
    name: "ipmasq_postrouting",
    base: { type: "nat", hook: "postrouting", priority: 99, policy: "accept" },
    rules: FAMILIES.flatMap((family) => {
      const conditions = masqueradeConditions(family);
      return [rule(...conditions, ...masqueradeInShare(family)), ...hiding(...conditions)];
    }),
  },
];
