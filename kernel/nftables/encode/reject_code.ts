import type { RuleCode } from "./rule_code.ts";
import type { Statement } from "../model/statement.ts";

/** NFT_REJECT_* */
const RejectType = { ICMP: 0, TCP_RESET: 1, ANY_ICMP: 2 } as const;

/** A reject statement for the kernel, and its text in nft. */
interface Rejection {
  readonly type: number;
  readonly code: number;
  readonly text: string;
}

/** "Port unreachable" of each protocol. */
const replies = { ip: { word: "icmp", code: 3 }, ip6: { word: "icmpv6", code: 4 } } as const;

/**
 * Returns the form of a reject statement after the preceding statements of its rule.
 *
 * nft reads `reject` as the reply of the rule's own protocol, if it has one, and lists it in that form.
 */
export function rejectionOf(
  { network, isTcp }: Pick<RuleCode, "network" | "isTcp">,
  reply: Extract<Statement, { readonly kind: "reject" }>["reply"],
): Rejection {
  if (reply === "tcp reset") {
    return { type: RejectType.TCP_RESET, code: 0, text: `${isTcp ? "" : "meta l4proto tcp "}reject with tcp reset` };
  }
  if (network !== "ip" && network !== "ip6") return { type: RejectType.ANY_ICMP, code: 1, text: "reject" };
  const { word, code } = replies[network];
  return { type: RejectType.ICMP, code, text: `reject with ${word} port-unreachable` };
}
