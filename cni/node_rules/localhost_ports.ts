import { type Family, parseAddress } from "../../kernel/ip/address.ts";
import { LOOPBACK } from "../../kernel/ip/special.ts";
import type { Chain } from "../../kernel/nftables/model/object.ts";
import {
  anyFlag,
  equals,
  inPrefix,
  jumpTo,
  type Match,
  returnToCaller,
  type Rule,
  rule,
  setAddress,
  type Statement,
} from "../../kernel/nftables/model/statement.ts";

/** The chain that changes the destination of a packet to a pod (host_ports.ts). */
export const PUBLISHED = "published";

const HIDE = "hide_localhost";
const SHOW = "show_localhost";
const FROM_LOCALHOST = "from_localhost";

/** No host has this address, so the kernel looks up a route for any source (ip_route_me_harder). */
const ANY_SOURCE = parseAddress("0.0.0.0");

/** Matches connections whose source and destination were both translated, as those from localhost are. */
const isTranslated = [anyFlag("ct status", "snat"), anyFlag("ct status", "dnat")];

/**
 * Translates packets from 127.0.0.0/8 to the pod that has the host port, so that clients on the node's localhost reach
 * host ports without `route_localnet`.
 *
 * The kernel routes no packet with a loopback address to or from a link: it drops such a source on the way out
 * (ip_route_output_key) and such a destination on the way in (ip_route_input_slow; for IPv6 in rt6_device_match).
 * `route_localnet` lifts this for IPv4 and opens the node's localhost to every host on that link (CVE-2020-8558); IPv6
 * has no such setting. So these rules remove the loopback address from the packet where the kernel would check it, and
 * restore it before a socket receives the packet. They change only the packet; the connection keeps the addresses that
 * NAT gave it:
 *
 * 1. Output, before NAT: the source becomes 0.0.0.0 ({@link localhostOutput} and, for a connection's first packet, the
 *    chain `from_localhost`). The kernel then routes to the pod. IPv6 has no check there.
 * 2. Postrouting: the source becomes the address of the bridge, by {@link localhostMasquerade}. The pod sees that
 *    address.
 * 3. Prerouting of the answer, after NAT: the destination, which NAT has just changed back to 127.0.0.1 or ::1, becomes
 *    the bridge's address again (`hide_localhost`), so that the packet is routed to the node itself.
 * 4. Input: the destination becomes the client's address (`show_localhost`).
 *
 * Steps 3 and 4 apply to answers of connections that were translated in both directions. A packet that arrives with a
 * loopback address does not match, and the kernel drops it as before. When another program flushes the rules, packets
 * of such connections are dropped until the rules are restored; nothing is open in between.
 */
export const fromLocalhostChain: Chain = {
  name: FROM_LOCALHOST,
  rules: [
    rule(setAddress("ip saddr", ANY_SOURCE)),
    rule(jumpTo(PUBLISHED)),
    // No pod has this port: the packet continues with its own source.
    rule(setAddress("ip saddr", "ct original ip saddr")),
  ],
};

/** The chains for answers to localhost, steps 3 and 4 of {@link fromLocalhostChain}. */
export const localhostAnswerChains: readonly Chain[] = [
  {
    name: HIDE,
    rules: [
      rule(...toLocalhost(4), equals("ct direction", "reply"), setAddress("ip daddr", "ct reply ip daddr")),
      rule(...toLocalhost(6), equals("ct direction", "reply"), setAddress("ip6 daddr", "ct reply ip6 daddr")),
    ],
  },
  {
    name: SHOW,
    rules: [
      rule(...hasClient(4), setAddress("ip daddr", "ct original ip saddr")),
      rule(...hasClient(6), setAddress("ip6 daddr", "ct original ip6 saddr")),
    ],
  },
];

function toLocalhost(family: Family): readonly Statement[] {
  return [inLoopback(family === 4 ? "ip daddr" : "ip6 daddr"), ...isTranslated];
}

function hasClient(family: Family): readonly Statement[] {
  const client = inLoopback(family === 4 ? "ct original ip saddr" : "ct original ip6 saddr");
  return [anyFlag("ct status", "dnat"), equals("ct direction", "reply"), client];
}

/** Matches a loopback address of the packet or its connection. */
function inLoopback(
  field: "ip saddr" | "ip daddr" | "ip6 saddr" | "ip6 daddr" | "ct original ip saddr" | "ct original ip6 saddr",
): Match {
  return inPrefix(field, LOOPBACK[field.includes("ip6") ? 6 : 4]);
}

/** A rule of destination NAT at output: packets from 127.0.0.0/8 to an address of the node go to `from_localhost`. */
export const fromLocalhost: Rule = rule(inLoopback("ip saddr"), equals("fib daddr type", "local"), {
  kind: "verdict",
  verdict: { kind: "goto", chain: FROM_LOCALHOST },
});

/** Rules for packets from links before {@link PUBLISHED}: none of these packets reaches a port of localhost. */
export const notToLocalhost: readonly Rule[] = [
  rule(inLoopback("ip daddr"), returnToCaller),
  rule(inLoopback("ip6 daddr"), returnToCaller),
];

/** The chain for packets of the node itself, before NAT: for all but a connection's first packet. */
export const localhostOutput = {
  base: { type: "filter", hook: "output", priority: -105, policy: "accept" },
  rules: [
    rule(
      inLoopback("ip saddr"),
      ...isTranslated,
      equals("ct direction", "original"),
      setAddress("ip saddr", ANY_SOURCE),
    ),
  ],
} as const satisfies Omit<Chain, "name">;

/** Rules for postrouting at 100: the pod's answer can be routed only to an address of the node. */
export const localhostMasquerade: readonly Rule[] = [equals("ip saddr", ANY_SOURCE), inLoopback("ip6 saddr")].map(
  (fromClient) => rule(anyFlag("ct status", "dnat"), fromClient, { kind: "masquerade" }),
);

/** The last statement of a rule at prerouting, after NAT, for translated packets. */
export const hideLocalhost: Statement = jumpTo(HIDE);

/** A rule for input, after NAT. */
export const showLocalhost: Rule = rule(anyFlag("ct status", "snat"), jumpTo(SHOW));
